"""Which episodes train and which validate.

An explicit split in the index wins. Episodes without one are split by a stable hash of their id, so that adding
episodes never moves another one. A split that comes out empty is an error: a training episode is never used instead.
"""

import hashlib

import numpy as np

from wam_jax.data.index import Index
from wam_jax.errors import InputError

SPLITS = ("train", "val")
DEFAULT_VALIDATION_FRACTION = 0.1


def hashed_split(episode_id: str, *, validation_fraction: float = DEFAULT_VALIDATION_FRACTION) -> str:
    """`val` for about `validation_fraction` of all ids, else `train`; a pure function of the id."""
    point = int.from_bytes(hashlib.sha256(episode_id.encode()).digest()[:8], "big") / 2**64
    return "val" if point < validation_fraction else "train"


def split_episodes(index: Index, split: str, *, validation_fraction: float = DEFAULT_VALIDATION_FRACTION) -> np.ndarray:
    """Positions in the index, int64 and ascending, of the episodes of `split`.

    Args:
        split: one of `SPLITS`; any other name that the index's split column holds also works.
        validation_fraction: for the episodes that the index gives no split.
    Raises:
        InputError: no episode is in `split`.
    """
    names = index.splits.copy()
    for i in np.flatnonzero(names == None):  # noqa: E711
        names[i] = hashed_split(index.ids[i], validation_fraction=validation_fraction)
    rows = np.flatnonzero(names == split)
    if not rows.size:
        raise InputError(
            f"split {split!r}", 0, f"no episode of {len(index)} is in it; assign some when writing the store"
        )
    return rows
