"""Rotary positions on three axes: frame, row, column of a latent. Angles are built in float64 and rounded once.

A head's features split into a frame part, a row part and a column part, in this order; a part of size d turns its
interleaved pairs (2j, 2j + 1) by position * 10000^(-2j / d). A video token sits at (frame, row, column), action slot j
of frame f at (f + (j + 1) / (A + 1), -1, -1), so that the actions of a frame lie between it and the next one.
"""

import numpy as np

BASE = 10000.0


def axis_split(head_dim: int) -> tuple[int, int, int]:
    """Feature counts of the frame, row and column axes.

    Raises:
        ValueError: for a head size whose parts are not all even (16 and 64 are such; 8, 24, 32, 48, 96, 128 are not).
    """
    side = head_dim // 3
    split = (head_dim - 2 * side, side, side)
    if head_dim < 1 or any(size % 2 for size in split):
        raise ValueError(
            f"a head size of {head_dim} splits into {split}; every part must be even (try 24, 32, 96, 128)"
        )
    return split


def phases(positions: np.ndarray, axis_size: int) -> np.ndarray:
    """Cosine and sine of one axis: positions float64[...] to float32[..., axis_size / 2, 2]."""
    frequencies = BASE ** (-np.arange(0, axis_size, 2, dtype=np.float64) / max(axis_size, 1))
    angles = np.asarray(positions, np.float64)[..., None] * frequencies
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


def video_frame_positions(num_frames: int, *, frame_shift: int, prefix_frames: int) -> np.ndarray:
    """Positions of model video frames: float64[Fv]; dataset frame 0 sits at `frame_shift`, the prefix before it."""
    return np.arange(num_frames, dtype=np.float64) + (frame_shift - prefix_frames)


def action_slot_positions(num_frames: int, *, actions_per_frame: int, frame_shift: int) -> np.ndarray:
    """Positions of action slots on the frame axis: float64[F, A]."""
    within = np.arange(1, actions_per_frame + 1, dtype=np.float64) / (actions_per_frame + 1)
    return np.arange(num_frames, dtype=np.float64)[:, None] + frame_shift + within
