"""What draws came to, kept on disk, so that a verification of another day, version or machine can be compared with it.

A directory of two files: `recording.json` (which draws, in which precision and modes, with which parameters, and their
losses) and `tensors.safetensors` (predictions, gradients, and the tensors on the way where they were traced). It
appears whole or not at all.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from wam_jax.data.files import new_directory
from wam_jax.data.jsonio import from_json
from wam_jax.data.tensorio import TensorFile, encode_tensors
from wam_jax.errors import InputError
from wam_jax.tracing.samples import Draw, Part
from wam_jax.tracing.tape import Stream
from wam_jax.training.checksums import checksums
from wam_jax.verification.outcomes import Outcome, Parts, Reference
from wam_jax.verification.subject import Subject

_SUMMARY, _TENSORS = "recording.json", "tensors.safetensors"


@dataclass(frozen=True)
class _Summary:
    """What the JSON file says.

    Attributes:
        precision: the compute dtype.
        draws: phase, epoch and position of each.
        parameters: a checksum a leaf.
        losses: of a mode, one mapping a draw.
        parts: of a mode, name and stream of every tensor that was traced.
    """

    precision: str
    draws: tuple[tuple[int, ...], ...]
    parameters: tuple[int, ...]
    losses: Mapping[str, tuple[Mapping[str, float], ...]]
    parts: Mapping[str, tuple[tuple[str, ...], ...]]


@dataclass(frozen=True)
class RecordedRun:
    """A mode of another run.

    Attributes:
        outcomes: of every draw.
        traced: the tensors of every draw; empty if none were recorded.
    """

    outcomes: dict[Draw, Outcome]
    traced: dict[Draw, Parts] = field(default_factory=dict)

    def parts(self, draw: Draw) -> Parts:
        """The tensors of one draw."""
        return self.traced[draw]


def save_recording(path: Path, subject: Subject, runs: Mapping[str, Reference], *, trace: bool) -> None:
    """Writes a recording.

    Args:
        path: a directory that does not exist yet.
        subject: what was run.
        runs: by mode.
        trace: keep the tensors of all draws as well.
    Raises:
        InputError: `path` exists.
    """
    tensors: dict[str, np.ndarray] = {}
    names: dict[str, tuple[tuple[str, ...], ...]] = {}
    for mode, run in runs.items():
        for number, draw in enumerate(subject.draws):
            tensors |= _named(f"{mode}/{number}", _arrays(run.outcomes[draw]))
            if trace:
                parts = run.parts(draw)
                names[mode] = tuple((part.name, part.stream) for part in parts.tensors)
                tensors |= _named(f"{mode}/{number}/tensor", [part.value for part in parts.tensors])
                tensors |= _named(f"{mode}/{number}/gradient", [part.value for part in parts.gradients])
    summary = _Summary(
        precision=subject.precision,
        draws=tuple(subject.draws),
        parameters=tuple(checksums(subject.params)),
        losses={mode: tuple(run.outcomes[draw].losses for draw in subject.draws) for mode, run in runs.items()},
        parts=names,
    )
    with new_directory(path) as directory:
        (directory / _SUMMARY).write_text(json.dumps(dataclasses.asdict(summary), indent=1) + "\n")
        (directory / _TENSORS).write_bytes(encode_tensors(tensors))


def load_recording(path: Path, subject: Subject, modes: Sequence[str]) -> dict[str, RecordedRun]:
    """Reads these modes of a recording of the same draws and parameters.

    Raises:
        InputError: there is none, it is damaged, or it is of other draws, parameters, modes or another precision.
    """
    file = path / _SUMMARY
    try:
        raw = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InputError(str(file), str(error), "a directory that --record wrote") from None
    summary = from_json(_Summary, raw, where=str(file))
    _check(summary, subject, file)
    if missing := [mode for mode in modes if mode not in summary.losses]:
        raise InputError("--modes", missing[0], f"the other run was in {', '.join(summary.losses)}")
    tensors = TensorFile(path / _TENSORS)
    return {mode: _run(mode, summary, tensors, subject) for mode in modes}


def _check(summary: _Summary, subject: Subject, file: Path) -> None:
    own = {
        "precision": subject.precision,
        "draws": tuple(subject.draws),
        "parameters": tuple(checksums(subject.params)),
    }
    remedy = "of the same recipe, seed, data and draws, and of the same --dtype"
    for name, value in own.items():
        if getattr(summary, name) != value:
            shown = getattr(summary, name) if name != "parameters" else "others than this recipe begins with"
            raise InputError(f"{file}: {name}", shown, f"a recording {remedy}")


def _run(mode: str, summary: _Summary, tensors: TensorFile, subject: Subject) -> RecordedRun:
    found, structure = RecordedRun({}), jax.tree.structure(subject.params)
    for number, draw in enumerate(subject.draws):
        video, action, *leaves = (tensors.read(f"{mode}/{number}/{i}") for i in range(2 + structure.num_leaves))
        losses = dict(summary.losses[mode][number])
        found.outcomes[draw] = Outcome(losses, video, action, jax.tree.unflatten(structure, leaves))
        if names := summary.parts.get(mode):
            kinds = ("tensor", "gradient")
            found.traced[draw] = Parts(*(_parts(tensors, f"{mode}/{number}/{kind}", names) for kind in kinds))
    return found


def _parts(tensors: TensorFile, prefix: str, names: tuple[tuple[str, ...], ...]) -> list[Part]:
    return [
        Part(name, cast(Stream, stream), tensors.read(f"{prefix}/{number}"))
        for number, (name, stream) in enumerate(names)
    ]


def _arrays(outcome: Outcome) -> list[np.ndarray]:
    return [outcome.video, outcome.action, *jax.tree.leaves(outcome.gradient)]


def _named(prefix: str, arrays: list[Any]) -> dict[str, np.ndarray]:
    return {f"{prefix}/{number}": np.asarray(array) for number, array in enumerate(arrays)}
