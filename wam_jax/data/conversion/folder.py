"""Plain folders: one `.npz` or `.safetensors` per episode, and optionally a line about each in `episodes.jsonl`.

    ROOT/**/NAME.npz            frames [R, H, W, 3] uint8, or video_latents [C, T, h, w]; actions; states; ...
    ROOT/episodes.jsonl         {"file": "NAME.npz", "task": ..., "instruction": ..., "fps": ..., "split": ...}

`actions` has one row per frame, or one less; row i leads from frame i to frame i + 1. Several cameras are several
arrays of frames, named with `--camera`. With latents, `condition_latents` may lie beside them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from etils import epath

from wam_jax.data.conversion.arrays import read_npz, read_safetensors
from wam_jax.data.conversion.canvas import View, lay_out
from wam_jax.data.conversion.content import STRIDE, Content, Listed
from wam_jax.data.conversion.lerobot_meta import json_lines
from wam_jax.data.conversion.paths import files_below, local_copy
from wam_jax.data.conversion.sidecar import default_record
from wam_jax.data.conversion.timeline import Timeline
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.units import Units
from wam_jax.errors import InputError

ABOUT = "episodes.jsonl"
SUFFIXES = (".npz", ".safetensors")
_VIDEO, _FRAMES = "video_latents", "frames"
_TEXTS = ("id", "task", "instruction", "split", "source", "group")


@dataclass(frozen=True)
class Folder:
    """One folder.

    Attributes:
        root: the directory.
        name: what ids and the `source` column call it.
        views: arrays of frames to lay out; without any, `frames`.
        timeline: how frames are sampled; files with latents are taken as they are.
        action_key, state_key: arrays; a state that is missing is left out.
        actions_per_frame: A of files with latents.
        fps: where `episodes.jsonl` says nothing.
        record: what made the latents; None takes the default of side-cars.
        cache: for copies of remote files.
    """

    root: str
    name: str
    views: tuple[View, ...]
    timeline: Timeline
    action_key: str
    state_key: str | None
    actions_per_frame: int
    fps: float
    record: EncoderRecord | None
    cache: Path

    @property
    def layout(self) -> str:
        return "folder of episode files"

    @cached_property
    def units(self) -> Units:
        return Units(self.actions_per_frame, STRIDE) if self.latents else self.timeline.units

    @cached_property
    def latents(self) -> EncoderRecord | None:
        for path in self._files:
            try:
                arrays = self._arrays(path)
            except InputError:
                continue
            if _VIDEO in arrays:
                return self.record or default_record(len(arrays[_VIDEO]), views=1)
            return None
        return None

    def episodes(self) -> Sequence[Listed]:
        about = self._about
        known = {str(path.relative_to(self.root)) for path in self._files}
        missing = sorted(set(about) - known)
        if missing:
            raise InputError(f"{self.root}/{ABOUT}: file", missing[0], "a file of the folder")
        if not known:
            raise InputError(self.root, 0, f"episode files, {' or '.join(SUFFIXES)}")
        return [self._listed(name, about.get(name, {})) for name in sorted(known)]

    def control(self, listed: Listed) -> tuple[np.ndarray, np.ndarray | None]:
        return self._control(self._arrays(epath.Path(self.root) / listed.place), listed.place)

    def content(self, listed: Listed) -> Content:
        arrays = self._arrays(epath.Path(self.root) / listed.place)
        actions, states = self._control(arrays, listed.place)
        if self.latents is None:
            return Content(actions=actions, states=states, frames=self._canvas(arrays, listed.place))
        video, clean = arrays.get(_VIDEO), arrays.get("condition_latents")
        if video is None or video.ndim != 4:
            shape = None if video is None else video.shape
            raise InputError(f"{listed.place}: {_VIDEO}", shape, "[channels, frames, height, width]")
        return Content(actions=actions, states=states, video_latents=video, condition_latents=clean)

    def empty_text(self) -> np.ndarray | None:
        return None

    @cached_property
    def _files(self) -> list[epath.Path]:
        return [path for path in files_below(epath.Path(self.root)) if path.suffix in SUFFIXES]

    @cached_property
    def _about(self) -> dict[str, dict[str, Any]]:
        path = epath.Path(self.root) / ABOUT
        if not path.exists():
            return {}
        rows = list(json_lines(path))
        for number, row in enumerate(rows, 1):
            wrong = [name for name in _TEXTS if not isinstance(row.get(name, ""), str)]
            if wrong or not isinstance(row.get("file"), str) or not isinstance(row.get("fps", 1), int | float):
                raise InputError(f"{path}: line {number}", wrong or "file, fps", "text, and fps a number")
        return {row["file"]: row for row in rows}

    def _listed(self, file: str, about: Mapping[str, Any]) -> Listed:
        instruction = about.get("instruction", "")
        return Listed(
            id=about.get("id", f"{self.name}/{file.rsplit('.', 1)[0]}"),
            task=about.get("task") or instruction or self.name,
            instruction=instruction,
            fps=about.get("fps", self.fps) / self.timeline.stride,
            raw_frames=None,
            place=file,
            source=about.get("source", self.name),
            split=about.get("split"),
            group=about.get("group"),
        )

    def _arrays(self, path: epath.Path) -> dict[str, np.ndarray]:
        file = local_copy(path, self.cache)
        return read_npz(file) if path.suffix == ".npz" else read_safetensors(file)

    def _control(self, arrays: Mapping[str, np.ndarray], where: str) -> tuple[np.ndarray, np.ndarray | None]:
        actions, states = arrays.get(self.action_key), arrays.get(self.state_key or "")
        for name, array in ((self.action_key, actions), (self.state_key, states)):
            if array is not None and (array.ndim != 2 or array.dtype.kind not in "fiu"):
                raise InputError(f"{where}: {name}", (array.shape, str(array.dtype)), "numbers [rows, dim]")
        if actions is None:
            raise InputError(f"{where}: {self.action_key}", None, f"is missing; there are {', '.join(arrays)}")
        if _VIDEO in arrays:
            return actions, states
        recorded = len(self._frames(arrays, self._views[0].camera, where))
        if len(actions) not in (recorded, recorded - 1) or (states is not None and len(states) != recorded):
            raise InputError(f"{where}: {self.action_key}", len(actions), f"{recorded} rows, one a frame, or one less")
        padded = np.concatenate([actions, actions[-1:]])[:recorded]  # The last row is dropped in any case.
        return self.timeline.actions(padded), None if states is None else self.timeline.states(states)

    @property
    def _views(self) -> tuple[View, ...]:
        return self.views or (View(_FRAMES),)

    def _frames(self, arrays: Mapping[str, np.ndarray], camera: str, where: str) -> np.ndarray:
        frames = arrays.get(camera)
        if frames is None or frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8:
            said = None if frames is None else (frames.shape, str(frames.dtype))
            raise InputError(f"{where}: {camera}", said, "[frames, height, width, 3] uint8 RGB")
        return frames

    def _canvas(self, arrays: Mapping[str, np.ndarray], where: str) -> np.ndarray:
        videos = {view.camera: self._frames(arrays, view.camera, where) for view in self._views}
        canvas = lay_out(self._views, {name: video.shape[1:3] for name, video in videos.items()})
        count = len(next(iter(videos.values())))
        whole = np.zeros((self.timeline.frames(count), canvas.height, canvas.width, 3), np.uint8)
        for view in canvas.views:
            rows, columns = canvas.part(view)
            part, video = whole[:, rows, columns], self.timeline.states(videos[view.camera])
            if part.shape != video.shape:
                raise InputError(
                    f"{where}: {view.camera}", video.shape, f"{part.shape}: the rectangle and {count} frames"
                )
            part[:] = video
        return whole
