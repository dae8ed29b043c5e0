"""The command line of `python -m wam_jax.data.convert`, read and checked as far as that goes without the source."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from wam_jax import cli
from wam_jax.data.conversion.encoders import CHOICES
from wam_jax.data.conversion.texts import STAND_IN
from wam_jax.data.conversion.timeline import ActionRows
from wam_jax.data.conversion.video import Fit
from wam_jax.data.storage.manifest import PAYLOAD_FORMATS
from wam_jax.data.storage.normalisation import Mode
from wam_jax.data.storage.splits import DEFAULT_VALIDATION_FRACTION
from wam_jax.errors import InputError

LAYOUTS = ("auto", "lerobot", "sidecar", "dynamics", "folder")


@dataclass(frozen=True)
class Options:
    """The arguments; names are those of the command line. What was converted under some goes on under others
    only where these are `UNPLANNED`."""

    source: str
    store: str
    layout: str
    name: str | None
    camera: tuple[str, ...]
    fit: Fit
    frame_stride: int
    action_rows: ActionRows
    action_shift: int
    actions_per_frame: int
    action_key: str
    state_key: str
    latents: str
    latents_record: Path | None
    encoder: str | None
    patch: int
    channels: int
    no_condition_latents: bool
    text: str | None
    empty_text: str | None
    fps: float
    normalise_actions: Mode
    normalise_state: Mode
    limits: Path | None
    clip: tuple[float, ...]
    val_fraction: float
    val_tasks: tuple[str, ...]
    val_episodes: Path | None
    task_names: Path | None
    max_episodes: int | None
    payload: str
    compression: str
    workers: int
    work_dir: Path | None
    skip_bad: bool
    restart: bool
    dry_run: bool
    report: Path | None


UNPLANNED = frozenset(
    {
        *("store", "work_dir", "payload", "compression", "text", "empty_text"),  # Episodes do not depend on them.
        *("workers", "skip_bad", "restart", "dry_run", "report"),
    }
)


def read_options(arguments: Sequence[str] | None, *, description: str) -> Options:
    """Reads the command line; raises InputError."""
    raw: dict[str, Any] = vars(_parser(description).parse_args(arguments))
    values: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in raw.items()}
    options = Options(**values)
    for name in ("workers", "patch", "channels", "actions_per_frame"):
        if getattr(options, name) < 1:
            raise InputError(_flag(name), getattr(options, name), "at least 1")
    if options.max_episodes is not None and options.max_episodes < 1:
        raise InputError("--max-episodes", options.max_episodes, "at least 1")
    if options.limits is not None and not options.limits.is_file():
        raise InputError("--limits", str(options.limits), "a JSON file")
    if not options.fps > 0:
        raise InputError("--fps", options.fps, "above 0")
    if not 0 <= options.val_fraction < 1:
        raise InputError("--val-fraction", options.val_fraction, "0 or more and below 1")
    if options.clip and options.clip[0] >= options.clip[1]:
        raise InputError("--clip", options.clip, "LOW below HIGH")
    if options.report is not None and not options.report.absolute().parent.is_dir():
        raise InputError("--report", str(options.report), "a file in a directory that exists")
    return options


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parser(description: str) -> argparse.ArgumentParser:
    parser = cli.Parser(
        prog="python -m wam_jax.data.convert",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("source", help="a directory, local or remote (s3://, gs://)")
    parser.add_argument("store", help="the store to write; must not exist")
    add = parser.add_argument
    add("--layout", choices=LAYOUTS, default="auto", help="what the source is (default: found out)")
    add("--name", help="what ids and the store's `source` column call it (default: the directory's name)")
    _add_content(parser.add_argument_group("what is read"))
    _add_encoding(parser.add_argument_group("how it is encoded"))
    _add_splits(parser.add_argument_group("what it is called and held out for"))
    _add_running(parser.add_argument_group("how it is run"))
    return parser


def _add_content(group: Any) -> None:
    add = group.add_argument
    cameras = "a camera, or CAMERA@TOP,LEFT,HEIGHT,WIDTH; several are laid out on one canvas in this order"
    add("--camera", action="append", default=[], metavar="CAMERA", help=cameras)
    add(
        "--fit",
        choices=get_args(Fit),
        default="pad",
        help="of a picture in a rectangle of another shape (default: pad)",
    )
    add("--frame-stride", type=int, default=1, metavar="G", help="take every G-th recorded frame (default: 1)")
    rows = "with a stride, every action (4 G a latent frame) or those of sampled frames alone (4) (default: all)"
    add("--action-rows", choices=get_args(ActionRows), default="all", help=rows)
    add("--action-shift", type=int, default=0, metavar="ROWS", help="rows that actions are late by (default: 0)")
    slots = "A of sources that hold latents without rows (default: 4)"
    add("--actions-per-frame", type=int, default=4, metavar="A", help=slots)
    add("--action-key", default="", metavar="NAME", help="column or array (default: the layout's)")
    add("--state-key", default="", metavar="NAME", help="column or array, `none` for no state (default: the layout's)")
    add("--fps", type=float, default=10.0, help="raw frames per second, where the source does not say (default: 10)")
    add("--max-episodes", type=int, metavar="N", help="the first N episodes alone")


def _add_encoding(group: Any) -> None:
    add = group.add_argument
    add("--encoder", metavar="WHICH", help=f"of frames: {CHOICES}")
    add("--patch", type=int, default=16, metavar="PIXELS", help="spatial stride of a fitted stand-in (default: 16)")
    add("--channels", type=int, default=48, metavar="C", help="channels of a fitted stand-in (default: 48)")
    add("--no-condition-latents", action="store_true", help="leave the codes of single anchors out")
    add("--latents", default="latents", metavar="DIR", help="of side-cars, in each repository (default: latents)")
    record = "JSON of what made given latents: name, kind, spatial_stride, temporal_stride, channels, normaliser"
    add("--latents-record", type=Path, metavar="JSON", help=record)
    text = f"none, {STAND_IN}, source (its own vectors), or the directory of a cache (default: source if it has some)"
    add("--text", metavar="WHICH", help=text)
    add("--empty-text", metavar="FILE", help="vectors of the empty prompt (default: empty_emb.pt of the source)")
    modes = get_args(Mode)
    add("--normalise-actions", choices=modes, default="none", help="(default: none)")
    add("--normalise-state", choices=modes, default="none", help="(default: none)")
    add("--limits", type=Path, metavar="JSON", help='{"actions": {"lower": [], "upper": []}, "state": ...}')
    add("--clip", nargs=2, type=float, default=[], metavar=("LOW", "HIGH"), help="clip what was normalised")


def _add_splits(group: Any) -> None:
    add = group.add_argument
    fraction = "held out by a hash of the id, where nothing else decides (default: 0.1)"
    add("--val-fraction", type=float, default=DEFAULT_VALIDATION_FRACTION, metavar="F", help=fraction)
    add("--val-tasks", nargs="+", default=[], metavar="TASK", help="hold these tasks out")
    add("--val-episodes", type=Path, metavar="FILE", help="hold these ids out, one a line")
    add("--task-names", type=Path, metavar="JSON", help="instruction to the task's name (default: the instruction)")


def _add_running(group: Any) -> None:
    add = group.add_argument
    add("--payload", choices=PAYLOAD_FORMATS, default="array_record", help="container (default: array_record)")
    add("--compression", default="none", help="none or zstd:LEVEL (default: none)")
    add("--workers", type=int, default=1, metavar="N", help="processes; each loads the encoder (default: 1)")
    add("--work-dir", type=Path, metavar="DIR", help="for unfinished work (default: beside the store)")
    add("--skip-bad", action="store_true", help="write the store without episodes that cannot be used")
    add("--restart", action="store_true", help="throw away unfinished work of other options")
    add("--dry-run", action="store_true", help="say what would be done, and write nothing")
    add("--report", type=Path, metavar="JSON", help="write what was done and skipped into this file too")
