"""What the network reads besides its parameters: NumPy tables with one row per token, nothing shared between tokens.

Tokens of a stream are its noisy copy, then its clean copy, frame by frame.
"""

from dataclasses import dataclass

import jax
import numpy as np

from tests.restatement.prepare import Inputs
from tests.restatement.visibility import VIDEO, text_visible, visible


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What the parameters do not say by themselves."""

    heads: int
    head_dim: int
    freq_dim: int
    patch: tuple[int, int] = (1, 1)
    eps: float = 1e-6


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class StreamTables:
    """One stream, `N` tokens."""

    features: np.ndarray  # [N, in]
    sinusoids: np.ndarray  # [N, freq_dim]
    angles: np.ndarray  # [N, head_dim/2]
    states: np.ndarray | None  # [N, state_dim]
    text_mask: np.ndarray  # bool[N, context]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class Tables:
    """One sample: both streams, who sees whom, and the parts of the text context."""

    streams: tuple[StreamTables, StreamTables]
    mask: np.ndarray  # bool[tokens, tokens]
    text: np.ndarray  # [L, text_dim]
    text_proprio: np.ndarray  # [tokens, state_dim]
    mode: np.ndarray  # one-hot rows [0 or 1, 3]


def patchify(video: np.ndarray, patch: tuple[int, int]) -> np.ndarray:
    """`[C, frames, H, W]` -> `[tokens, C*ph*pw]`, channel slowest inside a token."""
    _, frames, H, W = video.shape
    ph, pw = patch
    tokens = []
    for f in range(frames):
        for row in range(0, H, ph):
            tokens += [video[:, f, row : row + ph, col : col + pw].reshape(-1) for col in range(0, W, pw)]
    return np.stack(tokens)


def sinusoid(timesteps: np.ndarray, size: int) -> np.ndarray:
    """`[n, size]`: cosines of all frequencies, then sines."""
    frequencies = np.exp(-np.log(10000) * np.arange(size // 2) / (size // 2))
    angles = timesteps[:, None] * frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)


def video_positions(inputs: Inputs, columns: int) -> np.ndarray:
    """`[2*Fv*P, 3]`: time, row, column of each video token; a frame has `columns` tokens in a row."""
    g = inputs.geometry
    times = [f + inputs.frame_shift - g.prefix_frames for f in range(g.model_frames)]
    one_copy = [(t, token // columns, token % columns) for t in times for token in range(g.video_tokens_per_frame)]
    return np.array(one_copy * 2, dtype=float)


def action_positions(inputs: Inputs) -> np.ndarray:
    """`[2*F*A, 3]`: the slots of a frame lie between its time and the next frame's, outside the picture."""
    g = inputs.geometry
    A = g.actions_per_frame
    times = [f + inputs.frame_shift + (j + 1) / (A + 1) for f in range(g.num_frames) for j in range(A)]
    return np.array([(t, -1, -1) for t in times] * 2, dtype=float)


def rope_angles(position: np.ndarray, head_dim: int) -> np.ndarray:
    """`[tokens, head_dim/2]`: one angle per pair of neighbouring features; time takes what rows and columns leave."""
    third = head_dim // 3
    sizes = (head_dim - 2 * third, third, third)
    if any(size % 2 for size in sizes):
        raise ValueError(f"head_dim {head_dim} splits into {sizes}, which must all be even")
    axes = []
    for axis, size in enumerate(sizes):
        axes.append(position[:, axis, None] * 10000.0 ** (-2 * np.arange(size // 2) / size))
    return np.concatenate(axes, axis=-1)


def stream_tables(inputs: Inputs, stream: int, arch: Architecture) -> StreamTables:
    g, is_video = inputs.geometry, stream == VIDEO
    per_frame = g.video_tokens_per_frame if is_video else g.actions_per_frame
    timesteps = inputs.video_timesteps if is_video else inputs.action_timesteps
    states = inputs.video_states if is_video else inputs.action_states
    columns = inputs.video.shape[-1] // arch.patch[1]
    counts = {"num_text": len(inputs.text), "num_proprio": len(inputs.text_proprio)}
    return StreamTables(
        features=patchify(inputs.video, arch.patch) if is_video else inputs.actions,
        sinusoids=np.repeat(sinusoid(timesteps, arch.freq_dim), per_frame, axis=0),
        angles=rope_angles(video_positions(inputs, columns) if is_video else action_positions(inputs), arch.head_dim),
        states=None if states is None else np.repeat(np.concatenate([states, states]), per_frame, axis=0),
        text_mask=text_visible(g, stream, **counts, mode_token=inputs.mode is not None),
    )


def tables(inputs: Inputs, arch: Architecture) -> Tables:
    video, action = (stream_tables(inputs, stream, arch) for stream in range(2))
    return Tables(
        streams=(video, action),
        mask=visible(inputs.geometry),
        text=inputs.text,
        text_proprio=inputs.text_proprio,
        mode=np.eye(3)[[] if inputs.mode is None else [inputs.mode]],
    )
