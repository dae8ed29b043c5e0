"""`run.json`: what a run is. One entry in `launches` for each start of the command on it.

Written before the first update and replaced as a whole, so that it is never half there. What a checkpoint says of its
run (`checkpoint_meta`) is enough to continue it without this file.
"""

import dataclasses
import datetime
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wam_jax.config.schema import Config, DataConfig
from wam_jax.data.storage.store import Store
from wam_jax.errors import InputError
from wam_jax.training import environment
from wam_jax.training.locate import CheckpointRef, Json
from wam_jax.training.phases import DataPhase
from wam_jax.training.start import RUN_FILE, Start

_SPLIT = {
    "bucket.pool": "data.batching.bucket_pool_size",
    "bucket.microbatch": "data.train_batch_size",
    "bucket.accumulation": "training.gradient_accumulation_steps",
    "bucket.ranks": "devices",
}
"""Parts of a bucket's contract, and what sets each."""


def run_record(
    start: Start,
    config: Config,
    *,
    overrides: Json,
    parameters: dict[str, int],
    data: Json,
    shapes: Json,
    source_meta: Json | None,
) -> Json:
    """The content of `run.json`.

    Args:
        start: what was asked for.
        config: the run's.
        overrides: dotted name to value, from the command line.
        parameters: numbers in each part of the model.
        data: what it reads (`data_record`).
        shapes: what this start compiles (`wam_jax.data.batching.modes.Shapes.summary`).
        source_meta: JSON of the checkpoint that is resumed or initialised from.
    """
    launch = {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "overrides": overrides,
        "from_step": start.resume.step if start.resume else 0,
        "changed": changed_fields(source_meta["config"], config) if start.resume and source_meta else {},
        "versions": environment.versions(),
        "git": environment.git_state(),
        "devices": environment.devices(),
        "shapes": shapes,
    }
    earlier = start.record or {}
    return {
        "run_id": start.run_id,
        "name": config.name,
        "parent": earlier["parent"] if start.record else parent_of(start, source_meta),
        "config": dataclasses.asdict(config),
        "parameters": parameters,
        "data": data,
        "launches": [*earlier.get("launches", []), launch],
    }


def data_record(config: DataConfig, store: Store) -> Json:
    """What a recipe reads: its stores by name; fingerprint, episodes and sizes of all of them together."""
    return {
        "store": config.store,
        "more_stores": [name for name, _ in config.more_stores],
        "fingerprint": store.fingerprint,
        "episodes": len(store),
        "dims": dataclasses.asdict(store.manifest.dims),
    }


def write_run_record(workdir: Path, record: Json) -> None:
    """Puts `run.json` in place in one move."""
    workdir.mkdir(parents=True, exist_ok=True)
    replace_text(workdir / RUN_FILE, json.dumps(record, indent=1) + "\n")


def checkpoint_meta(
    record: Json, contract: Json, phase: DataPhase, *, samples_per_update: int
) -> Callable[[int], Json]:
    """What a checkpoint says of its run, as a function of the updates done.

    `next_draw` counts the draws of the stream before the next update. In all modes but bucket, that is the place of its
    first draw; a bucket's updates take draws from anywhere in the epoch that this place is in.

    Args:
        record: of the run.
        contract: what decides which draws make which update (`TrainData.contract`).
        phase: where in the stream of draws the run is.
        samples_per_update: draws of an update.
    """
    fixed = {
        **{name: record[name] for name in ("run_id", "name", "parent", "config")},
        "overrides": record["launches"][-1]["overrides"],
        "data_contract": contract,
        "data_phase": dataclasses.asdict(phase),
    }
    return lambda step: fixed | {"step": step, "next_draw": (step + phase.shift) * samples_per_update}


def parent_of(start: Start, source_meta: Json | None) -> Json | None:
    """Which checkpoint of another run this one comes from."""
    if start.source is None or source_meta is None:
        return None
    how = "resumed" if start.resume else "initialised"
    return {"how": how, "run_id": source_meta["run_id"], "path": str(start.source.path), "step": start.source.step}


def check_contract(ref: CheckpointRef, meta: Json, contract: Json) -> None:
    """Refuses to continue another stream of draws than the checkpoint's.

    Raises:
        InputError: listing every field that differs.
    """
    stored, own = _flat(meta["data_contract"]), _flat(json.loads(json.dumps(contract)))
    differing = [name for name in sorted(stored.keys() | own.keys()) if stored.get(name) != own.get(name)]
    if differing:
        said = "; ".join(f"{name} was {stored.get(name)!r} and is {own.get(name)!r}" for name in differing)
        remedy = (
            f"the data differ ({said}); restore them{_split_to_restore(stored, differing)}, or keep parameters, "
            "optimizer and step but draw anew by --new-data-phase, or start a new run with the parameters by "
            "--initialize-weights-from"
        )
        raise InputError(ref.flag, str(ref.path), remedy)


def _split_to_restore(stored: Json, differing: list[str]) -> str:
    """Which settings give an update the draws that it had; a contract has no names of them."""
    if any(name in differing for name in _SPLIT) and all(name in stored for name in _SPLIT):
        return f" (bucket mode needs {', '.join(f'{field} {stored[name]}' for name, field in _SPLIT.items())})"
    if "draws_per_step" in differing:
        draws = stored["draws_per_step"]
        return f" (data.train_batch_size x training.gradient_accumulation_steps x devices must be {draws})"
    return ""


def changed_fields(before: Json, config: Config) -> dict[str, list[Any]]:
    """Dotted name to [old, new] of the fields in which a stored configuration differs."""
    old, new = _flat(before), _flat(json.loads(json.dumps(dataclasses.asdict(config))))
    names = sorted(old.keys() | new.keys())
    return {name: [old.get(name), new.get(name)] for name in names if old.get(name) != new.get(name)}


def replace_text(path: Path, text: str) -> None:
    """Writes a file so that a reader, or a crash, sees the old content or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _flat(tree: Json, prefix: str = "") -> Json:
    leaves: Json = {}
    for name, value in tree.items():
        leaves |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return leaves
