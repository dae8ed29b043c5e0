"""How densely and how fast samples are packed, on a synthetic index and without a model.

Lengths are log-normal (sigma 0.8, mean 880 tokens) and clipped to 64 ... 4,096, the capacity of a pack. Utilisation is
real tokens over capacity of all packs, those of a last short call included.
"""

import time
from dataclasses import asdict, dataclass

import numpy as np

from wam_jax.data.batching.dealing import balanced, in_order
from wam_jax.data.batching.packing import Packer, pack
from wam_jax.errors import InputError

CAPACITY, SHORTEST, MEAN, SIGMA = 4096, 64, 880, 0.8
LOGICAL_BATCH, MICROBATCH = 256, 8
_RANKS, _BATCHES, _UPDATES = (64, 512), 400, 20
PACKERS: tuple[Packer, ...] = ("in_order", "first_fit", "best_fit")


@dataclass(frozen=True)
class PackingResult:
    """One measurement."""

    name: str
    ranks: int
    samples: int
    utilisation: float
    lengths_per_second: float


def synthetic_lengths(episodes: int, *, seed: int = 0) -> np.ndarray:
    """Tokens of every episode of a synthetic index: int64[episodes]."""
    mean_of_log = np.log(MEAN) - SIGMA**2 / 2
    drawn = np.random.default_rng(seed).lognormal(mean_of_log, SIGMA, episodes)
    return drawn.clip(SHORTEST, CAPACITY).astype(np.int64)


def measure_packers(lengths: np.ndarray, *, batches: int) -> list[PackingResult]:
    """Packs logical batches of one rank with each packer, one core."""
    results = []
    for packer in PACKERS:
        begun, packs, tokens = time.perf_counter(), 0, 0
        for costs in lengths[: batches * LOGICAL_BATCH].reshape(-1, LOGICAL_BATCH):
            packs += len(pack(costs, CAPACITY, packer))
            tokens += int(costs.sum())
        seconds = time.perf_counter() - begun
        count = batches * LOGICAL_BATCH
        results.append(PackingResult(packer, 1, count, tokens / (packs * CAPACITY), count / seconds))
    return results


def measure_dealing(lengths: np.ndarray, *, ranks: int, updates: int) -> list[PackingResult]:
    """Deals updates of eight samples a rank, in order and balanced: utilisation of rows as long as the heaviest."""
    results, count = [], ranks * MICROBATCH
    for name in ("dealt in order", "dealt evenly"):
        begun, real, slots = time.perf_counter(), 0, 0
        for costs in lengths[: updates * count].reshape(updates, count):
            even = name == "dealt evenly"
            seats = balanced(costs, ranks=ranks, microbatch=MICROBATCH) if even else None
            seats = in_order(count, ranks=ranks, microbatch=MICROBATCH) if seats is None else seats
            loads = costs[seats].sum(-1)
            real, slots = real + int(loads.sum()), slots + int(loads.max(1).sum()) * ranks
        seconds = time.perf_counter() - begun
        results.append(PackingResult(name, ranks, updates * count, real / slots, updates * count / seconds))
    return results


def packing_report(*, episodes: int) -> list[dict[str, object]]:
    """All measurements of packing and dealing, as rows.

    Raises:
        InputError: there are too few episodes for one update.
    """
    least = max(_RANKS) * MICROBATCH
    if episodes < least:
        raise InputError("--episodes", episodes, f"at least {least}, an update of {max(_RANKS)} ranks")
    lengths = synthetic_lengths(episodes)
    results = measure_packers(lengths, batches=min(_BATCHES, episodes // LOGICAL_BATCH))
    for ranks in _RANKS:
        results += measure_dealing(lengths, ranks=ranks, updates=min(_UPDATES, episodes // (ranks * MICROBATCH)))
    return [asdict(result) for result in results]
