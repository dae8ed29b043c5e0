"""Which source a directory is, and opening it as the options say."""

import json
from pathlib import Path

from etils import epath

from wam_jax.data.conversion.canvas import parse_view
from wam_jax.data.conversion.content import Source
from wam_jax.data.conversion.dynamics import MANIFEST, Dynamics
from wam_jax.data.conversion.encoders import check_record
from wam_jax.data.conversion.folder import SUFFIXES, Folder
from wam_jax.data.conversion.lerobot import LeRobot
from wam_jax.data.conversion.lerobot_meta import INFO
from wam_jax.data.conversion.options import Options
from wam_jax.data.conversion.sidecar import SideCar
from wam_jax.data.conversion.timeline import Timeline
from wam_jax.data.jsonio import from_json
from wam_jax.data.manifest import EncoderRecord
from wam_jax.errors import InputError

_COLUMNS, _ARRAYS = ("action", "observation.state"), ("actions", "states")
_KINDS = "a LeRobot dataset, side-cars, a dynamics root, or a folder of .npz or .safetensors"


def find_layout(root: epath.Path, latents: str) -> str:
    """One of `LAYOUTS`; raises InputError where the directory is none of them."""
    if not root.is_dir():
        raise InputError("source", str(root), f"a directory: {_KINDS}")
    if root.joinpath(MANIFEST).exists():
        return "dynamics"
    infos = (
        [root / INFO]
        if root.joinpath(INFO).exists()
        else [p for p in root.rglob("info.json") if p.parent.name == "meta"]
    )
    if any(info.parent.parent.joinpath(latents).is_dir() for info in infos):
        return "sidecar"
    if root.joinpath(INFO).exists():
        return "lerobot"
    if any(path.suffix in SUFFIXES for path in root.rglob("*")):
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
    name = options.name or root.name or root.resolve().name
    views = tuple(parse_view(text) for text in options.camera)
    timeline = Timeline(options.frame_stride, options.action_rows, options.action_shift)
    record = read_record(options.latents_record) if options.latents_record else None
    action = options.action_key
    match layout:
        case "lerobot":
            return LeRobot(
                root=str(root),
                name=name,
                views=views,
                timeline=timeline,
                action_key=action or _COLUMNS[0],
                state_key=_state(options, _COLUMNS[1]),
                fit=options.fit,
                cache=cache,
            )
        case "sidecar":
            return SideCar(
                root=str(root),
                name=name,
                views=views,
                timeline=timeline,
                action_key=action or _COLUMNS[0],
                state_key=_state(options, _COLUMNS[1]),
                latents_dir=options.latents,
                record=record,
                empty_text_file=options.empty_text,
                cache=cache,
            )
        case "dynamics":
            return Dynamics(
                root=str(root),
                name=name,
                actions_per_frame=options.actions_per_frame,
                fps=options.fps,
                state_key=options.state_key or None,
                record=record,
                cache=cache,
            )
        case _:
            return Folder(
                root=str(root),
                name=name,
                views=views,
                timeline=timeline,
                action_key=action or _ARRAYS[0],
                state_key=_state(options, _ARRAYS[1]),
                actions_per_frame=options.actions_per_frame,
                fps=options.fps,
                record=record,
                cache=cache,
            )


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
