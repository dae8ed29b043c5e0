"""Which item each position of an epoch draws, for any stretch of positions at once.

A sampler is a pure function of (seed, phase, epoch, position): resuming needs a position, not a replay. `stretches`
strings the epochs together into the one global stream of draws, which knows nothing of ranks.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from wam_jax.keys import Phase, Purpose, draw_words, epoch_permutation, integers


class Sampler(Protocol):
    """Random access to the items of an epoch.

    Attributes:
        size: items to draw from.
    """

    @property
    def size(self) -> int: ...

    def items(self, epoch: int, start: int, count: int) -> np.ndarray:
        """Items of positions [start, start + count) of an epoch: int64[count] in [0, size)."""
        ...


@dataclass(eq=False)
class ShuffledEpochs:
    """Every item once an epoch, in a new order each epoch. Holds the orders of the last two epochs."""

    seed: int
    phase: Phase
    size: int
    _orders: dict[int, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def items(self, epoch: int, start: int, count: int) -> np.ndarray:
        return self._order(epoch)[start : start + count]

    def _order(self, epoch: int) -> np.ndarray:
        order = self._orders.get(epoch)
        if order is None:
            order = epoch_permutation(self.seed, self.phase, epoch, self.size)
            # Replaced, never changed: threads of a loader share the sampler.
            self._orders = {old: kept for old, kept in self._orders.items() if abs(old - epoch) == 1} | {epoch: order}
        return order

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_orders": {}}


@dataclass(frozen=True)
class Replacement:
    """Every position draws any item, evenly and independently."""

    seed: int
    phase: Phase
    size: int

    def items(self, epoch: int, start: int, count: int) -> np.ndarray:
        words = draw_words(self.seed, self.phase, epoch, Purpose.ITEM, start, count)
        return integers(words[:, 0], 0, self.size)


@dataclass(frozen=True)
class Sweep:
    """`count` positions spread evenly over the items in their order, the same in every epoch: for validation.

    With more positions than items, every item comes up equally often but for one.
    """

    size: int
    count: int

    def items(self, epoch: int, start: int, count: int) -> np.ndarray:
        del epoch
        return np.arange(start, start + count) * self.size // self.count


@dataclass(frozen=True)
class Stretch:
    """Consecutive positions of one epoch."""

    epoch: int
    start: int
    count: int


def stretches(first: int, count: int, draws_per_epoch: int) -> list[Stretch]:
    """Where the global draws [first, first + count) lie in the epochs."""
    found, stop = [], first + count
    while first < stop:
        epoch, start = divmod(first, draws_per_epoch)
        length = min(stop - first, draws_per_epoch - start)
        found.append(Stretch(epoch, start, length))
        first += length
    return found
