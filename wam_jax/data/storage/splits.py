"""Which episodes train and which validate.

An explicit split in the index wins. Episodes without one are split by a stable hash of their id, so that adding
episodes never moves another one. Whole tasks or listed episodes can be held out instead. A split that comes out empty
is an error: a training episode is never used instead.
"""

import hashlib
from collections.abc import Iterable
from typing import Literal

import numpy as np

from wam_jax.data.storage.index import Index
from wam_jax.errors import InputError

SPLITS = ("train", "val")
DEFAULT_VALIDATION_FRACTION = 0.1

SplitSource = Literal["auto", "column", "hash", "task", "list"]


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
    validation_tasks: Iterable[str] = (),
    validation_episodes: Iterable[str] = (),
) -> np.ndarray:
    """Positions in the index, int64 and ascending, of the episodes of `split`.

    Args:
        index: the store's index.
        split: one of `SPLITS`; any other name that the index's split column holds also works.
        source: `auto` takes the index's split column and a hash where it says nothing, `column` demands that it names a
            split for every episode, `hash` ignores it. `task` and `list` ignore it too: the episodes of
            `validation_tasks`, or those of `validation_episodes`, validate and all others train.
        validation_fraction: for the episodes that a hash decides.
        validation_tasks: names of tasks.
        validation_episodes: ids.
    Raises:
        InputError: no episode is in `split`, the column is incomplete where it must not be, or a task or an id that is
            held out is not in the index.
    """
    match source:
        case "task":
            names = held_out(index.tasks, validation_tasks, field="data.split.val_tasks")
        case "list":
            names = held_out(index.ids, validation_episodes, field="data.split.val_episodes")
        case _:
            names = _by_column(index, source, validation_fraction)
    rows = np.flatnonzero(names == split)
    if not rows.size:
        remedy = f"no episode of {len(index)} is in it; assign some when writing the store, or see data.split"
        raise InputError(f"split {split!r}", 0, remedy)
    return rows


def held_out(values: np.ndarray, validation: Iterable[str], *, field: str) -> np.ndarray:
    """`val` for the values that are in `validation`, else `train`.

    Args:
        values: str objects `[episodes]`.
        validation: what is held out.
        field: for messages.
    Returns:
        str objects `[episodes]`.
    Raises:
        InputError: nothing is held out, or something that is not there.
    """
    wanted = set(validation)
    missing = sorted(wanted - set(values))
    if missing or not wanted:
        remedy = f"some of {', '.join(sorted(set(values))[:8])}"
        raise InputError(field, missing[0] if missing else None, remedy)
    names = np.full(len(values), "train", object)
    names[[value in wanted for value in values]] = "val"
    return names


def _by_column(index: Index, source: SplitSource, validation_fraction: float) -> np.ndarray:
    names = np.full(len(index), None, object) if source == "hash" else index.splits.copy()
    unnamed = np.flatnonzero(names == None)  # noqa: E711
    if unnamed.size and source == "column":
        remedy = f"{index.ids[unnamed[0]]!r} and {unnamed.size - 1} more episodes have no split; use 'auto'"
        raise InputError("data.split.source", source, remedy)
    for row in unnamed:
        names[row] = hashed_split(index.ids[row], validation_fraction=validation_fraction)
    return names
