"""Length buckets: bounded pools of each rank's own stream, sorted by length.

Rank r's stream is every ranks-th draw from r on. It is cut into pools of `pool` draws (the last of an epoch may be
shorter), each pool is sorted stably by length, and microbatches are cut from the sorted stream. A pool never crosses an
epoch's end, and what an epoch drops was dropped before. No draw is added, lost or repeated.
"""

import numpy as np


def effective_pool(pool_size: int, microbatch: int) -> int:
    """The configured size rounded down to a multiple of the microbatch, at least one microbatch."""
    return max(microbatch, pool_size // microbatch * microbatch)


def pool_bounds(start: int, pool: int, stream: int) -> tuple[int, int]:
    """The pool that holds position `start` of a rank's stream of an epoch of `stream` draws: [first, last)."""
    first = start // pool * pool
    return first, min(first + pool, stream)


def sorted_pool(lengths: np.ndarray) -> np.ndarray:
    """Order of a pool of every rank: lengths int[pool, ranks] to int64[pool, ranks], stable, shortest first."""
    return np.argsort(lengths, axis=0, kind="stable")
