"""A run on shapes: its data's plan, its state, its programs and their arguments, with nothing allocated."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from wam_jax.config import Config
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store
from wam_jax.data.transport import RowBatch
from wam_jax.training.mesh import AXES, replicated
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import Accumulator, Programs, build_programs
from wam_jax.training.run import make_policy
from wam_jax.training.state import TrainState, abstract_state


@dataclass(frozen=True, eq=False)
class AbstractRun:
    """What a run compiles, and for which arguments; arrays are `jax.ShapeDtypeStruct` with shardings.

    Attributes:
        config: the run's.
        mesh: its devices.
        data: the plan of its data; of the rows only the first is made.
        state: between two updates.
        programs: of the run.
        total: the accumulator of an update.
        batches: one microbatch of all ranks for each rung, cheapest first.
    """

    config: Config
    mesh: Mesh
    data: TrainData
    state: TrainState
    programs: Programs
    total: Accumulator
    batches: tuple[RowBatch, ...]

    def traced_gradient(self, rung: int) -> jax.stages.Traced:
        """The gradient program of a rung."""
        return self.programs.gradient.trace(self.state.params, self.total, self.batches[rung])

    def traced_update(self) -> jax.stages.Traced:
        """The update program."""
        update: Any = self.programs.update
        return update.trace(self.state, self.total)


def abstract_run(config: Config, store: Store, mesh: Mesh) -> AbstractRun:
    """The run of a configuration on data of which only the index is read.

    Raises:
        InputError: the data do not fit the configuration.
    """
    data = TrainData(config, store, rows=range(1), ranks=mesh.size)
    policy = make_policy(config, store)
    optimizer = make_optimizer(config.training.optimizer, num_steps=config.training.num_steps)
    state = abstract_state(mesh, policy, optimizer)
    batches = tuple(spread_over(mesh, row) for row in data.empty_batches())
    programs = build_programs(
        policy,
        optimizer,
        abstract=state,
        batch=batches[-1],
        samples_per_update=data.draws_per_step,
        objectives=data.objectives,
    )
    zeros: Any = programs.zeros
    return AbstractRun(config, mesh, data, state, programs, zeros.trace().out_info, batches)


def spread_over(mesh: Mesh, row: RowBatch) -> RowBatch:
    """The shapes of a batch of all ranks, from a batch with the row of one."""
    rows, everywhere = NamedSharding(mesh, PartitionSpec(AXES)), replicated(mesh)

    def spread(array: Any) -> jax.ShapeDtypeStruct:
        array = np.asarray(array)
        if not array.ndim:
            return jax.ShapeDtypeStruct((), array.dtype, sharding=everywhere)
        return jax.ShapeDtypeStruct((mesh.size, *array.shape[1:]), array.dtype, sharding=rows)

    return jax.tree.map(spread, row)
