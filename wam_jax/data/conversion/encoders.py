"""Frames to latents: the interface that a user's encoder has, and where an encoder comes from.

    --encoder PACKAGE.MODULE:FUNCTION    called without arguments in every process, returns a `LatentEncoder`
    --encoder codec:STORE_OR_FILE        the stand-in codec of a store, or a codec.safetensors
    --encoder stand-in                   a stand-in codec, fitted to the episodes that train

An encoder is a pure function of the frames. For example:

    class WanEncoder:
        record = EncoderRecord(name="wan2.2-vae", kind="vae", spatial_stride=16, temporal_stride=4, channels=48,
                               normaliser="posterior mean, scaled with the VAE's mean and std")

        def encode(self, frames):  # [1 + 4k, H, W, 3] uint8 RGB
            ...                    # [C, 1 + k, H / 16, W / 16] float, scaled as the model reads them
"""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from wam_jax.data.construction.actions import anchors, num_latent_frames
from wam_jax.data.conversion.content import STRIDE
from wam_jax.data.encoders.codec import codec_from_bytes, codec_of, pad_frames
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError

STAND_IN, CODEC = "stand-in", "codec:"
CHOICES = f"{STAND_IN}, {CODEC}STORE_OR_FILE, or MODULE:FUNCTION of your own"


@runtime_checkable
class LatentEncoder(Protocol):
    """What turns video into latents. One with `encode_frame` too gives condition latents."""

    @property
    def record(self) -> EncoderRecord:
        """What the store's manifest says of it."""
        ...

    def encode(self, frames: np.ndarray) -> np.ndarray:
        """`[1 + 4k, H, W, 3]` uint8 RGB to `[C, 1 + k, H / stride, W / stride]`, causal in time."""
        ...


@runtime_checkable
class FrameEncoder(Protocol):
    """The optional second half."""

    def encode_frame(self, frames: np.ndarray) -> np.ndarray:
        """Each frame coded alone: `[n, H, W, 3]` uint8 RGB to `[C, n, H / stride, W / stride]`."""
        ...


@dataclass(frozen=True)
class EncoderChoice:
    """Which encoder, as a value that every process can load it from.

    Attributes:
        text: the argument of `--encoder`.
        codec: content of the stand-in codec's file, where it is one.
    """

    text: str
    codec: bytes | None = None

    def load(self) -> LatentEncoder:
        """Builds it; raises InputError."""
        if self.codec is not None:
            return codec_from_bytes(self.codec, source=self.text)
        return _call(self.text)


def choose(text: str) -> EncoderChoice:
    """Reads the argument of `--encoder`, except `stand-in`, which has to be fitted first; raises InputError."""
    if text.startswith(CODEC):
        return EncoderChoice(text, _read_codec(text.removeprefix(CODEC)))
    choice = EncoderChoice(text)
    choice.load()
    return choice


def encode_video(encoder: LatentEncoder, frames: np.ndarray, *, anchored: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Latents of one episode, and the codes of its anchors where they are wanted and the encoder can tell.

    Args:
        frames: `[R, H, W, 3]` uint8.
    Returns:
        `[C, T, h, w]` each, T = 1 + ceil((R - 1) / 4); the last frame counts as repeated.
    Raises:
        InputError: the encoder gives another shape than it promises, or fails.
    """
    coded = _guarded(encoder.encode, pad_frames(frames))
    latents = _checked(encoder.record, coded, num_latent_frames(len(frames)), frames)
    if not anchored or not isinstance(encoder, FrameEncoder):
        return latents, None
    alone = frames[anchors(latents.shape[1], len(frames))]
    return latents, _checked(encoder.record, _guarded(encoder.encode_frame, alone), len(alone), frames)


def check_record(record: EncoderRecord) -> None:
    """Raises InputError where an encoder's time does not run as the alignment of actions assumes."""
    if record.temporal_stride != STRIDE:
        raise InputError("encoder: temporal_stride", record.temporal_stride, f"{STRIDE}: 1 + {STRIDE}k frames to 1 + k")
    if record.spatial_stride < 1 or record.channels < 1:
        raise InputError("encoder", (record.spatial_stride, record.channels), "a stride and channels of 1 and more")


def _guarded(function: Callable[[np.ndarray], np.ndarray], frames: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(function(frames))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            "--encoder", f"{type(error).__name__}: {error}", "an encoder that takes these frames"
        ) from error


def _checked(record: EncoderRecord, latents: np.ndarray, count: int, frames: np.ndarray) -> np.ndarray:
    stride = record.spatial_stride
    wanted = (record.channels, count, frames.shape[1] // stride, frames.shape[2] // stride)
    if latents.shape != wanted or not np.issubdtype(latents.dtype, np.floating):
        raise InputError("--encoder", (latents.shape, str(latents.dtype)), f"floats of shape {wanted}")
    return latents


def _read_codec(place: str) -> bytes:
    path = Path(place)
    if path.is_file():
        return path.read_bytes()
    codec = codec_of(open_store(place))
    if codec is None:
        raise InputError("--encoder", f"{CODEC}{place}", "a store that keeps its codec, or a codec.safetensors")
    return codec.to_bytes()


@functools.cache
def _call(text: str) -> LatentEncoder:
    """Once a process: an encoder may be large."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise InputError("--encoder", text, CHOICES)
    try:
        made = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError) as error:
        raise InputError("--encoder", text, f"a function that can be imported ({error}); one of {CHOICES}") from None
    if not isinstance(made, LatentEncoder) or not isinstance(made.record, EncoderRecord):
        raise InputError("--encoder", type(made).__name__, "an object with `record` and `encode` (see LatentEncoder)")
    check_record(made.record)
    return made
