"""The reference implementation's encoded dynamics roots: branches from restored states, and the demonstrations' own.

    ROOT/manifest.json                         schema, reference branch, and where raw payloads lie, relative to ROOT
    ROOT/metadata/encoded_transitions.jsonl    one row per transition
    ROOT/[SHARD/]TARGET_LATENT_PATH            a dict with `target_video_latents` [C, T, H, W]
    RAW/[SHARD/]SAMPLE_PATH                    .npz with `future_actions` [A, D] and the state

Latent frame 0 is the restored state. Rows of the reference branch become source `real_demo`, the others
`counterfactual_dynamics`. They have no text. All rows of one demonstration share a split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from etils import epath

from wam_jax.data.conversion.arrays import read_npz
from wam_jax.data.conversion.content import STRIDE, Content, Listed
from wam_jax.data.conversion.lerobot_meta import json_lines, read_json
from wam_jax.data.conversion.paths import inside, local_copy
from wam_jax.data.conversion.sidecar import default_record
from wam_jax.data.conversion.torch_file import TorchFile, read_torch
from wam_jax.data.conversion.torch_pickle import TensorRecord
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.units import Units
from wam_jax.errors import InputError

MANIFEST, ROWS = "manifest.json", "metadata/encoded_transitions.jsonl"
SCHEMA = "open_wam.encoded_dynamics.v1"
REAL, COUNTERFACTUAL = "real_demo", "counterfactual_dynamics"
_REQUIRED = ("branch", "context_id", "sample_id", "sample_path", "target_latent_path")
_LATENTS, _ACTIONS, _STATES = "target_video_latents", "future_actions", ("state", "states", "future_states")


@dataclass(frozen=True)
class Dynamics:
    """One root.

    Attributes:
        root: the directory.
        name: what ids begin with.
        actions_per_frame: A.
        fps: raw frames per second, which the root does not say.
        state_key: of the state in the raw payloads; None takes the first of the usual names that is there.
        record: what made the latents; None takes `default_record`.
        cache: for copies of remote files.
    """

    root: str
    name: str
    actions_per_frame: int
    fps: float
    state_key: str | None
    record: EncoderRecord | None
    cache: Path

    @property
    def layout(self) -> str:
        return f"encoded dynamics root ({SCHEMA})"

    @property
    def units(self) -> Units:
        return Units(actions_per_frame=self.actions_per_frame, temporal_stride=STRIDE)

    @cached_property
    def latents(self) -> EncoderRecord:
        if self.record is not None:
            return self.record
        problem = None
        for row in self._rows:
            try:
                return default_record(self._target(row)[1].shape[0], views=1)
            except InputError as error:
                problem = problem or error
        raise problem or InputError(self.root, 0, "rows with latents")

    def episodes(self) -> Sequence[Listed]:
        reference = self._manifest.get("reference_branch", "gt")
        rows = self._rows
        if reference not in {row["branch"] for row in rows}:
            raise InputError(f"{self.root}: reference_branch", reference, f"a branch of {ROWS}; none has it")
        return [self._listed(row, str(reference)) for row in rows]

    def control(self, listed: Listed) -> tuple[np.ndarray, np.ndarray | None]:
        row = listed.place
        return self._control(row, frames=self._target(row)[1].shape[1])

    def content(self, listed: Listed) -> Content:
        file, record = self._target(listed.place)
        if not record.storage.dtype.startswith(("float", "bfloat")):
            raise InputError(f"{file.path}: {_LATENTS}", record.storage.dtype, "floating-point numbers")
        actions, states = self._control(listed.place, frames=record.shape[1])
        latents = file.tensor(record, what=_LATENTS).astype(np.float32)
        return Content(actions=actions, states=states, video_latents=latents)

    def empty_text(self) -> np.ndarray | None:
        return None

    @cached_property
    def _manifest(self) -> Mapping[str, Any]:
        path = epath.Path(self.root) / MANIFEST
        manifest = read_json(path)
        if manifest.get("artifact_schema") != SCHEMA:
            raise InputError(f"{path}: artifact_schema", manifest.get("artifact_schema"), SCHEMA)
        raw = manifest.get("raw_payload_root")
        if not isinstance(raw, str) or not raw or raw.startswith("/") or "://" in raw:
            raise InputError(f"{path}: raw_payload_root", raw, "a path relative to the root")
        return manifest

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        path = epath.Path(self.root) / ROWS
        raw = epath.Path(self.root) / self._manifest["raw_payload_root"]
        if not raw.exists():
            raise InputError(f"{self.root}/{MANIFEST}: raw_payload_root", str(raw), "a directory that exists")
        rows = list(json_lines(path))
        for number, row in enumerate(rows, 1):
            for name in _REQUIRED:
                if not isinstance(row.get(name), str | int) or row.get(name) == "":
                    raise InputError(f"{path}: line {number}: {name}", row.get(name), "a name; it is required")
        if not rows:
            raise InputError(str(path), 0, "rows, one per transition")
        return rows

    def _listed(self, row: dict[str, Any], reference: str) -> Listed:
        task = row.get("task_id")
        parent, start = str(row.get("dataset_episode_index", row["context_id"])), row.get("t0_frame", 0)
        is_real = row["branch"] == reference
        return Listed(
            id="/".join(str(part) for part in (self.name, row["context_id"], row["branch"], row["sample_id"])),
            task=self.name if task is None else f"{self.name}/{task}",
            instruction="",
            fps=self.fps,
            raw_frames=None,
            place=row,
            source=REAL if is_real else COUNTERFACTUAL,
            group=f"{self.name}/{parent}",
            parent=None if is_real else (parent, STRIDE * start if isinstance(start, int) else 0),
        )

    def _target(self, row: Mapping[str, Any]) -> tuple[TorchFile, TensorRecord]:
        path = self._path(epath.Path(self.root), row, "target_latent_path")
        file = read_torch(local_copy(path, self.cache))
        record = file.content.get(_LATENTS) if isinstance(file.content, dict) else None
        if not isinstance(record, TensorRecord) or len(record.shape) != 4:
            raise InputError(f"{path}: {_LATENTS}", type(record).__name__, "a tensor [C, T, H, W]")
        return file, record

    def _path(self, root: epath.Path, row: Mapping[str, Any], name: str) -> epath.Path:
        shard = str(row.get("shard") or "")
        parts = [inside(part, where=f"{ROWS}: {name}") for part in (shard, str(row[name])) if part]
        return root.joinpath(*parts)

    def _control(self, row: Mapping[str, Any], *, frames: int) -> tuple[np.ndarray, np.ndarray | None]:
        path = self._path(epath.Path(self.root) / self._manifest["raw_payload_root"], row, "sample_path")
        arrays = read_npz(local_copy(path, self.cache))
        if _ACTIONS not in arrays:
            raise InputError(f"{path}: {_ACTIONS}", None, f"is missing; there are {', '.join(arrays) or 'no arrays'}")
        actions, between = arrays[_ACTIONS], self.actions_per_frame * (frames - 1)
        if actions.ndim != 2 or len(actions) not in (between, between + self.actions_per_frame):
            remedy = (
                f"[{between}, D] or {self.actions_per_frame} rows more for {frames} latents; see --actions-per-frame"
            )
            raise InputError(f"{path}: {_ACTIONS}", actions.shape, remedy)
        names = (self.state_key,) if self.state_key else _STATES
        found = next((arrays[name] for name in names if name in arrays), None)
        return actions[:between], None if found is None else _states(found, frames, f"{path}: state")


def _states(states: np.ndarray, frames: int, where: str) -> np.ndarray:
    """States at every raw frame `[R, d]`, or at every latent frame `[T, d]` where there are no more."""
    recorded = 1 + STRIDE * (frames - 1)
    if states.ndim != 2 or (len(states) != frames and len(states) <= recorded - STRIDE):
        raise InputError(where, states.shape, f"[{recorded}, d], or [{frames}, d]: one a step or one a latent frame")
    return states[:recorded]
