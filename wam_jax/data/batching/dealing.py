"""Who of an update gets which sample: in the order of the draws, or so that the rows' loads are even.

Either way every row gets exactly its number of samples and the update exactly its draws; only the seating changes. All
rows of a physical call run one program, so a call costs what its heaviest row costs: even rows, and calls made of rows
of like load, leave the least padding.
"""

import heapq

import numpy as np


def in_order(count: int, *, ranks: int, microbatch: int) -> np.ndarray:
    """Deals like cards, one a rank and round: int64[calls, ranks, microbatch] of draw numbers."""
    return np.arange(count).reshape(-1, microbatch, ranks).transpose(0, 2, 1)


def balanced(costs: np.ndarray, *, ranks: int, microbatch: int) -> np.ndarray:
    """Deals so that row loads are even: costs int[E] to int64[calls, ranks, microbatch] of draw numbers.

    Longest first, each to the lightest row that has a seat left. Rows are then sorted into calls by load, and samples
    of a row by their place in the stream.
    """
    rows = len(costs) // microbatch
    seats: list[list[int]] = [[] for _ in range(rows)]
    open_rows = [(0, row) for row in range(rows)]
    sizes = costs.tolist()
    for sample in np.argsort(-costs, kind="stable").tolist():
        load, row = open_rows[0]
        seats[row].append(sample)
        if len(seats[row]) < microbatch:
            heapq.heapreplace(open_rows, (load + sizes[sample], row))
        else:
            heapq.heappop(open_rows)
    table = np.sort(np.array(seats, np.int64).reshape(rows, microbatch), axis=1)
    heaviest = np.argsort(-costs[table].sum(1), kind="stable")
    return table[heaviest].reshape(-1, ranks, microbatch)


def deal_packs(packs: list[np.ndarray], loads: np.ndarray, *, ranks: int) -> list[list[np.ndarray]]:
    """Deals packs to the rows of as few calls as hold them: one list of `ranks` packs a call, empty ones at the end.

    Packs of like load share a call, the heaviest first.
    """
    order = np.argsort(-loads, kind="stable")
    calls = -(-len(packs) // ranks)
    seats = [packs[i] for i in order] + [np.empty(0, np.int64)] * (calls * ranks - len(packs))
    return [seats[call * ranks : (call + 1) * ranks] for call in range(calls)]
