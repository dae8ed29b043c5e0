"""Which text keys a token reads: all text of its own sample, its chunk's proprioception token, the mode token.

The keys of a sample are `[text | proprio tokens | mode token]`. Text padding is not masked: zero tokens take part, as
in training of the reference family. Of two or more proprio tokens a query reads the one of its chunk, a single one is
read by all; chunks are counted here on each copy's own frames 0, 1, ... without the shift a prefix gives elsewhere.
"""

from typing import Literal

import numpy as np

from wam_jax.sequence.geometry import SequenceGeometry
from wam_jax.sequence.programs import Kind
from wam_jax.sequence.visibility import base_chunk

TEXT_RANGES = 3
Stream = Literal["video", "action"]


def proprio_token_of_frame(geometry: SequenceGeometry, stream: Stream, num_proprio: int) -> np.ndarray:
    """The proprio token each frame of both copies of a stream reads: int64[2 * frames], -1 for none."""
    frames = np.arange(geometry.frames_of(Kind.VN if stream == "video" else Kind.AN))
    if num_proprio < 2:
        token = np.full_like(frames, num_proprio - 1)
    else:
        token = base_chunk(geometry, frames)
        token = np.where((token >= 0) & (token < num_proprio), token, -1)
    return np.tile(token, 2)


def text_visibility(
    geometry: SequenceGeometry,
    stream: Stream,
    num_text: int,
    num_proprio: int,
    mode_token: bool,  # noqa: FBT001 - the public signature has it by position
) -> np.ndarray:
    """The cross-attention mask of a stream: bool[tokens of both copies, num_text + num_proprio + mode_token]."""
    token = proprio_token_of_frame(geometry, stream, num_proprio)
    token = np.repeat(token, geometry.tokens_per_frame(Kind.VN if stream == "video" else Kind.AN))
    text = np.ones((len(token), num_text), bool)
    proprio = token[:, None] == np.arange(num_proprio)
    mode = np.ones((len(token), int(mode_token)), bool)
    return np.concatenate([text, proprio, mode], axis=1)
