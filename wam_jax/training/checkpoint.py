"""Checkpoints of a run: written in the background, found by path, read into their shards and verified.

A run directory keeps them under `checkpoints/STEP/`, in items that can be read one by one:

    params       the parameters, a nested dict
    optimizer    the optimizer's state, and the counters of updates done and skipped
    ema          the moving average of the parameters, where one is kept
    meta         JSON: what the run is and where it stands (`wam_jax.training.record`), and checksums of every array

A checkpoint exists once its directory has its final name, which happens when all of it is on disk; a write that was cut
short leaves a directory with a temporary name, which is never taken for one. Values are compared with their checksums
when they are read: what is damaged is said and never used, nor is an older one used in its place without being asked.
Of what goes wrong while reading, only what says something of the files is called damage.
"""

import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import jax
import orbax.checkpoint as ocp

from wam_jax.cli import RunError
from wam_jax.errors import InputError
from wam_jax.policies.base import Params
from wam_jax.training.checksums import checksums
from wam_jax.training.locate import CheckpointRef, Json, durable_steps
from wam_jax.training.state import TrainState
from wam_jax.training.tree import leaf_dtypes, named_shapes

FORMAT = 1
"""Of the layout above; one that this version cannot read has a higher number."""

_FORMAT, _CHECKSUMS = "format", "checksums"
_SHOWN = 5
_NOT_OF_FILES = (MemoryError, ConnectionError, TimeoutError, jax.errors.JaxRuntimeError)
_FORBIDDEN = "PERMISSION_DENIED"
_STATUS = r"[A-Z]+(_[A-Z]+)*: "
"""How messages of the storage library begin, which raises them as `ValueError`."""
_PASSING = ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED")
"""Status words of the storage library that say nothing of the files."""


class CheckpointWriter:
    """Saves the states of one run; the newest `keep` stay."""

    def __init__(self, directory: Path, *, keep: int) -> None:
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, cleanup_tmp_directories=True)
        self._manager = ocp.CheckpointManager(directory.absolute(), options=options)
        self._directory, self._begun = directory, list[int]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def save(self, step: int, state: TrainState, meta: Json) -> None:
        """Starts to write the state after `step` updates; does nothing where there is one of this step already.

        Waits until the device has done those updates and the write before this one is over. Donating the state
        afterwards is safe. A write that failed in the background raises here, in `wait` or in `close`.

        Raises:
            RunError: a checkpoint cannot be written.
        """
        if step in self._manager.all_steps():
            return
        items = _items(state)
        meta = meta | {_FORMAT: FORMAT, _CHECKSUMS: {name: checksums(item) for name, item in items.items()}}
        arguments = {name: ocp.args.StandardSave(item) for name, item in items.items()}
        self._begun.append(step)
        with self._written():
            taken = self._manager.save(step, args=ocp.args.Composite(**arguments, meta=ocp.args.JsonSave(meta)))
        if not taken:
            raise RuntimeError(f"the checkpoint of step {step} was not taken; newest is {self._manager.latest_step()}")

    def wait(self) -> None:
        """Returns when everything saved is durable; errors as `save`."""
        with self._written():
            self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits, and releases the background threads; errors as `save`."""
        with self._written():
            self._manager.close()

    @contextmanager
    def _written(self) -> Generator[None]:
        """Says which checkpoint is lost where the storage fails; that it is another one than asked for is usual."""
        try:
            yield
        except (OSError, ValueError) as error:
            reason = _storage_failure(error)
            if reason is None:
                raise
            kept, run = durable_steps(self._directory), self._directory.parent
            lost = next((step for step in self._begun if step not in kept), self._begun[-1])
            way = f"the newest complete one is of step {kept[-1]}" if kept else "there is no complete one"
            remedy = f"then --resume-from {run}" if kept else "then start again"
            raise RunError(
                f"the checkpoint of step {lost} cannot be written ({reason}); {way}; make room, {remedy}"
            ) from error


def _storage_failure(error: OSError | ValueError) -> str | None:
    """Why the storage failed, in its last words; None where another defect did."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error).rsplit(": ", 1)[-1] if re.match(_STATUS, str(error)) else None


def read_meta(ref: CheckpointRef) -> Json:
    """The JSON of a checkpoint.

    Raises:
        InputError: it is damaged, or of a newer version.
    """
    meta = _read(ref, lambda manager: manager.restore(ref.step, args=_composite()))["meta"]
    if meta[_FORMAT] > FORMAT:
        remedy = f"is of format {meta[_FORMAT]}, and this version reads {FORMAT}; use the version that wrote it"
        raise InputError(ref.flag, str(ref.path), remedy)
    return meta


