"""Which item each position of an epoch draws, for any stretch of positions at once.

A sampler is a pure function of (seed, phase, epoch, position): resuming needs a position, not a replay. `stretches`
strings the epochs together into the one global stream of draws, which knows nothing of ranks.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from wam_jax.keys import Phase, Purpose, draw_words, epoch_permutation, integers, uniform


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


@dataclass(frozen=True, eq=False)
class RowWeights:
    """How often the items of each row come up beside those of other rows; the items of one row come up evenly.

    Attributes:
        ends: int64[rows], one past the last item of each row.
        edges: float64[rows + 1], ascending: the weight of all rows before each one, and of all rows.
    """

    ends: np.ndarray
    edges: np.ndarray

    def items(self, words: np.ndarray, first: np.ndarray | int, after: np.ndarray | int) -> np.ndarray:
        """Draws a row by its weight, then any of its items: int64[n].

        Args:
            words: uint64[n, 2 or more].
            first, after: int64[n] or one number, the items to draw from, whole rows.
        """
        low, high = (self.edges[np.searchsorted(self.ends, bound, side="right")] for bound in (first, after))
        # Rounding up may reach the end of the last row, which is the beginning of one that may not be drawn.
        point = np.minimum(low + uniform(words[:, 0]) * (high - low), np.nextafter(high, low))
        row = np.searchsorted(self.edges, point, side="right") - 1
        return integers(words[:, 1], np.where(row > 0, self.ends[row - 1], 0), self.ends[row])


@dataclass(frozen=True, eq=False)
class WeightedReplacement:
    """Every position draws a row by its weight, then any item of that row, independently of all others."""

    seed: int
    phase: Phase
    weights: RowWeights

    @property
    def size(self) -> int:
        return int(self.weights.ends[-1])

    def items(self, epoch: int, start: int, count: int) -> np.ndarray:
        words = draw_words(self.seed, self.phase, epoch, Purpose.ITEM, start, count)
        return self.weights.items(words, 0, self.size)


@dataclass(frozen=True, eq=False)
class RoutedReplacement:
    """Every position draws a route by its share, then any item of that route, evenly or by weight.

    Positions of one group share their route, whoever they are dealt to, so that all rows of a step may train the same
    objective without their number entering the draws.

    Attributes:
        ends: int64[routes], one past the last item of each route.
        shares: float64[routes], adding up to 1.
        group: consecutive positions of an epoch that share a route.
        weights: of the rows of all routes, or None where every item of a route comes up evenly.
    """

    seed: int
    phase: Phase
    ends: np.ndarray
    shares: np.ndarray
    group: int
    weights: RowWeights | None = None

    @property
    def size(self) -> int:
        return int(self.ends[-1])

    def items(self, epoch: int, start: int, count: int) -> np.ndarray:
        route = self.routes(epoch, start, count)
        first = np.concatenate([[0], self.ends[:-1]])[route]
        words = draw_words(self.seed, self.phase, epoch, Purpose.ITEM, start, count)
        if self.weights is not None:
            return self.weights.items(words, first, self.ends[route])
        return integers(words[:, 0], first, self.ends[route])

    def routes(self, epoch: int, start: int, count: int) -> np.ndarray:
        """Routes of positions [start, start + count) of an epoch: int64[count]."""
        first, after = start // self.group, -(-(start + count) // self.group)
        words = draw_words(self.seed, self.phase, epoch, Purpose.ROUTE, first, after - first)
        drawn = np.searchsorted(np.cumsum(self.shares)[:-1], uniform(words[:, 0]), side="right")
        return drawn[np.arange(start, start + count) // self.group - first]


def sweep(ends: np.ndarray, shares: np.ndarray, count: int) -> np.ndarray:
    """`count` items spread evenly over those of each route in their order, the same every time: for validation.

    Routes come one after the other, each as often as its share says, as exactly as whole numbers allow. Of a route's
    items every one comes up equally often but for one.

    Args:
        ends: int64[routes], one past the last item of each route.
        shares: float64[routes], adding up to 1.
        count: how many.
    Returns:
        int64[count].
    """
    exact = shares * count
    counts = np.floor(exact).astype(np.int64)
    most_wanting = np.argsort(counts - exact, kind="stable")
    counts[most_wanting[: count - counts.sum()]] += 1
    route = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(count) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.concatenate([[0], ends[:-1]])
    return first[route] + within * (ends - first)[route] // counts[route]


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
