"""Modes are compared on the same draws: how many updates that takes, whether they do, and how far losses are apart."""

from collections.abc import Mapping

import numpy as np

from wam_jax.benchmarking.subject import Losses
from wam_jax.config import Config
from wam_jax.data.batching.planner import Planner
from wam_jax.data.batching.pools import effective_pool
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store
from wam_jax.errors import InputError


def whole_pools(planner: Planner, *, pool_size: int, steps: int) -> int:
    """The number of updates, rounded up so that every rank's stream stops where a bucket's pool ends.

    Args:
        planner: of any mode. The last pool of an epoch ends with it.
        pool_size: `data.batching.bucket_pool_size`.
        steps: the least.
    """
    shape, stream = planner.shape, planner.draws_per_epoch // planner.shape.ranks
    pool = effective_pool(pool_size, shape.microbatch)
    while steps * shape.accumulation * shape.microbatch % stream % pool:
        steps += 1
    return steps


def check_same_draws(configs: Mapping[str, Config], store: Store, *, ranks: int, steps: int) -> None:
    """Sees to it, from plans alone, that all modes consume the same draws in their first updates.

    Raises:
        InputError: one does not.
    """
    planners = {mode: TrainData(config, store, rows=range(ranks)).planner for mode, config in configs.items()}
    drawn = {mode: _drawn(planner, steps) for mode, planner in planners.items()}
    first = next(iter(drawn))
    for mode, draws in drawn.items():
        if draws != drawn[first]:
            remedy = (
                f"{mode} consumes other draws than {first} in so many updates; the number must end a pool of "
                "data.batching.bucket_pool_size draws of every rank, or an epoch"
            )
            raise InputError("--steps", steps, remedy)


def _drawn(planner: Planner, steps: int) -> list[tuple[int, int]]:
    """Epoch and position of every draw, ascending."""
    tables = [planner.plan(step).draws for step in range(steps)]
    return sorted(
        pair
        for draws in tables
        for pair in zip(draws.epoch[draws.present].tolist(), draws.position[draws.present].tolist(), strict=True)
    )


def largest_difference(found: Losses, expected: Losses) -> float | None:
    """Of the losses of the same draws, relative to the larger of the two; None where one is not finite."""
    ours, theirs = (np.array([losses[draw] for draw in expected]) for losses in (found, expected))
    if not np.isfinite([ours, theirs]).all():
        return None
    larger = np.maximum(np.abs(ours), np.abs(theirs))
    return float(np.max(np.abs(ours - theirs) / np.where(larger > 0, larger, 1)))