def restore_state(ref: CheckpointRef, abstract: TrainState) -> TrainState:
    """The state of a checkpoint, bitwise, in the shards of `abstract`.

    Raises:
        InputError: it is damaged, or is not of this model and optimizer.
    """
    stored = _stored_parameters(ref)
    _check_parameters(ref, abstract.params, stored)
    if leaf_dtypes(stored) != leaf_dtypes(abstract.params):
        raise InputError(ref.flag, str(ref.path), "its parameters have another backbone.param_dtype; set that one")
    targets = _items(abstract)
    if ("ema" in targets) != (ref.path / "ema").exists():
        raise InputError(
            "training.optimizer.ema_decay",
            "a decay" if "ema" in targets else None,
            f"the run of {ref.path} had it otherwise; set it so, or take its parameters by --initialize-weights-from",
        )
    found = _verified(ref, targets)
    counters = found["optimizer"]
    return TrainState(
        step=counters["step"],
        skipped=counters["skipped"],
        params=found["params"],
        opt_state=counters["state"],
        ema=found.get("ema"),
    )


def restore_params(ref: CheckpointRef, abstract: Params) -> Params:
    """The parameters of a checkpoint in the shards and dtypes of `abstract`.

    Raises:
        InputError: it is damaged, or names or shapes differ; the message says how many parameters fit.
    """
    stored = _stored_parameters(ref)
    _check_parameters(ref, abstract, stored)
    target = jax.tree.map(
        lambda own, found: jax.ShapeDtypeStruct(own.shape, found.dtype, sharding=own.sharding), abstract, stored
    )
    params = _verified(ref, {"params": target})["params"]
    return jax.tree.map(lambda leaf, own: leaf.astype(own.dtype), params, abstract)


def damaged(ref: CheckpointRef, reason: str) -> InputError:
    """What to say of a checkpoint that cannot be read: the one before it is offered, not taken."""
    other = ref.previous
    offer = (
        f"the one before it is whole as far as is known: {ref.flag} {other.path}"
        if other
        else "there is none before it"
    )
    return InputError(
        ref.flag, str(ref.path), f"this checkpoint is damaged ({' '.join(reason.split())[:200]}); {offer}"
    )


def _items(state: TrainState) -> dict[str, Any]:
    optimizer = {"state": state.opt_state, "step": state.step, "skipped": state.skipped}
    items = {"params": state.params, "optimizer": optimizer}
    return items if state.ema is None else items | {"ema": state.ema}


def _verified(ref: CheckpointRef, targets: dict[str, Any]) -> dict[str, Any]:
    arguments = {name: ocp.args.StandardRestore(target) for name, target in targets.items()}
    found = _read(ref, lambda manager: manager.restore(ref.step, args=_composite(**arguments)))
    for name in targets:
        if checksums(found[name]) != found["meta"][_CHECKSUMS][name]:
            raise damaged(ref, f"the values of {name} differ from their checksums")
    return found


def _stored_parameters(ref: CheckpointRef) -> Any:
    """The tree of the stored parameters, with leaves that have a shape and a dtype."""
    handler = ocp.StandardCheckpointHandler()
    return _read(ref, lambda manager: manager.item_metadata(ref.step)["params"].tree, params=handler)


def _composite(**arguments: Any) -> ocp.args.Composite:
    return ocp.args.Composite(**arguments, meta=ocp.args.JsonRestore())


def _read(ref: CheckpointRef, action: Callable[[ocp.CheckpointManager], Any], **handlers: Any) -> Any:
    """What `action` reads; errors of memory, devices and peers pass, others say something of the files."""
    options = ocp.CheckpointManagerOptions(read_only=True)
    report, sys.unraisablehook = sys.unraisablehook, _without_late_reads(sys.unraisablehook)
    try:
        with ocp.CheckpointManager(ref.directory, options=options, item_handlers=handlers or None) as manager:
            found = action(manager)
    except Exception as error:  # The hook stays: more may come.
        if isinstance(error, _NOT_OF_FILES) or str(error).startswith(_PASSING):
            raise
        if isinstance(error, PermissionError) or str(error).startswith(_FORBIDDEN):
            raise InputError(ref.flag, str(ref.path), f"this checkpoint cannot be read ({error})") from error
        raise damaged(ref, f"{type(error).__name__}: {error}") from error
    sys.unraisablehook = report
    return found


def _without_late_reads(report: Callable[[Any], object]) -> Callable[[Any], None]:
    """Keeps Python from printing a traceback for each array that was still being read when another one failed.

    Orbax closes the event loop that they report to; nobody can catch what they then raise.
    """

    def hook(unraisable: Any) -> None:
        late = isinstance(unraisable.exc_value, RuntimeError) and "Event loop is closed" in str(unraisable.exc_value)
        if not late:
            report(unraisable)

    return hook


def _check_parameters(ref: CheckpointRef, wanted: Params, stored: Any) -> None:
    own, found = named_shapes(wanted), named_shapes(stored)
    shared = [name for name in own if name in found]
    problems = {
        "missing": [name for name in own if name not in found],
        "unknown": [name for name in found if name not in own],
        "of another shape": [f"{name} {found[name]}, not {own[name]}" for name in shared if found[name] != own[name]],
    }
    said = [f"{len(names)} {kind} ({', '.join(names[:_SHOWN])})" for kind, names in problems.items() if names]
    if said:
        fitting = sum(found[name] == own[name] for name in shared)
        remedy = f"fits {fitting} of {len(own)} parameters: {'; '.join(said)}; use the model that it was trained with"
        raise InputError(ref.flag, str(ref.path), remedy)
