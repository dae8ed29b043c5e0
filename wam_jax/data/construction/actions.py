"""Which raw frames and which raw actions belong to a latent frame: the rules of `wan_causal_stride4`.

A causal encoder of stride s turns R raw frames into T = 1 + ceil((R - 1) / s) latent frames. Latent frame 0 covers raw
frame 0; latent frame k >= 1 covers raw frames [1 + s (k - 1), 1 + s k) and is *anchored* at the last of them,
min(s k, R - 1).

Actions come in groups of A, one group per latent frame: group k >= 1 holds the actions that lead from the anchor of
frame k - 1 to the anchor of frame k, raw rows A (k - 1) .. A k - 1. Group 0 has no such actions and is filled. With 17
raw rows and A = 4 (z is the fill, - padding):

    start 0, 5 frames    z | 0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13 14 15
    start 1, 3 frames    z | 4 5 6 7 | 8 9 10 11
    start 3, 4 frames    z | 12 13 14 15 | 16 - - - | - - - -

By default the fill is masked: it is neither supervised nor attended to. The reference supervises it (`fill_group =
"supervised"`).
"""

from typing import Literal, get_args

import numpy as np

from wam_jax.errors import InputError

FillGroup = Literal["masked", "supervised"]
FillValue = Literal["zero", "first"]


def num_latent_frames(raw_frames: int, stride: int = 4) -> int:
    """T for R raw frames; the last raw frame counts as repeated up to 1 + s (T - 1)."""
    return 1 + -(-(raw_frames - 1) // stride)


def anchors(frames: int, raw_frames: int, stride: int = 4) -> np.ndarray:
    """Raw frame at which each of `frames` latent frames is anchored, int64 `[frames]`."""
    return np.minimum(stride * np.arange(frames), raw_frames - 1)


def source_span(frame: int, raw_frames: int, stride: int = 4) -> range:
    """Raw frames that latent frame `frame` covers; empty past the end of the video."""
    start = 0 if frame == 0 else 1 + stride * (frame - 1)
    return range(min(start, raw_frames), min(1 + stride * frame, raw_frames))


def align_actions(
    raw: np.ndarray,
    *,
    frames: int,
    actions_per_frame: int,
    start: int = 0,
    source_frames: int | None = None,
    fill_group: FillGroup = "masked",
    fill_value: FillValue = "zero",
) -> tuple[np.ndarray, np.ndarray]:
    """Groups the actions of latent frames [start, start + frames).

    Args:
        raw: `[rows, D]`, all actions of the episode; row i leads from raw step i to i + 1.
        frames: how many groups to give; they may run past the end of the episode.
        actions_per_frame: A.
        source_frames: latent frames of the episode's video. Actions that fall into a frame past them are masked; with
            None they keep mask 1, as in the reference, where only the loss range removes them.
        fill_group: whether group 0 is masked (0) or supervised (1).
        fill_value: what group 0 holds: zeros, or the first action that follows, for absolute targets.
    Returns:
        Actions `[frames * A, D]` in the dtype of `raw`, and their mask `[frames * A, D]` float32; rows past the end of
        `raw` are zero with mask 0.
    """
    A = actions_per_frame
    row = A * (start - 1) + np.arange(A * frames)
    present = (row >= 0) & (row < len(raw))
    actions = np.where(present[:, None], raw[np.clip(row, 0, len(raw) - 1)], np.zeros((), raw.dtype))
    if source_frames is not None:
        present &= np.arange(A * frames) < A * (source_frames - start)
    mask = np.broadcast_to(present[:, None], actions.shape).astype(np.float32)
    return fill_first_group(actions, mask, actions_per_frame=A, fill_group=fill_group, fill_value=fill_value)


def fill_first_group(
    actions: np.ndarray,
    mask: np.ndarray | None,
    *,
    actions_per_frame: int,
    fill_group: FillGroup = "masked",
    fill_value: FillValue = "zero",
) -> tuple[np.ndarray, np.ndarray]:
    """Makes group 0 the fill, as a segment that starts inside an episode needs it.

    Args:
        actions: `[slots, D]`, whose group 0 leads into the first frame.
        mask: `[slots, D]`, or None for all ones.
        actions_per_frame, fill_group, fill_value: as in `align_actions`.
    Returns:
        Copies of both.
    """
    for name, value, kind in (("fill_group", fill_group, FillGroup), ("fill_value", fill_value, FillValue)):
        if value not in get_args(kind):
            raise InputError(name, value, f"one of {get_args(kind)}")
    A = actions_per_frame
    actions = actions.copy()
    mask = np.ones(actions.shape, np.float32) if mask is None else mask.copy()
    follows = fill_value == "first" and len(actions) > A
    actions[:A] = actions[A] if follows else 0
    mask[:A] = fill_group == "supervised"
    return actions, mask
