"""Where a start of the command works and what it continues: decided from directories alone, before anything is built.

A directory *holds a run* once it has a `run.json` and a complete checkpoint. It then belongs to that run: only resuming
that very run may write into it. Without `--workdir`, a resumed run goes on where it is, a new one goes to `runs/NAME`.
"""

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from wam_jax.errors import InputError
from wam_jax.training.locate import CHECKPOINTS, CheckpointRef, Json, durable_steps, find_checkpoint

RUN_FILE, METRICS_FILE = "run.json", "metrics.jsonl"
_SET_ASIDE = "set_aside"
_RESUME, _INITIALIZE = "--resume-from", "--initialize-weights-from"


@dataclass(frozen=True)
class Start:
    """A run directory, and the checkpoint to start from.

    Attributes:
        workdir: where everything is written.
        run_id: identity of the run, kept when it is resumed in place.
        resume: the checkpoint whose full state is continued, or None.
        initialize: the checkpoint whose parameters are taken, or None.
        record: content of the `run.json` that is continued in place, or None.
        new_data_phase: whether the resumed run goes on with draws of its own (`wam_jax.training.phases`).
    """

    workdir: Path
    run_id: str
    resume: CheckpointRef | None
    initialize: CheckpointRef | None
    record: Json | None
    new_data_phase: bool = False

    @property
    def source(self) -> CheckpointRef | None:
        """The checkpoint that is read."""
        return self.resume or self.initialize

    @property
    def step(self) -> int:
        """Updates done before this start."""
        return self.resume.step if self.resume else 0

    @property
    def checkpoints(self) -> Path:
        """Directory of the run's checkpoints."""
        return self.workdir / CHECKPOINTS


def plan_start(
    name: str,
    *,
    workdir: str | None = None,
    resume_from: str | None = None,
    initialize_from: str | None = None,
    new_data_phase: bool = False,
) -> Start:
    """Checks the options of a start against what is on disk.

    Args:
        name: the run's name in its configuration.
        workdir: `--workdir`.
        resume_from: `--resume-from`.
        initialize_from: `--initialize-weights-from`.
        new_data_phase: `--new-data-phase`.
    Raises:
        InputError: options exclude each other, a checkpoint is not there, or the directory belongs to another run or
            cannot be written to.
    """
    for flag, given in (("--workdir", workdir), (_RESUME, resume_from), (_INITIALIZE, initialize_from)):
        if given == "":  # An unset variable of a shell script, which must not start something else.
            raise InputError(flag, given, "is empty; give a directory, or leave the option out")
    if resume_from and initialize_from:
        raise InputError(_RESUME, resume_from, f"excludes {_INITIALIZE}; keep one: full state, or parameters only")
    if new_data_phase and not resume_from:
        raise InputError("--new-data-phase", new_data_phase, f"needs {_RESUME}, the run that goes on with other draws")
    resume = find_checkpoint(resume_from, flag=_RESUME) if resume_from else None
    initialize = find_checkpoint(initialize_from, flag=_INITIALIZE) if initialize_from else None
    directory = Path(workdir) if workdir else (resume.run if resume else _named_directory(name))
    _check_writable(directory)
    in_place = resume is not None and resume.run.resolve() == directory.resolve()
    record = _held_run(directory)
    if not in_place:
        _check_free(directory, record, resume)
        return Start(directory.absolute(), uuid.uuid4().hex[:12], resume, initialize, None, new_data_phase)
    if record is None:
        raise InputError(_RESUME, resume_from, f"its {RUN_FILE} is missing; give another --workdir to branch off")
    if record["name"] != name:
        raise InputError(
            "name", name, f"{directory} holds the run {record['name']!r}; use its config or another --workdir"
        )
    return Start(directory.absolute(), record["run_id"], resume, None, record, new_data_phase)


def set_newer_aside(ref: CheckpointRef) -> list[Path]:
    """Moves checkpoints after `ref` out of the run's way, so that a run may go back; returns where they are now."""
    moved = []
    for step in durable_steps(ref.directory):
        if step > ref.step:
            target = _unused(ref.run / _SET_ASIDE / str(step))
            target.parent.mkdir(exist_ok=True)
            moved.append((ref.directory / str(step)).rename(target))
    return moved


def _named_directory(name: str) -> Path:
    if name in ("", ".", "..") or Path(name).name != name:
        raise InputError("name", name, "must be the name of a directory in runs/; choose another, or give --workdir")
    return Path("runs") / name


def _check_writable(directory: Path) -> None:
    """Refuses a directory that is something else, or cannot be made or filled; makes nothing itself."""
    absolute = directory.absolute()
    nearest = next(path for path in (absolute, *absolute.parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise InputError("--workdir", str(directory), f"{nearest} is no directory; give another one")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError("--workdir", str(directory), f"{nearest} cannot be written to; give another one")


def _check_free(directory: Path, record: Json | None, resume: CheckpointRef | None) -> None:
    steps = durable_steps(directory / CHECKPOINTS)
    if record is not None and steps:
        holds = f"holds the run {record['name']!r} at step {steps[-1]}"
        if resume is None:
            remedy = f"{holds}; continue it by {_RESUME} {directory}, or give another --workdir"
        else:
            remedy = f"{holds}, which is not the one to resume ({resume.run}); give another --workdir"
        raise InputError("--workdir", str(directory), remedy)
    strange = [name for name in (CHECKPOINTS, METRICS_FILE) if record is None and (directory / name).exists()]
    if strange:
        raise InputError("--workdir", str(directory), f"has a {strange[0]} but no {RUN_FILE}; give another one")


def _held_run(directory: Path) -> Json | None:
    path = directory / RUN_FILE
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text())
        return {**record, "name": record["name"], "run_id": record["run_id"]}
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(str(path), type(error).__name__, "is no run record; give another --workdir") from error


def _unused(path: Path) -> Path:
    candidates = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, 1000))]
    return next(candidate for candidate in candidates if not candidate.exists())
