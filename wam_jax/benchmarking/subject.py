"""A recipe made ready for measurement: its data, its state and the programs that train it, compiled."""

import time
from collections.abc import Iterable

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from wam_jax.config import Config
from wam_jax.data.loader import Step, TrainData
from wam_jax.data.storage.store import Store
from wam_jax.training.mesh import AXES, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import build_programs
from wam_jax.training.ranks import on_each_rank
from wam_jax.training.run import make_policy
from wam_jax.training.state import abstract_state, initialise
from wam_jax.training.warmup import compile_ahead

Losses = dict[tuple[int, int], float]
"""By epoch and position of the draw."""


class Subject:
    """A recipe with fresh parameters, whose updates are timed.

    Attributes:
        data: its batches.
        compile_seconds: compiling all shapes.
    """

    def __init__(self, config: Config, store: Store, mesh: Mesh, *, steps: int) -> None:
        """
        Args:
            config: the recipe.
            store: its data.
            mesh: where it runs.
            steps: updates that it is made for.
        Raises:
            InputError: the recipe does not fit the store.
        """
        self._mesh = mesh
        self.data = TrainData(config, store, rows=range(mesh.size))
        policy, optimizer = make_policy(config, store), make_optimizer(config.training.optimizer, num_steps=steps)
        abstract = abstract_state(mesh, policy, optimizer)
        self._state = initialise(abstract, policy, optimizer, seed=config.seed)
        self._forward = jax.jit(
            on_each_rank(policy.forward_train_batch, abstract.params, out_specs=PartitionSpec(AXES))
        )
        self._programs = build_programs(
            policy,
            optimizer,
            abstract=abstract,
            batch=self.data.validation()[0],
            samples_per_update=self.data.draws_per_step,
            objectives=self.data.objectives,
        )
        begun = time.perf_counter()
        compile_ahead(self._programs, self._state, self.data.empty_batches(), mesh)
        self.compile_seconds = time.perf_counter() - begun

    def update(self, step: Step) -> float:
        """Makes one update, to its end; gives its seconds."""
        begun, total = time.perf_counter(), self._programs.zeros()
        for batch in step.batches:
            total = self._programs.gradient(self._state.params, total, put_rows(self._mesh, batch))
        self._state = jax.block_until_ready(self._programs.update(self._state, total)[0])
        return time.perf_counter() - begun

    def losses(self, steps: Iterable[Step]) -> Losses:
        """The loss of every draw with the parameters as they are."""
        found = {}
        for step in steps:
            for batch in step.batches:
                losses = np.asarray(self._forward(self._state.params, put_rows(self._mesh, batch))["loss"])
                for row, slot in np.argwhere(batch.samples.valid):
                    _, epoch, position = batch.samples.draw[row, slot].tolist()
                    found[epoch, position] = float(losses[row, slot])
        return found
