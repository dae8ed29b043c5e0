"""Which episodes train and which validate.

An explicit split in the index wins. Episodes without one are split by a stable hash of their id, so that adding
episodes never moves another one. A split that comes out empty is an error: a training episode is never used instead.
"""

import hashlib
from typing import Literal

import numpy as np

from wam_jax.data.index import Index
from wam_jax.errors import InputError

SPLITS = ("train", "val")
DEFAULT_VALIDATION_FRACTION = 0.1

SplitSource = Literal["auto", "column", "hash"]


def hashed_split(episode_id: str, *, validation_fraction: float = DEFAULT_VALIDATION_FRACTION) -> str:
    """`val` for about `validation_fraction` of all ids, else `train`; a pure function of the id."""
    point = int.from_bytes(hashlib.sha256(episode_id.encode()).digest()[:8], "big") / 2**64
    return "val" if point < validation_fraction else "train"


def split_episodes(
    index: Index,
    split: str,
    *,
    source: SplitSource = "auto",
    validation_fraction: float = DEFAULT_VALIDATION_FRACTION,
) -> np.ndarray:
    """Positions in the index, int64 and ascending, of the episodes of `split`.

    Args:
        index: the store's index.
        split: one of `SPLITS`; any other name that the index's split column holds also works.
        source: `auto` takes the index's split column and a hash where it says nothing, `column` demands that it names a
            split for every episode, `hash` ignores it.
        validation_fraction: for the episodes that a hash decides.
    Raises:
        InputError: no episode is in `split`, or the column is incomplete where it must not be.
    """
    names = np.full(len(index), None, object) if source == "hash" else index.splits.copy()
    unnamed = np.flatnonzero(names == None)  # noqa: E711
    if unnamed.size and source == "column":
        remedy = f"{index.ids[unnamed[0]]!r} and {unnamed.size - 1} more episodes have no split; use 'auto'"
        raise InputError("data.split.source", source, remedy)
    for row in unnamed:
        names[row] = hashed_split(index.ids[row], validation_fraction=validation_fraction)
    rows = np.flatnonzero(names == split)
    if not rows.size:
        remedy = f"no episode of {len(index)} is in it; assign some when writing the store, or see data.split"
        raise InputError(f"split {split!r}", 0, remedy)
    return rows
