"""The verification itself: the same draws alone and in every mode, compared; and where they part, if they do."""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from wam_jax.config.schema import Config
from wam_jax.data.loader import TrainData
from wam_jax.data.store import Store
from wam_jax.data.transport import RowBatch
from wam_jax.errors import InputError
from wam_jax.policies.base import Params
from wam_jax.policies.dual_expert import DualExpertPolicy
from wam_jax.tracing.differences import Difference, differences
from wam_jax.tracing.samples import Part, parts_of_samples
from wam_jax.training.optimizer import adamw
from wam_jax.training.run import make_policy
from wam_jax.verification import gates
from wam_jax.verification.batches import alone, first_draws, holding, recipe_in_mode
from wam_jax.verification.gates import Check
from wam_jax.verification.outcomes import Draw, Outcome, Program, places

type Precision = Literal["float32", "bfloat16"]
MODES = ("strict", "padded", "bucket", "packed")


@dataclass(frozen=True)
class ModeReport:
    """One mode against draws alone.

    Attributes:
        mode: which.
        skipped: why the recipe does not go with it, or None.
        checks: one a quantity.
        way: tensors of the draw that is furthest from itself alone, in the order of execution; empty if not traced.
        gradient_way: gradients of its loss in them, in the order of the backward pass.
    """

    mode: str
    skipped: str | None
    checks: list[Check]
    way: list[Difference]
    gradient_way: list[Difference]

    @property
    def passed(self) -> bool:
        """Whether every quantity is within its gate."""
        return all(check.passed for check in self.checks)


@dataclass(frozen=True)
class Verification:
    """A finished verification.

    Attributes:
        draws: what was compared.
        episodes: the episode each comes from.
        precision: the compute dtype.
        modes: one report each.
    """

    draws: list[Draw]
    episodes: list[str]
    precision: Precision
    modes: list[ModeReport]

    @property
    def passed(self) -> bool:
        """Whether something was compared and all of it is within its gates."""
        compared = [mode for mode in self.modes if mode.skipped is None]
        return bool(compared) and all(mode.passed for mode in compared)


