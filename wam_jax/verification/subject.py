"""What is verified: a recipe with its data, its first draws and its initial parameters."""

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from wam_jax.config.schema import Config
from wam_jax.data.loader import TrainData
from wam_jax.data.store import Store
from wam_jax.data.transport import RowBatch
from wam_jax.policies.base import Params
from wam_jax.policies.dual_expert import DualExpertPolicy
from wam_jax.tracing.samples import Draw
from wam_jax.training import environment
from wam_jax.training.optimizer import adamw
from wam_jax.training.record import data_record
from wam_jax.training.run import make_policy
from wam_jax.training.tree import parameter_counts
from wam_jax.verification.batches import alone, first_draws, holding, recipe_in_mode
from wam_jax.verification.outcomes import Program, Run

type Precision = Literal["float32", "bfloat16"]


class Subject:
    """A recipe on one device, read in this process.

    Attributes:
        draws: what is compared, from the first of the training stream on.
        params: as training begins with them.
        precision: the compute dtype of what is verified.
    """

    def __init__(self, config: Config, store: Store, *, draws: int, precision: Precision) -> None:
        """
        Args:
            config: the recipe, checked.
            store: its data.
            draws: how many.
            precision: the compute dtype of what is verified.
        Raises:
            InputError: the recipe does not fit the store.
        """
        self._config, self._store, self.precision = _plain(config), store, precision
        self._data = TrainData(recipe_in_mode(self._config, "padded"), store, rows=range(1))
        self._table = first_draws(self._data, draws)
        self.draws: list[Draw] = [
            (int(p), int(e), int(n))
            for p, e, n in zip(self._table.phase, self._table.epoch, self._table.position, strict=True)
        ]
        self.params = jax.jit(self._policy("padded", precision).init)(jax.random.key(config.seed))

    @cached_property
    def episodes(self) -> list[str]:
        """The episode of each draw."""
        return [str(self._store.index.ids[episode]) for episode in self._table.episode]

    def about(self) -> dict[str, Any]:
        """What was verified, and on what: for whoever wants to do it again."""
        return {
            "recipe": self._config.name,
            "config": dataclasses.asdict(self._config),
            "parameters": parameter_counts(self.params),
            "data": data_record(self._config.data, self._store),
            "versions": environment.versions(),
            "git": environment.git_state(),
            "devices": environment.devices(),
        }

    def alone(self, dtype: str) -> Run:
        """Each draw by itself, with the dense attention: dtype float64, float32 or bfloat16."""
        policy, params = self._policy("padded", dtype, attention="reference", remat="none"), self.params
        if dtype == "float64":
            policy = dataclasses.replace(policy, model=dataclasses.replace(policy.model, param_dtype="float64"))
            params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        program = Program(policy, params, x64=dtype == "float64")
        return Run(program, alone(self._data, self._table), self.draws)

    def in_mode(self, mode: str) -> Run:
        """The draws as a mode batches them.

        Raises:
            InputError: the recipe does not go with the mode.
        """
        return Run(Program(self._policy(mode, self.precision), self.params), self._batches(mode), self.draws)

    def update(self, gradient: Params) -> Params:
        """What the first update adds to the parameters, from the mean gradient of the draws."""
        transform = adamw(self._config.training.optimizer)
        exact = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), gradient)
        return jax.tree.map(np.asarray, transform.update(exact, transform.init(self.params), self.params)[0])

    def _batches(self, mode: str) -> Iterator[RowBatch]:
        data = TrainData(recipe_in_mode(self._config, mode), self._store, rows=range(1))
        return holding(data, set(self.draws))

    def _policy(self, mode: str, dtype: str, **changes: Any) -> DualExpertPolicy:
        policy = make_policy(recipe_in_mode(self._config, mode), self._store)
        return dataclasses.replace(policy, model=dataclasses.replace(policy.model, compute_dtype=dtype, **changes))


def _plain(config: Config) -> Config:
    data = dataclasses.replace(config.data, num_workers=0)
    return dataclasses.replace(config, data=data, trainer=dataclasses.replace(config.trainer, mesh=(-1, 1)))
