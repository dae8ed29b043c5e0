"""Bin packing: samples of known cost into packs of a fixed capacity.

    in_order    contiguous groups in the order given, closed when the next sample does not fit
    first_fit   longest first, into the earliest pack with room
    best_fit    longest first, into the pack with the least room that is enough

A sample is never split, dropped or repeated; ties go to the earlier sample. Inside a pack samples keep their order.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Literal

import numpy as np

Packer = Literal["in_order", "first_fit", "best_fit"]
_STEPS_OF_LOAD = 100


def pack(costs: np.ndarray, capacity: int, packer: Packer) -> list[np.ndarray]:
    """Packs samples.

    Args:
        costs: int[samples], positive.
        capacity: largest sum of costs of a pack.
        packer: how.

    Returns:
        One int64 array of ascending sample numbers a pack.

    Raises:
        ValueError: a sample costs more than the capacity.
    """
    if len(costs) and costs.max() > capacity:
        raise ValueError(f"sample {costs.argmax()} costs {costs.max()}, more than the capacity of {capacity}")
    pack_of = _PACKERS[packer](costs, capacity)
    order = np.argsort(pack_of, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(pack_of[order])) + 1) if len(costs) else []


def even_packs(costs: np.ndarray, capacity: int, packer: Packer, *, count: int) -> list[np.ndarray]:
    """Packs samples into at most `count` packs, none much fuller than it must be.

    A pack costs what the fullest of its call costs, so room that is left over is better spread than left in one pack.
    The capacity is lowered, by halves, as far as the packer still needs no more packs: to a hundredth of a mean load.

    Args:
        costs: int[samples], positive.
        capacity: as of `pack`.
        packer: how.
        count: packs that there may be; at least as many as `pack` makes.
    """
    packs, high = pack(costs, capacity, packer), capacity
    mean = -(-int(costs.sum()) // max(1, count))
    low = max(mean, int(costs.max(initial=0)))
    while high - low > mean // _STEPS_OF_LOAD:
        middle = (low + high) // 2
        tried = pack(costs, middle, packer)
        if len(tried) <= count:
            packs, high = tried, middle
        else:
            low = middle + 1
    return packs


def _longest_first(costs: np.ndarray) -> list[int]:
    return np.argsort(-costs, kind="stable").tolist()


def _in_order(costs: np.ndarray, capacity: int) -> np.ndarray:
    ends = np.cumsum(costs)
    pack_of, start, number = np.empty(len(costs), np.int64), 0, 0
    while start < len(costs):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + capacity, side="right"))
        pack_of[start:stop] = number
        start, number = stop, number + 1
    return pack_of


def _best_fit(costs: np.ndarray, capacity: int) -> np.ndarray:
    """Keeps the open packs sorted by (room, number)."""
    pack_of, packs, count = np.empty(len(costs), np.int64), [], 0
    sizes = costs.tolist()
    for sample in _longest_first(costs):
        at = bisect_left(packs, (sizes[sample], -1))
        if at == len(packs):
            room, number = capacity, count
            count += 1
        else:
            room, number = packs.pop(at)
        pack_of[sample] = number
        insort(packs, (room - sizes[sample], number))
    return pack_of


def _first_fit(costs: np.ndarray, capacity: int) -> np.ndarray:
    """Finds the earliest pack with room in a tournament tree over the rooms: node i has the children 2i and 2i + 1."""
    leaves = 1 << max(0, len(costs) - 1).bit_length()
    room = [capacity] * (2 * leaves)
    pack_of, sizes = np.empty(len(costs), np.int64), costs.tolist()
    for sample in _longest_first(costs):
        node = 1
        while node < leaves:
            node = 2 * node if room[2 * node] >= sizes[sample] else 2 * node + 1
        pack_of[sample] = node - leaves
        room[node] -= sizes[sample]
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    return pack_of


_PACKERS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "in_order": _in_order,
    "first_fit": _first_fit,
    "best_fit": _best_fit,
}
