"""What draws came to, kept on disk, so that a verification of another day, version or machine can be compared with it.

A directory of two files: `recording.json` (what was verified, the draws and their losses) and `tensors.safetensors`
(the parameters, predictions, gradients, and the tensors on the way where they were traced). It appears whole or not at
all. The verification that is compared with it begins with the recorded parameters: initialisers round as well.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from wam_jax.data.files import new_directory
from wam_jax.data.jsonio import from_json
from wam_jax.data.storage.tensorio import TensorFile, encode_tensors
from wam_jax.errors import InputError
from wam_jax.policies.base import Params
from wam_jax.tracing.samples import Draw, Part
from wam_jax.tracing.tape import Stream
from wam_jax.training.record import changed_fields
from wam_jax.verification.outcomes import Outcome, Parts, Reference
from wam_jax.verification.subject import Subject

_SUMMARY, _TENSORS = "recording.json", "tensors.safetensors"
_FREE = (
    "name",
    "data.store",
    "data.num_workers",
    "data.prefetch",
    "data.batching",
    "data.train_batch_size",
    "data.val_batch_size",
    "backbone.attention",
    "backbone.remat",
    "backbone.compute_dtype",
    "numerics",
    "trainer",
    "validation",
    "training",
)
"""Fields that may differ between runs that are compared, with all that lies under them."""
_OF_THE_UPDATE = "training.optimizer"


@dataclass(frozen=True)
class _Summary:
    """What the JSON file says.

    Attributes:
        precision: the compute dtype.
        draws: phase, epoch and position of each.
        about: `Subject.about`.
        losses: of a mode, one mapping a draw.
        parts: of a mode, name and stream of every tensor that was traced.
    """

    precision: str
    draws: tuple[tuple[int, ...], ...]
    about: Mapping[str, Any]
    losses: Mapping[str, tuple[Mapping[str, Any], ...]]
    parts: Mapping[str, tuple[tuple[str, ...], ...]]


@dataclass(frozen=True)
class RecordedRun:
    """A mode of another run.

    Attributes:
        outcomes: of every draw.
        mean_gradient: of an update of all draws.
        traced: the tensors of every draw; empty if none were recorded.
    """

    outcomes: dict[Draw, Outcome]
    mean_gradient: Params
    traced: dict[Draw, Parts] = field(default_factory=dict)

    def parts(self, draw: Draw) -> Parts:
        """The tensors of one draw."""
        return self.traced[draw]


@dataclass(frozen=True)
class Recording:
    """Another run.

    Attributes:
        about: what it was of (`Subject.about`).
        runs: by mode.
    """

    about: Mapping[str, Any]
    runs: dict[str, RecordedRun]


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
    tensors = _named("parameters", jax.tree.leaves(subject.params))
    names: dict[str, tuple[tuple[str, ...], ...]] = {}
    for mode, run in runs.items():
        tensors |= _named(f"{mode}/update", jax.tree.leaves(run.mean_gradient))
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
        about=subject.about(),
        losses={mode: tuple(run.outcomes[draw].losses for draw in subject.draws) for mode, run in runs.items()},
        parts=names,
    )
    with new_directory(path, field="--record") as directory:
        (directory / _SUMMARY).write_text(json.dumps(dataclasses.asdict(summary), indent=1) + "\n")
        (directory / _TENSORS).write_bytes(encode_tensors(tensors))


def load_recording(path: Path, subject: Subject) -> Recording:
    """Reads a recording of the same recipe, data and draws; `subject` takes its parameters.

    Raises:
        InputError: there is none, it is damaged, or it is of something else.
    """
    file = path / _SUMMARY
    try:
        raw = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InputError(str(file), str(error), "a directory that --record wrote") from None
    summary = from_json(_Summary, raw, where=str(file))
    _check(summary, subject, file)
    tensors, structure = TensorFile(path / _TENSORS), jax.tree.structure(subject.params)
    subject.params = jax.tree.map(jax.numpy.asarray, _tree(tensors, "parameters", structure))
    return Recording(summary.about, {mode: _run(mode, summary, tensors, subject) for mode in summary.losses})


def _check(summary: _Summary, subject: Subject, file: Path) -> None:
    fingerprints = (about["data"]["fingerprint"] for about in (summary.about, subject.about()))
    pairs = {
        "precision": (summary.precision, subject.precision),
        "draws": (summary.draws, tuple(subject.draws)),
        "fingerprint of the data": tuple(fingerprints),
        **{
            f"config.{name}": (before, now)
            for name, (before, now) in changed_fields(summary.about["config"], subject.config).items()
            if not _is_free(name)
        },
    }
    for name, (theirs, ours) in pairs.items():
        if theirs != ours:
            raise InputError(f"{file}: {name}", theirs, f"{ours!r}, as it is here, or else there is nothing to compare")


def _is_free(name: str) -> bool:
    return any(f"{name}.".startswith(f"{free}.") for free in _FREE) and not name.startswith(_OF_THE_UPDATE)


def _run(mode: str, summary: _Summary, tensors: TensorFile, subject: Subject) -> RecordedRun:
    structure = jax.tree.structure(subject.params)
    found = RecordedRun({}, _tree(tensors, f"{mode}/update", structure))
    for number, draw in enumerate(subject.draws):
        video, action = (tensors.read(f"{mode}/{number}/{i}") for i in range(2))
        gradient = _tree(tensors, f"{mode}/{number}", structure, first=2)
        found.outcomes[draw] = Outcome(dict(summary.losses[mode][number]), video, action, gradient)
        if names := summary.parts.get(mode):
            kinds = ("tensor", "gradient")
            found.traced[draw] = Parts(*(_parts(tensors, f"{mode}/{number}/{kind}", names) for kind in kinds))
    return found


def _tree(tensors: TensorFile, prefix: str, structure: jax.tree_util.PyTreeDef, *, first: int = 0) -> Params:
    leaves = [tensors.read(f"{prefix}/{first + number}") for number in range(structure.num_leaves)]
    return jax.tree.unflatten(structure, leaves)


def _parts(tensors: TensorFile, prefix: str, names: tuple[tuple[str, ...], ...]) -> list[Part]:
    return [
        Part(name, cast(Stream, stream), tensors.read(f"{prefix}/{number}"))
        for number, (name, stream) in enumerate(names)
    ]


def _arrays(outcome: Outcome) -> list[np.ndarray]:
    return [outcome.video, outcome.action, *jax.tree.leaves(outcome.gradient)]


def _named(prefix: str, arrays: list[Any]) -> dict[str, np.ndarray]:
    return {f"{prefix}/{number}": np.asarray(array) for number, array in enumerate(arrays)}
