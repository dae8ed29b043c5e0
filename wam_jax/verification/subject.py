"""What is verified: a recipe with its data, its first draws and its parameters."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

from wam_jax.config.schema import Config
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store
from wam_jax.data.transport import RowBatch
from wam_jax.policies.base import Params
from wam_jax.policies.dual_expert import DualExpertPolicy
from wam_jax.tracing.samples import Draw
from wam_jax.training import environment
from wam_jax.training.mesh import AXES
from wam_jax.training.optimizer import adamw, make_optimizer
from wam_jax.training.programs import build_programs
from wam_jax.training.record import data_record
from wam_jax.training.run import make_policy
from wam_jax.training.state import abstract_state
from wam_jax.training.tree import parameter_counts
from wam_jax.verification.batches import alone, first_draws, holding, recipe_in_mode
from wam_jax.verification.outcomes import Program, Run, TrainingProgram

type Precision = Literal["float32", "bfloat16"]

_SMALL = 0.02


class Subject:
    """A recipe on one device, read in this process.

    Attributes:
        config: the recipe.
        draws: what is compared, from the first of the training stream on.
        params: as training begins with them, but small random numbers where a whole array begins at zero: what zeros
            multiply could not be told apart.
        precision: the compute dtype of what is verified.
    """

    def __init__(self, config: Config, store: Store, *, draws: int, precision: Precision, ranks: int = 1) -> None:
        """
        Args:
            config: the recipe, checked.
            store: its data.
            draws: how many.
            precision: the compute dtype of what is verified.
            ranks: of the training run, whose stream is drawn from; every rank is a row.
        Raises:
            InputError: the recipe does not fit the store.
        """
        self.config, self.precision = config, precision
        self._plain, self._store, self._rows = _plain(config), store, range(ranks)
        self._table = first_draws(self._data("padded"), draws)
        self.draws: list[Draw] = [
            (int(p), int(e), int(n))
            for p, e, n in zip(self._table.phase, self._table.epoch, self._table.position, strict=True)
        ]
        initial = jax.jit(self._policy("padded", precision).init)(jax.random.key(config.seed))
        self.params = _without_zeros(initial, np.random.default_rng(config.seed))

    @cached_property
    def episodes(self) -> list[str]:
        """The episode of each draw."""
        return [str(self._store.index.ids[episode]) for episode in self._table.episode]

    def about(self) -> dict[str, Any]:
        """What is verified, and on what: for whoever wants to do it again."""
        return {
            "recipe": self.config.name,
            "config": dataclasses.asdict(self.config),
            "ranks": len(self._rows),
            "parameters": parameter_counts(self.params),
            "data": data_record(self.config.data, self._store),
            "versions": environment.versions(),
            "git": environment.git_state(),
            "devices": environment.devices(),
        }

    def alone(self, dtype: str, done: Callable[[], object]) -> Run:
        """Each draw by itself, with the dense attention: dtype float64, float32 or bfloat16."""
        policy, params = self._policy("padded", dtype, attention="reference", remat="none"), self.params
        if dtype == "float64":
            policy = dataclasses.replace(policy, model=dataclasses.replace(policy.model, param_dtype="float64"))
            params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        program = Program(policy, params, x64=dtype == "float64")
        return Run(program, alone(self._data("padded"), self._table, aligned=False), self.draws, done=done)

    def alone_as_trained(self, done: Callable[[], object]) -> Run:
        """Each draw by itself, on tiles as in training and through the program that trains."""
        batches = alone(self._data("packed"), self._table, aligned=True)
        return Run(self._training_program("packed"), batches, self.draws, done=done)

    def in_mode(self, mode: str, done: Callable[[], object]) -> Run:
        """The draws as a mode batches them, through the program that trains.

        Raises:
            InputError: the recipe does not go with the mode.
        """
        return Run(self._training_program(mode), self._batches(mode), self.draws, done=done)

    def check_mode(self, mode: str) -> None:
        """Raises InputError where the recipe does not go with the mode."""
        recipe_in_mode(self._plain, mode)

    def update(self, gradient: Params) -> Params:
        """What the first update adds to the parameters from a gradient, before the learning rate."""
        exact = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), gradient)
        return jax.tree.map(np.asarray, self._direction(exact, self.params))

    @cached_property
    def _direction(self) -> Callable[[Params, Params], Params]:
        transform = adamw(self.config.training.optimizer)
        return jax.jit(lambda gradient, params: transform.update(gradient, transform.init(params), params)[0])

    def _training_program(self, mode: str) -> TrainingProgram:
        mesh = jax.make_mesh((1, 1), AXES, axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[:1])
        policy, data = self._policy(mode, self.precision), self._data(mode)
        optimizer = make_optimizer(self.config.training.optimizer, num_steps=1)
        programs = build_programs(
            policy,
            optimizer,
            abstract=abstract_state(mesh, policy, optimizer),
            batch=data.empty_batches()[0],
            samples_per_update=1,
            objectives=data.objectives,
        )
        return TrainingProgram(policy, self.params, programs=programs, mesh=mesh)

    def _batches(self, mode: str) -> Iterator[RowBatch]:
        return holding(self._data(mode), set(self.draws))

    def _data(self, mode: str) -> TrainData:
        return TrainData(recipe_in_mode(self._plain, mode), self._store, rows=self._rows)

    def _policy(self, mode: str, dtype: str, **changes: Any) -> DualExpertPolicy:
        policy = make_policy(recipe_in_mode(self._plain, mode), self._store)
        return dataclasses.replace(policy, model=dataclasses.replace(policy.model, compute_dtype=dtype, **changes))


def default_modes(config: Config) -> Sequence[str]:
    """The modes that are verified where none is named: those that mix lengths, and the recipe's own."""
    return list(dict.fromkeys(("padded", "bucket", "packed", config.data.batching.mode)))


def _without_zeros(params: Params, rng: np.random.Generator) -> Params:
    def filled(leaf: jax.Array) -> jax.Array:
        return leaf if np.any(leaf) else jnp.asarray(_SMALL * rng.standard_normal(leaf.shape), leaf.dtype)

    return jax.tree.map(filled, params)


def _plain(config: Config) -> Config:
    data = dataclasses.replace(config.data, num_workers=0)
    return dataclasses.replace(config, data=data, trainer=dataclasses.replace(config.trainer, mesh=(-1, 1)))
