"""The batches of a verification: every draw alone, and the same draws as each mode batches them."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from wam_jax.config.schema import Config
from wam_jax.config.validate import validate
from wam_jax.data.batching.rungs import needed_rung
from wam_jax.data.draws import DrawTable, concatenate
from wam_jax.data.loader import TrainData
from wam_jax.data.transport import RowBatch
from wam_jax.verification.outcomes import Draw, places

_MOST_STEPS = 1000


def in_mode(config: Config, mode: str) -> Config:
    """The configuration in another mode. `strict` takes samples of unequal shape one by one.

    Raises:
        InputError: the recipe does not go with the mode.
    """
    batching = config.data.batching
    if mode != "packed":
        batching = dataclasses.replace(batching, max_tokens=None, packer=None)
    data = dataclasses.replace(config.data, batching=dataclasses.replace(batching, mode=mode), num_workers=0)
    training = config.training
    if mode == "strict":
        accumulation = data.train_batch_size * training.gradient_accumulation_steps
        data = dataclasses.replace(data, train_batch_size=1, val_batch_size=1)
        training = dataclasses.replace(training, gradient_accumulation_steps=accumulation)
    made = dataclasses.replace(config, data=data, training=training)
    validate(made)
    return made


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


def alone(data: TrainData, draws: DrawTable) -> Iterator[RowBatch]:
    """Each draw as the only sample of a row that has exactly its size; no ladder, packing or planning is involved."""
    constants = dataclasses.replace(data.constants, packed=False, tiling=None)
    make = data.materializer()
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
