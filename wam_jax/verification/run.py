"""The verification itself: draws in every mode against a reference; and where they part, if they do."""

import contextlib
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from wam_jax.config.schema import Config
from wam_jax.data.storage.store import Store
from wam_jax.errors import InputError
from wam_jax.tracing.differences import Difference, differences
from wam_jax.tracing.samples import Draw, Part
from wam_jax.verification import gates
from wam_jax.verification.gates import Check, Items, Quantities
from wam_jax.verification.outcomes import Parts, Reference, Run
from wam_jax.verification.recording import RecordedRun, Recording
from wam_jax.verification.subject import Precision, Subject

MODES = ("strict", "padded", "bucket", "packed")

type Against = Literal["independent", "fp64", "other-run"]


@dataclass(frozen=True)
class ModeReport:
    """One mode against the reference.

    Attributes:
        mode: which.
        skipped: why it was not compared, or None.
        company: the most other samples that share a row with a draw.
        checks: one a quantity.
        traced: the draw that is closest to its gates, or furthest beyond them; None if it was not traced.
        way: its tensors, in the order of execution.
        gradient_way: gradients of its loss in those that the loss depends on, in the order of the backward pass.
    """

    mode: str
    skipped: str | None
    company: int
    checks: list[Check]
    traced: Draw | None
    way: list[Difference]
    gradient_way: list[Difference]

    @property
    def passed(self) -> bool:
        """Whether every quantity is within its gates."""
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
        other: the same of the other run, if there is one.
        modes: one report each.
    """

    draws: list[Draw]
    episodes: list[str]
    precision: Precision
    against: Against
    about: dict[str, Any]
    other: Mapping[str, Any] | None
    modes: list[ModeReport]

    @property
    def passed(self) -> bool:
        """Whether something was compared and all of it is within its gates."""
        compared = [mode for mode in self.modes if mode.skipped is None]
        return bool(compared) and all(mode.passed for mode in compared)


class Verifier:
    """Runs the draws of a recipe alone and in modes, and compares."""

    def __init__(self, config: Config, store: Store, *, draws: int, precision: Precision, ranks: int = 1) -> None:
        """
        Args:
            config: the recipe, checked.
            store: its data.
            draws: how many, from the first of the stream on.
            precision: the compute dtype of what is verified.
            ranks: of the training run, whose stream is drawn from.
        Raises:
            InputError: the recipe does not fit the store.
        """
        self.subject = Subject(config, store, draws=draws, precision=precision, ranks=ranks)

    def run(self, modes: Sequence[str], *, skip: bool = False) -> dict[str, Run | InputError]:
        """The draws in each mode.

        Args:
            modes: which.
            skip: give the reason for a mode that the recipe does not go with, instead of raising it.
        Raises:
            InputError: the recipe does not go with a mode; or no draw shares a row with another sample in any.
        """
        runs: dict[str, Run | InputError] = {}
        for mode in modes:
            try:
                self.subject.check_mode(mode)
            except InputError as error:
                if not skip:
                    raise
                runs[mode] = error
        with _bar("draws in company") as done:
            runs |= {mode: self.subject.in_mode(mode, done) for mode in modes if mode not in runs}
        if not any(isinstance(run, Run) and run.company for run in runs.values()):
            size = self.subject.config.data.train_batch_size
            raise InputError("data.train_batch_size", size, "no draw shares a row with another; give at least 2")
        return {mode: runs[mode] for mode in modes}

    def compare(
        self,
        runs: Mapping[str, Run | InputError],
        *,
        trace: bool,
        against: Against = "independent",
        other: Recording | None = None,
    ) -> Verification:
        """Compares runs of modes with a reference.

        Args:
            runs: by mode.
            trace: also follow the tensors of one draw along the model; not against another run that recorded none.
            against: the reference: draws alone (in float32 at least), alone in float64, or another run.
            other: the other run.
        Raises:
            InputError: what a draw comes to alone is not finite.
        """
        self._check_finite()
        recorded = other.runs if other else {}
        reports = [self._report(mode, run, against, recorded, trace=trace) for mode, run in runs.items()]
        subject = self.subject
        return Verification(
            draws=subject.draws,
            episodes=subject.episodes,
            precision=subject.precision,
            against=against,
            about=subject.about(),
            other=other.about if other else None,
            modes=reports,
        )

    def verify(self, modes: Sequence[str], *, trace: bool) -> Verification:
        """Runs modes and compares them with draws alone."""
        return self.compare(self.run(modes), trace=trace)

    @cached_property
    def _alone(self) -> dict[str, Run]:
        with _bar("draws alone") as done:
            dtypes = dict.fromkeys(("float64", "float32", self.subject.precision))
            return {dtype: self.subject.alone(dtype, done) for dtype in dtypes}

    @cached_property
    def _alone_quantities(self) -> dict[str, Quantities]:
        return {dtype: self._quantities(run) for dtype, run in self._alone.items()}

    @cached_property
    def _alone_as_trained(self) -> Quantities:
        with _bar("draws alone on tiles") as done:
            return self._quantities(self.subject.alone_as_trained(done))

    def _check_finite(self) -> None:
        for dtype, quantities in self._alone_quantities.items():
            if wrong := gates.not_finite(quantities):
                name, (draw, part) = wrong[0]
                where = f"{name} of draw {draw[2] if draw else 'mean'}"
                raise InputError(f"{where}, alone in {dtype}: {part}", "not finite", "a recipe and data that are")

    def _report(
        self,
        mode: str,
        run: Run | InputError,
        against: Against,
        recorded: Mapping[str, RecordedRun],
        *,
        trace: bool,
    ) -> ModeReport:
        if isinstance(run, InputError):
            return ModeReport(mode, str(run), 0, [], None, [], [])
        if against == "other-run" and mode not in recorded:
            return ModeReport(mode, f"the other run was in {', '.join(recorded)}", 0, [], None, [], [])
        reference = recorded[mode] if against == "other-run" else self._alone[_truth(against)]
        checks = self._checks(run, reference, against)
        if not trace or (isinstance(reference, RecordedRun) and not reference.traced):
            return ModeReport(mode, None, run.company, checks, None, [], [])
        draw = self._closest(checks)
        ways = self._ways(run.parts(draw), reference.parts(draw), draw, against)
        return ModeReport(mode, None, run.company, checks, draw, *ways)

    def _closest(self, checks: Sequence[Check]) -> Draw:
        """The draw that is closest to its gates, or furthest beyond them."""
        ratios = {check.worst.draw: check.ratio for check in checks if check.worst and check.worst.draw}
        return max(ratios, key=lambda draw: ratios[draw], default=self.subject.draws[0])

    def _checks(self, run: Run, reference: Reference, against: Against) -> list[Check]:
        alone, precision = self._alone_quantities, self.subject.precision
        found, theirs = self._quantities(run), self._quantities(reference)
        checks = []
        for name, items in theirs.items():
            float32 = gates.errors(alone["float32"][name], alone["float64"][name])
            own = None if precision == "float32" else self._half_errors(name, against)
            allowed = gates.gates(float32, own, least="worst" if name == "update" else "median")
            largest = own is not None and name != "update"  # One value of an update that changes sides is off by 2.
            checks.append(gates.check(name, found[name], items, allowed, largest=largest))
        if self.subject.config.numerics.batch_invariant and against == "independent":
            checks.append(gates.check_bits(found, self._alone_as_trained))
        return checks

    def _half_errors(self, name: str, against: Against) -> gates.Errors:
        alone: dict[str, Items] = {dtype: found[name] for dtype, found in self._alone_quantities.items()}
        return gates.errors(alone[self.subject.precision], alone[_truth(against)])

    def _quantities(self, run: Reference) -> Quantities:
        return gates.quantities(run.outcomes, run.mean_gradient, self.subject.update(run.mean_gradient))

    def _ways(
        self, found: Parts, reference: Parts, draw: Draw, against: Against
    ) -> tuple[list[Difference], list[Difference]]:
        """A draw's tensors, then their gradients, against the reference."""
        precision = self.subject.precision
        alone = {dtype: run.parts(draw) for dtype, run in self._alone.items()}

        def way(parts: Callable[[Parts], list[Part]]) -> list[Difference]:
            float32 = _relative(parts(alone["float32"]), parts(alone["float64"]))
            half = None
            if precision != "float32":
                half = _relative(parts(alone[precision]), parts(alone[_truth(against)]))
            return differences(parts(found), parts(reference), gates=gates.tensor_gates(float32, half).tolist())

        gradients = way(lambda parts: parts.gradients)[::-1]
        return way(lambda parts: parts.tensors), [item for item in gradients if item.magnitude or item.max_abs]


def _truth(against: Against) -> str:
    """The precision in which draws alone are what errors are taken against."""
    return "float64" if against == "fp64" else "float32"


def _relative(found: list[Part], reference: list[Part]) -> np.ndarray:
    return np.array([item.relative_l2 for item in differences(found, reference, gates=[0.0] * len(found))])


@contextlib.contextmanager
def _bar(name: str) -> Generator[Callable[[], object]]:
    """A progress bar of batches; gives what is to be called after each."""
    with tqdm(desc=name, unit="batch", file=sys.stderr, leave=False) as bar:
        yield bar.update
