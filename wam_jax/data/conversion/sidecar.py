"""The reference implementation's policy data: LeRobot-v2 repositories with latents beside them.

    ROOT/[.../]meta/info.json, meta/episodes.jsonl, data/...        rows: actions and state
    ROOT/[.../]latents/chunk-XXX/CAMERA/episode_EEEEEE_START_END.pth

Every file of the first camera is one episode of the store. Which recorded rows belong to it follows from its
`frame_ids`; without them its video is every frame from START up to and without END.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from etils import epath

from wam_jax.data.conversion.canvas import Canvas, View, lay_out
from wam_jax.data.conversion.content import STRIDE, Content, Listed
from wam_jax.data.conversion.lerobot_meta import INFO, Entry, Info, read_entries, read_info
from wam_jax.data.conversion.paths import directories_with, local_copy
from wam_jax.data.conversion.payload import LatentPayload, open_payload, read_text
from wam_jax.data.conversion.rows import episode_rows, matrix
from wam_jax.data.conversion.timeline import Timeline
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.units import Units
from wam_jax.errors import InputError

_WINDOW = re.compile(r"episode_(\d{6,9})_(\d{1,9})_(\d{1,9})\.pth")
EMPTY_TEXT = "empty_emb.pt"


@dataclass(frozen=True)
class Window:
    """One latent file: its repository, the episode's rows, the file's place below the cameras, START and END."""

    repo: str
    entry: Entry
    chunk: str
    file: str
    start: int
    end: int


@dataclass(frozen=True)
class SideCar:
    """Repositories below one root.

    Attributes:
        root: a repository, or a directory that holds some.
        name: what ids and the `source` column call it.
        views: cameras to lay out; without any, the only camera.
        timeline: how the encoder sampled the recordings.
        action_key, state_key: columns; a state of None leaves it out.
        latents_dir: the directory of latents in each repository.
        record: what made the latents; None takes `default_record`.
        empty_text_file: vectors of the empty prompt; None looks for `empty_emb.pt` at the root.
        cache: for copies of remote files.
    """

    root: str
    name: str
    views: tuple[View, ...]
    timeline: Timeline
    action_key: str
    state_key: str | None
    latents_dir: str
    record: EncoderRecord | None
    empty_text_file: str | None
    cache: Path

    @property
    def layout(self) -> str:
        return "LeRobot v2 with latent side-cars"

    @property
    def units(self) -> Units:
        return self.timeline.units

    @cached_property
    def latents(self) -> EncoderRecord:
        if self.record is not None:
            return self.record
        return default_record(self._sample(self._cameras[0]).channels, views=len(self._cameras))

    @cached_property
    def canvas(self) -> Canvas:
        """The cameras with their rectangles, in pixels of what was encoded."""
        stride, sizes = self.latents.spatial_stride, {}
        for camera in self._cameras:
            _, height, width = self._sample(camera).grid
            sizes[camera] = stride * height, stride * width
        return lay_out(self.views or [View(name) for name in self._cameras], sizes)

    def episodes(self) -> Sequence[Listed]:
        found = [self._listed(window) for window in self._windows]
        if not found:
            raise InputError(
                self.root, 0, f"files {self.latents_dir}/chunk-XXX/{self._cameras[0]}/episode_E_START_END.pth"
            )
        return found

    def control(self, listed: Listed) -> tuple[np.ndarray, np.ndarray | None]:
        return self._control(listed.place, self._open(listed.place, self._cameras[0]))

    def content(self, listed: Listed) -> Content:
        window: Window = listed.place
        payloads = [self._open(window, view.camera) for view in self.canvas.views]
        condition = [payload.condition_latents() for payload in payloads]
        clean = [latents for latents, _ in condition if latents is not None]
        actions, states = self._control(window, payloads[0])
        return Content(
            actions=actions,
            states=states,
            video_latents=self._composed([payload.latents() for payload in payloads], listed.id),
            condition_latents=self._composed(clean, listed.id) if len(clean) == len(payloads) else None,
            text=payloads[0].text(),
            notes=condition[0][1],
        )

    def empty_text(self) -> np.ndarray | None:
        path = epath.Path(self.empty_text_file or epath.Path(self.root) / EMPTY_TEXT)
        if self.empty_text_file is None and not path.exists():
            return None
        return read_text(local_copy(path, self.cache))

    @cached_property
    def _repos(self) -> dict[str, Info]:
        root = epath.Path(self.root)
        found = list(directories_with(root, INFO))
        return {"" if path == root else str(path.relative_to(root)): read_info(path) for path in found}

    @cached_property
    def _cameras(self) -> tuple[str, ...]:
        if self.views:
            return tuple(view.camera for view in self.views)
        found = sorted({path.name for repo in self._repos for path in self._latents(repo).glob("chunk-*/*")})
        if len(found) != 1:
            raise InputError(
                "--camera", None, f"which of {', '.join(found) or 'no cameras'}? name one or more, in order"
            )
        return tuple(found)

    @cached_property
    def _windows(self) -> list[Window]:
        return [window for repo in self._repos for window in self._windows_of(repo)]

    def _windows_of(self, repo: str) -> Iterator[Window]:
        root, info = epath.Path(self.root) / repo, self._repos[repo]
        info.check_columns(self.action_key, self.state_key)
        entries = {entry.index: entry for entry in read_entries(root, info, ())}
        for path in sorted(self._latents(repo).glob(f"chunk-*/{self._cameras[0]}/*.pth")):
            match = _WINDOW.fullmatch(path.name)
            if match and int(match[1]) in entries:
                start, end = int(match[2]), int(match[3])
                yield Window(repo, entries[int(match[1])], path.parent.parent.name, path.name, start, end)

    def _listed(self, window: Window) -> Listed:
        instruction = window.entry.tasks[0] if window.entry.tasks else ""
        episode = "/".join(part for part in (self.name, window.repo, f"{window.entry.index:06d}") if part)
        return Listed(
            id=f"{episode}-{window.start}-{window.end}",
            task=instruction or self.name,
            instruction=instruction,
            fps=self._repos[window.repo].fps / self.timeline.stride,
            raw_frames=None,
            place=window,
            source=self.name,
            group=episode,
        )

    def _latents(self, repo: str) -> epath.Path:
        return epath.Path(self.root) / repo / self.latents_dir

    def _open(self, window: Window, camera: str) -> LatentPayload:
        path = self._latents(window.repo) / window.chunk / camera / window.file
        return open_payload(local_copy(path, self.cache))

    def _sample(self, camera: str) -> LatentPayload:
        """Any payload of a camera that can be read, for its sizes."""
        for window in self._windows:
            try:
                payload = self._open(window, camera)
                payload.latents()
            except InputError as error:
                problem = error
            else:
                return payload
        raise problem if self._windows else InputError(self.root, 0, f"latents below {self.latents_dir}")

    def _control(self, window: Window, payload: LatentPayload) -> tuple[np.ndarray, np.ndarray | None]:
        keys = [self.action_key, *([self.state_key] if self.state_key else [])]
        path = epath.Path(self.root) / window.repo / window.entry.data
        table = episode_rows(path, window.entry.index, keys)
        ids = sampled_frames(
            payload.frame_ids(window.start, window.end),
            payload.grid[0],
            stride=self.timeline.stride,
            where=f"{payload.file.path}: frame_ids",
        )
        if ids.stop > len(table):
            raise InputError(
                f"{payload.file.path}: frame_ids", ids.stop - 1, f"row {len(table) - 1} is the episode's last"
            )
        table = table.slice(ids.start, ids.stop - ids.start)
        actions = self.timeline.actions(matrix(table, self.action_key, where=str(path)))
        states = self.timeline.states(matrix(table, self.state_key, where=str(path))) if self.state_key else None
        return actions, states

    def _composed(self, parts: Sequence[np.ndarray], episode: str) -> np.ndarray:
        """Views `[C, T, h, w]` on the canvas."""
        stride, canvas = self.latents.spatial_stride, self.canvas
        C, T = parts[0].shape[:2]
        whole = np.zeros((C, T, canvas.height // stride, canvas.width // stride), np.float32)
        for view, part in zip(canvas.views, parts, strict=True):
            rows, columns = canvas.part(view, stride=stride)
            place = whole[:, :, rows, columns]
            if place.shape != part.shape:
                raise InputError(
                    f"{episode}: {view.camera}", part.shape, f"{place.shape}, the view's part of the canvas"
                )
            place[:] = part
        return whole


def sampled_frames(ids: np.ndarray, frames: int, *, stride: int, where: str) -> range:
    """The recorded frames of a video, from what its payload says.

    Args:
        ids: recorded frames, one per frame of the video, or one per latent frame (its anchor).
        frames: T latent frames.
        stride: recorded frames from one frame of the video to the next.
        where: for messages.
    Returns:
        First to last recorded frame that T latent frames cover.
    Raises:
        InputError: they are not evenly `stride` apart, or are not as many as T latent frames have.
    """
    steps = np.diff(ids)
    if len(ids) < 2 or (steps < 1).any():
        raise InputError(where, ids[:8].tolist(), "at least two frames, ascending")
    per_latent = len(ids) == frames and (steps[:-1] == STRIDE * stride).all() and steps[-1] <= STRIDE * stride
    if not per_latent and (steps != stride).any():
        remedy = f"every {stride}; see --frame-stride, and convert recordings that were sampled unlike each other apart"
        raise InputError(where, f"steps of {sorted(set(steps.tolist()))[:4]}", remedy)
    count = (int(ids[-1]) - int(ids[0])) // stride + 1
    if count <= 1 + STRIDE * (frames - 2):
        raise InputError(
            where, f"{count} frames of video", f"more than {1 + STRIDE * (frames - 2)} for {frames} latents"
        )
    last = min(count, 1 + STRIDE * (frames - 1)) - 1
    return range(int(ids[0]), int(ids[0]) + stride * last + 1)


def default_record(channels: int, *, views: int) -> EncoderRecord:
    """What the reference's own encoder leaves: Wan2.2's VAE, 48 channels, 16 pixels a cell.

    Views that were encoded one by one are not what their common canvas would be encoded to, so the two are told apart.

    Raises:
        InputError: the latents have another number of channels.
    """
    if channels != 48:
        raise InputError("--latents-record", f"{channels} channels", "a JSON file that says what made these latents")
    return EncoderRecord(
        name="wan2.2-vae",
        kind="vae" if views == 1 else "vae, each view alone",
        spatial_stride=16,
        temporal_stride=STRIDE,
        channels=channels,
        normaliser="posterior mean, scaled with the VAE's mean and std",
    )
