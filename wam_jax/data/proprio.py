"""Proprioception of a sample: which field it comes from, and which state each frame or chunk is given.

All frames of a chunk share one state, the last one strictly before the chunk:

    chunk size 2, origin 0      frame   0  1  2  3  4
    additive, per frame         state   -  -  1  1  3      - is the zero vector: nothing lies before the sample
    text tokens, per chunk      state   0     1     3      the first chunk takes frame 0 instead

States come from `proprio_context_frames` (one a latent frame), else from `state` (one a raw frame, read at the latent
frames' anchors), else from `proprio_context_state` (one a chunk), whose chunks are those of the whole episode and must
be the sample's. Masked entries are zero.
"""

from collections.abc import Mapping

import numpy as np

Arrays = Mapping[str, np.ndarray]
FRAME_FIELDS = ("proprio_context_frames", "state")
CHUNK_FIELD = "proprio_context_state"


def num_chunks(num_frames: np.ndarray, chunk_size: np.ndarray) -> np.ndarray:
    """Chunks of a sample whose chunks are counted from frame 0."""
    return -(-num_frames // chunk_size)


def frame_states(arrays: Arrays, temporal_stride: int) -> np.ndarray | None:
    """The state at each latent frame: float32[F, state_dim], or None where the sample knows none."""
    for name, stride in zip(FRAME_FIELDS, (1, temporal_stride), strict=True):
        if name in arrays:
            return _masked(arrays, name)[::stride]
    return None


def state_of_frames(arrays: Arrays, num_frames: int, *, chunk_size: int, origin: int, stride: int) -> np.ndarray:
    """The state that each frame is given: float32[num_frames, state_dim].

    Args:
        arrays: the sample's fields, one of which must be a source.
        num_frames: F.
        chunk_size: frames of a chunk.
        origin: the frame chunks are counted from.
        stride: raw frames per latent frame.
    """
    chunk = np.maximum(np.arange(num_frames) - origin, 0) // chunk_size
    states = frame_states(arrays, stride)
    if states is None:
        return _masked(arrays, CHUNK_FIELD)[chunk]
    before = origin + chunk * chunk_size - 1
    return np.where(before[:, None] >= 0, states[np.clip(before, 0, len(states) - 1)], np.float32(0))


def state_of_chunks(arrays: Arrays, num_frames: int, *, chunk_size: int, stride: int) -> np.ndarray:
    """One state a chunk: float32[chunks, state_dim]; arguments as in `state_of_frames`, chunks counted from frame 0."""
    states = frame_states(arrays, stride)
    if states is None:
        return _masked(arrays, CHUNK_FIELD)
    return states[np.maximum(np.arange(0, num_frames, chunk_size) - 1, 0)]


def _masked(arrays: Arrays, name: str) -> np.ndarray:
    values = np.asarray(arrays[name], np.float32)
    mask = arrays.get(f"{name}_mask")
    return values if mask is None else values * np.asarray(mask, np.float32)
