"""LeRobot datasets v2.x and v3.0 as a source of frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from etils import epath

from wam_jax.data.conversion.canvas import Canvas, View, lay_out
from wam_jax.data.conversion.content import Content, Listed
from wam_jax.data.conversion.lerobot_meta import Entry, Info, read_entries, read_info, split_of
from wam_jax.data.conversion.paths import local_copy
from wam_jax.data.conversion.rows import episode_rows, matrix
from wam_jax.data.conversion.timeline import Timeline
from wam_jax.data.conversion.video import Fit, Span, read_frames, read_image
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.units import Units
from wam_jax.errors import InputError


@dataclass(frozen=True)
class LeRobot:
    """One dataset.

    Attributes:
        root: its directory, local or remote.
        name: what ids and the `source` column call it.
        views: cameras to lay out; without any, the only camera.
        timeline: how recordings are sampled.
        action_key, state_key: columns; a state of None leaves it out.
        fit: how a camera's picture fills a rectangle of another shape.
        cache: for copies of remote videos.
    """

    root: str
    name: str
    views: tuple[View, ...]
    timeline: Timeline
    action_key: str
    state_key: str | None
    fit: Fit
    cache: Path

    @property
    def layout(self) -> str:
        return f"LeRobot {self.info.codebase_version}"

    @property
    def units(self) -> Units:
        return self.timeline.units

    @property
    def latents(self) -> EncoderRecord | None:
        return None

    @cached_property
    def info(self) -> Info:
        """What `info.json` says."""
        return read_info(epath.Path(self.root))

    @cached_property
    def canvas(self) -> Canvas:
        """The cameras with their rectangles; raises InputError where the choice is not clear."""
        sizes = self.info.cameras()
        if not self.views and len(sizes) != 1:
            raise InputError("--camera", None, f"which of {', '.join(sorted(sizes)) or 'no cameras'}? name one or more")
        return lay_out(self.views or [View(name) for name in sizes], sizes)

    def episodes(self) -> Sequence[Listed]:
        cameras = tuple(view.camera for view in self.canvas.views)
        self.info.check_columns(self.action_key, self.state_key)
        return [self._listed(entry) for entry in read_entries(epath.Path(self.root), self.info, cameras)]

    def control(self, listed: Listed) -> tuple[np.ndarray, np.ndarray | None]:
        entry: Entry = listed.place
        keys = [self.action_key, *([self.state_key] if self.state_key else [])]
        path = epath.Path(self.root) / entry.data
        table = episode_rows(path, entry.index, keys)
        if len(table) != entry.length:
            raise InputError(str(path), len(table), f"{entry.length} rows of episode {entry.index} in the metadata")
        actions = self.timeline.actions(matrix(table, self.action_key, where=str(path)))
        states = self.timeline.states(matrix(table, self.state_key, where=str(path))) if self.state_key else None
        return actions, states

    def content(self, listed: Listed) -> Content:
        actions, states = self.control(listed)
        entry: Entry = listed.place
        count = len(entry.tasks)
        notes = (
            ()
            if count == 1
            else ("has no instruction",)
            if not count
            else ("has more than one instruction; kept: the first",)
        )
        return Content(actions=actions, states=states, frames=self._frames(entry), notes=notes)

    def empty_text(self) -> np.ndarray | None:
        return None

    def _listed(self, entry: Entry) -> Listed:
        instruction = entry.tasks[0] if entry.tasks else ""
        return Listed(
            id=f"{self.name}-{entry.index:06d}",
            task=instruction or self.name,
            instruction=instruction,
            fps=self.info.fps / self.timeline.stride,
            raw_frames=self.timeline.frames(entry.length),
            place=entry,
            source=self.name,
            split=split_of(self.info, entry.index),
        )

    def _frames(self, entry: Entry) -> np.ndarray:
        canvas = self.canvas
        frames = np.zeros((self.timeline.frames(entry.length), canvas.height, canvas.width, 3), np.uint8)
        for view in canvas.views:
            rows, columns = canvas.part(view)
            part = frames[:, rows, columns]
            if self.info.is_video(view.camera):
                path, start = entry.videos[view.camera]
                file = local_copy(epath.Path(self.root) / path, self.cache)
                span = Span(start, entry.length, self.info.fps, self.timeline.stride)
                part[:] = read_frames(file, span, size=part.shape[1:3], fit=self.fit)
            else:
                self._read_images(entry, view.camera, part)
        return frames

    def _read_images(self, entry: Entry, camera: str, out: np.ndarray) -> None:
        path = epath.Path(self.root) / entry.data
        images = self.timeline.states(episode_rows(path, entry.index, [camera])[camera].to_numpy(zero_copy_only=False))
        for number, (image, place) in enumerate(zip(images, out, strict=True)):
            where = f"{path}: {camera} of episode {entry.index}, frame {number}"
            data = image.get("bytes") if isinstance(image, dict) else None
            if not isinstance(data, bytes):
                raise InputError(where, type(data).__name__, "the bytes of an image file in the rows")
            read_image(data, place, where=where, fit=self.fit)
