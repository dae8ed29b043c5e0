"""Which source a directory is, and opening it as the options say."""

import json
from dataclasses import dataclass
from pathlib import Path

from etils import epath

from wam_jax.data.conversion.canvas import View, parse_view
from wam_jax.data.conversion.content import Source
from wam_jax.data.conversion.dynamics import MANIFEST, Dynamics
from wam_jax.data.conversion.encoders import check_record
from wam_jax.data.conversion.folder import SUFFIXES, Folder
from wam_jax.data.conversion.lerobot import LeRobot
from wam_jax.data.conversion.lerobot_meta import INFO
from wam_jax.data.conversion.options import Options
from wam_jax.data.conversion.paths import directories_with, files_below
from wam_jax.data.conversion.sidecar import SideCar
from wam_jax.data.conversion.timeline import Timeline
from wam_jax.data.jsonio import from_json
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.errors import InputError

_COLUMNS, _ARRAYS = ("action", "observation.state"), ("actions", "states")
_KINDS = "a LeRobot dataset, side-cars, a dynamics root, or a folder of .npz or .safetensors"


def find_layout(root: epath.Path, latents: str) -> str:
    """One of `LAYOUTS`; raises InputError where the directory is none of them."""
    if not root.is_dir():
        raise InputError("source", str(root), f"a directory: {_KINDS}")
    if root.joinpath(MANIFEST).exists():
        return "dynamics"
    repositories = list(directories_with(root, INFO))
    if any(path.joinpath(latents).is_dir() for path in repositories):
        return "sidecar"
    if root in repositories:
        return "lerobot"
    if any(path.suffix in SUFFIXES for path in files_below(root)):
        return "folder"
    raise InputError("source", str(root), _KINDS)


def open_source(options: Options, cache: Path) -> Source:
    """The source of a conversion.

    Args:
        options: the command's.
        cache: a directory for copies of remote files.
    Raises:
        InputError: it is none that is known, or its metadata cannot be used.
    """
    root = epath.Path(options.source).expanduser()
    layout = find_layout(root, options.latents) if options.layout == "auto" else options.layout
    place = _Place(str(root), options.name or root.name or root.resolve().name, cache)
    return {"lerobot": _lerobot, "sidecar": _sidecar, "dynamics": _dynamics, "folder": _folder}[layout](options, place)


@dataclass(frozen=True)
class _Place:
    root: str
    name: str
    cache: Path


def _lerobot(options: Options, place: _Place) -> LeRobot:
    return LeRobot(
        root=place.root,
        name=place.name,
        views=_views(options),
        timeline=_timeline(options),
        action_key=options.action_key or _COLUMNS[0],
        state_key=_state(options, _COLUMNS[1]),
        fit=options.fit,
        cache=place.cache,
    )


def _sidecar(options: Options, place: _Place) -> SideCar:
    return SideCar(
        root=place.root,
        name=place.name,
        views=_views(options),
        timeline=_timeline(options),
        action_key=options.action_key or _COLUMNS[0],
        state_key=_state(options, _COLUMNS[1]),
        latents_dir=options.latents,
        record=_record(options),
        empty_text_file=options.empty_text,
        cache=place.cache,
    )


def _dynamics(options: Options, place: _Place) -> Dynamics:
    return Dynamics(
        root=place.root,
        name=place.name,
        actions_per_frame=options.actions_per_frame,
        fps=options.fps,
        state_key=options.state_key or None,
        record=_record(options),
        cache=place.cache,
    )


def _folder(options: Options, place: _Place) -> Folder:
    return Folder(
        root=place.root,
        name=place.name,
        views=_views(options),
        timeline=_timeline(options),
        action_key=options.action_key or _ARRAYS[0],
        state_key=_state(options, _ARRAYS[1]),
        actions_per_frame=options.actions_per_frame,
        fps=options.fps,
        record=_record(options),
        cache=place.cache,
    )


def _views(options: Options) -> tuple[View, ...]:
    return tuple(parse_view(text) for text in options.camera)


def _timeline(options: Options) -> Timeline:
    return Timeline(options.frame_stride, options.action_rows, options.action_shift)


def _record(options: Options) -> EncoderRecord | None:
    return read_record(options.latents_record) if options.latents_record else None


def _state(options: Options, usual: str) -> str | None:
    return None if options.state_key == "none" else options.state_key or usual


def read_record(path: Path) -> EncoderRecord:
    """What made given latents, from JSON; raises InputError."""
    try:
        raw = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError("--latents-record", str(error), "a JSON file with the encoder's record") from None
    record = from_json(EncoderRecord, raw, where=str(path))
    check_record(record)
    return record
