"""The batches of a verification: every draw alone, and the same draws as each mode batches them."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from wam_jax.config.modes import in_mode
from wam_jax.config.schema import Config
from wam_jax.data.batching.rungs import needed_rung
from wam_jax.data.drawing.draws import DrawTable, concatenate
from wam_jax.data.loader import TrainData
from wam_jax.data.transport import RowBatch
from wam_jax.tracing.samples import Draw
from wam_jax.verification.outcomes import places

_MOST_STEPS = 1000


def recipe_in_mode(config: Config, mode: str) -> Config:
    """The recipe in another mode, or as it is in its own; its token budget goes with `packed` only.

    Raises:
        InputError: the recipe does not go with the mode.
    """
    if mode == config.data.batching.mode:
        return config
    changes = {"mode": mode} if mode == "packed" else {"mode": mode, "max_tokens": None, "packer": None}
    return in_mode(config, dataclasses.replace(config.data.batching, **changes))


def first_draws(data: TrainData, count: int) -> DrawTable:
    """The first draws of the global stream, [count]; of a recipe that sorts, the first of its first updates."""
    found: list[DrawTable] = []
    total = 0
    for step in range(_MOST_STEPS):
        table = data.planner.plan(step).draws.reshape(-1)
        table = table[np.flatnonzero(table.present)]
        table = table[np.lexsort((table.position, table.epoch))]
        found.append(table)
        total += len(table.episode)
        if total >= count:
            break
    return concatenate(found)[np.arange(count)]


def alone(data: TrainData, draws: DrawTable, *, aligned: bool) -> Iterator[RowBatch]:
    """Each draw as the only sample of a row that has its size; no ladder, packing or planning is involved.

    Args:
        data: of the recipe.
        draws: [count].
        aligned: lie on tiles as in training; else in a row of exactly the sample's size, without tiles.
    """
    constants, make = data.constants, data.materializer()
    if not aligned:
        constants = dataclasses.replace(constants, packed=False, tiling=None)
        make = dataclasses.replace(make, reader=dataclasses.replace(make.reader, constants=constants))
    for index in range(len(draws.episode)):
        own = draws[np.array([[index]])]
        yield make.batch(own, needed_rung(own, constants, samples=1))


def holding(data: TrainData, wanted: set[Draw]) -> Iterator[RowBatch]:
    """The batches of training that hold any of the wanted draws, until all have been seen."""
    missing = set(wanted)
    steps = data.steps()
    try:
        for _ in range(_MOST_STEPS):
            for batch in next(steps).batches:
                if found := places(batch, missing):
                    missing -= {draw for draw, *_ in found}
                    yield batch
            if not missing:
                return
    finally:
        steps.close()
    raise RuntimeError(f"the first {_MOST_STEPS} updates do not hold the draws {sorted(missing)}")
