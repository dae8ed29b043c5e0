"""Proprioception of a sample: which field it comes from, and which state each frame or chunk is given.

All frames of a chunk share one state, the last one strictly before the chunk:

    chunk size 2                frame   0  1  2  3  4
    additive, origin 0          state   -  -  1  1  3      - is the zero vector: nothing lies before the sample
    additive, origin 1          state   0  0  0  2  2
    with a prefix, origin 0     state   p  p  1  1  3      p is the anchor, the state of the prefix frame
    text tokens, per chunk      state   0     1     3      the first chunk takes frame 0 instead

States come from `proprio_context_frames` (one a latent frame), else from `state` (one a raw frame, read at the latent
frames' anchors), else from `proprio_context_state` (one a chunk), whose chunks are those of the whole episode and must
be the sample's. A sample with nothing but `state` has one text token, its first state. Masked entries are zero.
"""

from collections.abc import Mapping

import numpy as np

from wam_jax.data.storage.index import ABSENT, Index

Arrays = Mapping[str, np.ndarray]
FRAME_FIELD, STATE_FIELD, CHUNK_FIELD = "proprio_context_frames", "state", "proprio_context_state"


def has_frame_states(index: Index) -> np.ndarray:
    """Which episodes know the state at every latent frame: bool[episodes]."""
    return np.any([index.extents[name] != ABSENT for name in (FRAME_FIELD, STATE_FIELD)], axis=0)


def has_chunk_tokens(index: Index) -> np.ndarray:
    """Which episodes have one text token a chunk, rather than a single one: bool[episodes]."""
    return np.any([index.extents[name] != ABSENT for name in (FRAME_FIELD, CHUNK_FIELD)], axis=0)


def num_chunks(num_frames: np.ndarray, chunk_size: np.ndarray) -> np.ndarray:
    """Chunks of a sample whose chunks are counted from frame 0."""
    return -(-num_frames // chunk_size)


def frame_states(arrays: Arrays, temporal_stride: int) -> np.ndarray | None:
    """The state at each latent frame: float32[F, state_dim], or None where the sample knows none."""
    for name, stride in ((FRAME_FIELD, 1), (STATE_FIELD, temporal_stride)):
        if name in arrays:
            return _masked(arrays, name)[::stride]
    return None


def state_of_frames(
    arrays: Arrays, num_frames: int, *, chunk_size: int, origin: int, stride: int, anchor: np.ndarray | None = None
) -> np.ndarray:
    """The state that each frame is given: float32[num_frames, state_dim].

    Args:
        arrays: the sample's fields, one of which must be a source.
        num_frames: F.
        chunk_size: frames of a chunk.
        origin: the frame chunks are counted from.
        stride: raw frames per latent frame.
        anchor: [state_dim], the state of the prefix frame, where there is one.
    """
    frames, states = np.arange(num_frames), frame_states(arrays, stride)
    chunk = np.maximum(frames - origin, 0) // chunk_size
    if states is None:
        table = _masked(arrays, CHUNK_FIELD)
        return table[chunk] if anchor is None else np.concatenate([anchor[None], table])[chunk + 1]
    if anchor is not None:
        after = (frames - origin) // chunk_size * chunk_size + origin
        return np.concatenate([anchor[None], states])[np.clip(after, 0, len(states))]
    before = origin + chunk * chunk_size - 1
    return np.where(before[:, None] >= 0, states[np.clip(before, 0, len(states) - 1)], np.float32(0))


def state_tokens(arrays: Arrays, num_frames: int, *, chunk_size: int, origin: int, stride: int) -> np.ndarray:
    """The states that become text tokens: float32[tokens, state_dim]; arguments as in `state_of_frames`."""
    states = frame_states(arrays, stride)
    if states is not None and FRAME_FIELD not in arrays and CHUNK_FIELD not in arrays:
        return states[:1]
    if states is None:
        return _masked(arrays, CHUNK_FIELD)
    return states[np.clip(np.arange(0, num_frames, chunk_size) + origin - 1, 0, num_frames - 1)]


def _masked(arrays: Arrays, name: str) -> np.ndarray:
    values = np.asarray(arrays[name], np.float32)
    mask = arrays.get(f"{name}_mask")
    return values if mask is None else values * np.asarray(mask, np.float32)