class Verifier:
    """Runs the draws of a recipe alone, and compares modes with that."""

    def __init__(self, config: Config, store: Store, *, draws: int, precision: Precision) -> None:
        """
        Args:
            config: the recipe, checked.
            store: its data.
            draws: how many, from the first of the stream on.
            precision: the compute dtype of what is verified.
        Raises:
            InputError: the recipe does not fit the store.
        """
        self._config, self._store, self._precision = _plain(config), store, precision
        self._data = TrainData(recipe_in_mode(self._config, "padded"), store, rows=range(1))
        self._table = first_draws(self._data, draws)
        self.draws: list[Draw] = [
            (int(p), int(e), int(n))
            for p, e, n in zip(self._table.phase, self._table.epoch, self._table.position, strict=True)
        ]
        policy = self._policy("padded", precision)
        self._params = jax.jit(policy.init)(jax.random.key(config.seed))
        self._parts: dict[tuple[Draw, str], list[list[Part]]] = {}
        self._bar = tqdm(desc="verifying", unit="batch", file=sys.stderr, leave=False)
        self._alone = {name: self._run_alone(name) for name in dict.fromkeys(("float64", "float32", precision))}

    @property
    def episodes(self) -> list[str]:
        """The episode of each draw."""
        return [str(self._store.index.ids[episode]) for episode in self._table.episode]

    def verify(self, modes: Sequence[str], *, trace: bool) -> Verification:
        """Compares modes with draws alone.

        Args:
            modes: which.
            trace: also follow the tensors of the draw that differs most along the model.
        """
        reports = [self._mode(mode, trace=trace) for mode in modes]
        self._bar.close()
        return Verification(self.draws, self.episodes, self._precision, reports)

    def _mode(self, mode: str, *, trace: bool) -> ModeReport:
        try:
            config = recipe_in_mode(self._config, mode)
        except InputError as error:
            return ModeReport(mode, str(error), [], [], [])
        program, outcomes = Program(self._policy(mode, self._precision), self._params), {}
        batches = list(holding(TrainData(config, self._store, rows=range(1)), set(self.draws)))
        for batch in batches:
            outcomes |= program.outcomes(batch, self.draws)
            self._bar.update()
        way: list[list[Difference]] = [[], []]
        if trace:
            worst = self._worst(outcomes)
            way = self._way(program, next(batch for batch in batches if places(batch, [worst])), worst)
        return ModeReport(mode, None, self._checks(outcomes), *way)

    def _worst(self, outcomes: dict[Draw, Outcome]) -> Draw:
        """The draw that is furthest from what it is alone."""
        own = self._alone[self._precision]

        def error(draw: Draw) -> float:
            found, reference = (self._quantities({draw: run[draw]}) for run in (outcomes, own))
            return max(item.relative for item in gates.errors(found, reference).values())

        return max(self.draws, key=error)

    def _checks(self, outcomes: dict[Draw, Outcome]) -> list[Check]:
        found = self._quantities(outcomes)
        exact, wide, own = (self._quantities(self._alone[name]) for name in ("float64", "float32", self._precision))
        measured = gates.errors(wide, exact)
        if self._precision == "float32":
            return gates.check_float32(gates.errors(found, own), measured)
        sizes = gates.magnitudes(wide)
        return gates.check_half(gates.errors(found, wide), gates.errors(own, wide), measured, sizes)

    def _quantities(self, outcomes: dict[Draw, Outcome]) -> dict[str, list[gates.Arrays]]:
        transform = adamw(self._config.training.optimizer)

        def update(gradient: Params) -> Params:
            exact = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), gradient)
            return jax.tree.map(np.asarray, transform.update(exact, transform.init(self._params), self._params)[0])

        return gates.quantities(outcomes, update)

    def _run_alone(self, dtype: str) -> dict[Draw, Outcome]:
        program, found = self._alone_program(dtype), {}
        for batch in alone(self._data, self._table):
            found |= program.outcomes(batch, self.draws)
            self._bar.update()
        return found

    def _alone_program(self, dtype: str) -> Program:
        policy, params = self._policy("padded", dtype, attention="reference"), self._params
        if dtype == "float64":
            params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        return Program(policy, params, x64=dtype == "float64")

    def _policy(self, mode: str, dtype: str, *, attention: str | None = None) -> DualExpertPolicy:
        policy = make_policy(recipe_in_mode(self._config, mode), self._store)
        changes: dict[str, Any] = {"compute_dtype": dtype}
        if attention is not None:
            changes |= {"attention": attention, "remat": "none"}
        if dtype == "float64":
            changes["param_dtype"] = "float64"
        return dataclasses.replace(policy, model=dataclasses.replace(policy.model, **changes))

    def _way(self, program: Program, batch: RowBatch, draw: Draw) -> list[list[Difference]]:
        """A draw's tensors, then their gradients, in company against alone."""
        found = [parts_of_samples(trace, batch)[draw] for trace in program.traces(batch, draw)]
        reference, exact = (self._alone_parts(draw, dtype) for dtype in (self._precision, "float64"))
        ways = [_compared(*parts) for parts in zip(found, reference, exact, strict=True)]
        return [ways[0], ways[1][::-1]]

    def _alone_parts(self, draw: Draw, dtype: str) -> list[list[Part]]:
        """The same of the draw alone; kept, since every mode is compared with it."""
        if (draw, dtype) not in self._parts:
            (own,) = alone(self._data, self._table[np.array([self.draws.index(draw)])])
            traces = self._alone_program(dtype).traces(own, draw)
            self._parts[draw, dtype] = [parts_of_samples(trace, own)[draw] for trace in traces]
        return self._parts[draw, dtype]


def _compared(found: list[Part], reference: list[Part], exact: list[Part]) -> list[Difference]:
    """Tensor by tensor, each against the gate that its own rounding error gives."""
    made = []
    for triple in zip(found, reference, exact, strict=True):
        (own,) = differences([triple[1]], [triple[2]], gate=0.0)
        made += differences([triple[0]], [triple[1]], gate=gates.float32_gate(own.relative_l2))
    return made


def _plain(config: Config) -> Config:
    """The recipe on one device, read in this process."""
    data = dataclasses.replace(config.data, num_workers=0)
    return dataclasses.replace(config, data=data, trainer=dataclasses.replace(config.trainer, mesh=(-1, 1)))
