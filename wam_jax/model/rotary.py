"""Three-axis rotary positions applied to heads. The law of angles lives in `wam_jax.sequence.rope`.

The frame axis comes with the data, one phase a video frame or action slot. Row and column are the same for every frame:
constants, built once. Each part of a head is rotated with its own small table, so that no table of whole heads a token
exists. The rotation is in the wide dtype (float32: a stated deviation from the reference's float64).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from wam_jax.model.config import ModelConfig
from wam_jax.sequence.rope import axis_split, phases

ACTION_POSITION = -1.0
"""Row and column of every action slot: off the grid."""


@functools.lru_cache
def video_spatial_phase(config: ModelConfig) -> np.ndarray:
    """Row and column phases of a frame's tokens: float32[P, (h + w) / 2, 2]."""
    rows, columns = np.indices(config.grid, np.float64).reshape(2, -1)
    return _spatial_phase(rows, columns, config.head_dim)


@functools.lru_cache
def action_spatial_phase(config: ModelConfig) -> np.ndarray:
    """The one row and column phase of all action slots: float32[1, (h + w) / 2, 2]."""
    position = np.full(1, ACTION_POSITION)
    return _spatial_phase(position, position, config.head_dim)


def _spatial_phase(rows: np.ndarray, columns: np.ndarray, head_dim: int) -> np.ndarray:
    _, height, width = axis_split(head_dim)
    return np.concatenate([phases(rows, height), phases(columns, width)], axis=-2)


def rotate_heads(x: jax.Array, frame_phase: jax.Array, spatial_phase: np.ndarray, config: ModelConfig) -> jax.Array:
    """Turns the frame, row and column parts of every head by their phases.

    Args:
        x: [R, frames, tokens, heads, head_dim], queries or keys.
        frame_phase: [R, frames, tokens or 1, f / 2, 2].
        spatial_phase: [tokens or 1, (h + w) / 2, 2].
        config: the model's.

    Returns:
        x rotated, in its own dtype.
    """
    frame_size = axis_split(config.head_dim)[0]
    wide = x.astype(config.wide_dtype)
    parts = [
        rotate_pairs(wide[..., :frame_size], frame_phase[..., None, :, :]),
        rotate_pairs(wide[..., frame_size:], jnp.asarray(spatial_phase)[..., None, :, :]),
    ]
    return jnp.concatenate(parts, axis=-1).astype(x.dtype)


def rotate_pairs(x: jax.Array, phase: jax.Array) -> jax.Array:
    """Turns the interleaved pairs (2j, 2j + 1) of x [..., d] by the angles of phase [..., d / 2, 2]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = phase[..., 0], phase[..., 1]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)
