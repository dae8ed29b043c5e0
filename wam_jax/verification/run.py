"""The verification itself: draws in every mode against a reference; and where they part, if they do."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tqdm import tqdm

from wam_jax.config.schema import Config
from wam_jax.data.store import Store
from wam_jax.errors import InputError
from wam_jax.tracing.differences import Difference, differences
from wam_jax.tracing.samples import Draw, Part
from wam_jax.verification import gates
from wam_jax.verification.gates import Check
from wam_jax.verification.outcomes import Reference, Run
from wam_jax.verification.recording import RecordedRun
from wam_jax.verification.subject import Precision, Subject

MODES = ("strict", "padded", "bucket", "packed")

type Against = Literal["independent", "fp64", "other-run"]


@dataclass(frozen=True)
class ModeReport:
    """One mode against the reference.

    Attributes:
        mode: which.
        skipped: why the recipe does not go with it, or None.
        checks: one a quantity.
        traced: the draw that is furthest from the reference, or None if it was not traced.
        way: its tensors, in the order of execution.
        gradient_way: gradients of its loss in them, in the order of the backward pass.
    """

    mode: str
    skipped: str | None
    checks: list[Check]
    traced: Draw | None
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
        against: what with.
        about: recipe, data, versions, devices (`Subject.about`).
        modes: one report each.
    """

    draws: list[Draw]
    episodes: list[str]
    precision: Precision
    against: Against
    about: dict[str, Any]
    modes: list[ModeReport]

    @property
    def passed(self) -> bool:
        """Whether something was compared and all of it is within its gates."""
        compared = [mode for mode in self.modes if mode.skipped is None]
        return bool(compared) and all(mode.passed for mode in compared)


class Verifier:
    """Runs the draws of a recipe alone and in modes, and compares."""

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
        self.subject = Subject(config, store, draws=draws, precision=precision)

    def run(self, modes: Sequence[str]) -> dict[str, Run | InputError]:
        """The draws in each mode, or why the recipe does not go with it."""
        bar = tqdm(modes, desc="draws in company", unit="mode", file=sys.stderr, leave=False)
        return {mode: self._run(mode) for mode in bar}

    def compare(
        self,
        runs: Mapping[str, Run | InputError],
        *,
        trace: bool,
        against: Against = "independent",
        other: Mapping[str, RecordedRun] | None = None,
    ) -> Verification:
        """Compares runs of modes with a reference.

        Args:
            runs: by mode.
            trace: also follow the tensors of the draw that differs most along the model; not against another run that
                recorded none.
            against: the reference: draws alone in the same precision, alone in float64, or another run.
            other: the other run's modes.
        """
        reports = [
            ModeReport(mode, str(run), [], None, [], [])
            if isinstance(run, InputError)
            else self._compare(mode, run, self._reference(mode, against, other or {}), against=against, trace=trace)
            for mode, run in runs.items()
        ]
        subject = self.subject
        return Verification(subject.draws, subject.episodes, subject.precision, against, subject.about(), reports)

    def verify(self, modes: Sequence[str], *, trace: bool) -> Verification:
        """Runs modes and compares them with draws alone."""
        return self.compare(self.run(modes), trace=trace)

    @cached_property
    def _alone(self) -> dict[str, Run]:
        dtypes = dict.fromkeys(("float64", "float32", self.subject.precision))
        bar = tqdm(dtypes, desc="draws alone", unit="precision", file=sys.stderr, leave=False)
        return {dtype: self.subject.alone(dtype) for dtype in bar}

    @cached_property
    def _alone_quantities(self) -> dict[str, gates.Quantities]:
        return {dtype: self._quantities(run.outcomes) for dtype, run in self._alone.items()}

    def _run(self, mode: str) -> Run | InputError:
        try:
            return self.subject.in_mode(mode)
        except InputError as error:
            return error

    def _compare(self, mode: str, run: Run, reference: Reference, *, against: Against, trace: bool) -> ModeReport:
        checks = self._checks(run, reference, against)
        if not trace or (isinstance(reference, RecordedRun) and not reference.traced):
            return ModeReport(mode, None, checks, None, [], [])
        worst = self._worst(run, reference)
        return ModeReport(mode, None, checks, worst, *self._ways(run, reference, worst))

    def _reference(self, mode: str, against: Against, other: Mapping[str, RecordedRun]) -> Reference:
        match against:
            case "independent":
                return self._alone[self.subject.precision]
            case "fp64":
                return self._alone["float64"]
            case "other-run":
                return other[mode]

    def _worst(self, run: Run, reference: Reference) -> Draw:
        """The draw that is furthest from the reference."""

        def error(draw: Draw) -> float:
            found, theirs = (
                self._quantities({draw: outcomes[draw]}) for outcomes in (run.outcomes, reference.outcomes)
            )
            return max(item.relative for item in gates.errors(found, theirs).values())

        return max(self.subject.draws, key=error)

    def _checks(self, run: Run, reference: Reference, against: Against) -> list[Check]:
        alone, precision = self._alone_quantities, self.subject.precision
        measured = gates.errors(alone["float32"], alone["float64"])
        truth = alone["float64" if against == "fp64" else "float32"]
        theirs = self._quantities(reference.outcomes) if against == "other-run" else truth
        error = gates.errors(self._quantities(run.outcomes), theirs)
        if precision == "float32":
            return gates.check_float32(error, measured)
        return gates.check_half(error, gates.errors(alone[precision], truth), measured, gates.magnitudes(truth))

    def _quantities(self, outcomes: gates.Outcomes) -> gates.Quantities:
        return gates.quantities(outcomes, self.subject.update)

    def _ways(self, run: Run, reference: Reference, draw: Draw) -> tuple[list[Difference], list[Difference]]:
        """A draw's tensors, then their gradients, against the reference."""
        found, theirs = run.parts(draw), reference.parts(draw)
        own, exact = (self._alone[dtype].parts(draw) for dtype in (self.subject.precision, "float64"))
        forward = _compared(found.tensors, theirs.tensors, own.tensors, exact.tensors)
        return forward, _compared(found.gradients, theirs.gradients, own.gradients, exact.gradients)[::-1]


def _compared(found: list[Part], reference: list[Part], own: list[Part], exact: list[Part]) -> list[Difference]:
    """Tensor by tensor, each against the gate that a draw's own rounding error gives."""
    rounding = differences(own, exact, gates=[0.0] * len(own))
    return differences(found, reference, gates=[gates.float32_gate(item.relative_l2) for item in rounding])
