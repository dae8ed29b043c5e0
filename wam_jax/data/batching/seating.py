"""How the draws of one update take their seats: physical calls, the rows of each, the slots of each row.

Seats are draw numbers within the update, int64[calls, ranks, slots]; `EMPTY` is a slot without a sample. Every draw has
exactly one seat, so that a seating changes neither what an update consumes nor what any sample weighs.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wam_jax.data.batching.costs import sample_slots
from wam_jax.data.batching.dealing import balanced, deal_packs, in_order
from wam_jax.data.batching.packing import Packer, even_packs, pack
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.sequence.layout import RowConstants

EMPTY = -1


class Seating(Protocol):
    """Seats the draws [E] of an update."""

    def seats(self, draws: DrawTable) -> np.ndarray:
        """int64[calls, ranks, slots], every number below E once, `EMPTY` elsewhere."""
        ...


@dataclass(frozen=True)
class Dealt:
    """In the order of the stream, one a rank and round."""

    ranks: int
    microbatch: int

    def seats(self, draws: DrawTable) -> np.ndarray:
        return in_order(len(draws.episode), ranks=self.ranks, microbatch=self.microbatch)


@dataclass(frozen=True)
class Balanced:
    """So that the rows of an update carry even numbers of tokens."""

    ranks: int
    microbatch: int
    constants: RowConstants

    def seats(self, draws: DrawTable) -> np.ndarray:
        return balanced(sample_slots(draws, self.constants), ranks=self.ranks, microbatch=self.microbatch)


@dataclass(frozen=True)
class Budgeted:
    """In packs of at most `max_tokens` self-attention token slots, one pack a row, however many samples that is.

    The logical microbatches of an update are packed together where `pooled`, else each rank packs each of its own.
    Either way all ranks make equally many calls, by plan, as few as the packer can; within these the packs are evened.
    """

    ranks: int
    microbatch: int
    constants: RowConstants
    max_tokens: int
    packer: Packer
    pooled: bool

    def seats(self, draws: DrawTable) -> np.ndarray:
        costs = sample_slots(draws, self.constants)
        if self.pooled:
            least = len(pack(costs, self.max_tokens, self.packer))
            packs = self._even(costs, -(-least // self.ranks) * self.ranks)
            calls = deal_packs(packs, np.array([costs[p].sum() for p in packs]), ranks=self.ranks)
        else:
            calls = self._rank_by_rank(costs)
        return _table(calls)

    def _rank_by_rank(self, costs: np.ndarray) -> list[list[np.ndarray]]:
        calls = []
        for rows in in_order(len(costs), ranks=self.ranks, microbatch=self.microbatch):
            most = max(len(pack(costs[row], self.max_tokens, self.packer)) for row in rows)
            packed, nothing = [[row[p] for p in self._even(costs[row], most)] for row in rows], [rows[0, :0]]
            filled = [packs + nothing * (most - len(packs)) for packs in packed]
            calls += [list(call) for call in zip(*filled, strict=True)]
        return calls

    def _even(self, costs: np.ndarray, count: int) -> list[np.ndarray]:
        return even_packs(costs, self.max_tokens, self.packer, count=count)


def _table(calls: list[list[np.ndarray]]) -> np.ndarray:
    slots = max(len(row) for call in calls for row in call)
    table = np.full((len(calls), len(calls[0]), slots), EMPTY)
    for call, rows in enumerate(calls):
        for rank, row in enumerate(rows):
            table[call, rank, : len(row)] = row
    return table
