"""The metadata of LeRobot datasets v2.x and v3.0: features, episodes, and where their rows and videos lie.

    v3.0   meta/episodes/*/*.parquet   rows and videos of many episodes share files
    v2.x   meta/episodes.jsonl         a file per episode, by templates of info.json

Either way an episode becomes one `Entry`. Nothing but `meta/` is read.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from etils import epath

from wam_jax.data.conversion.paths import fill, open_parquet, readable_parquet
from wam_jax.data.jsonio import from_json
from wam_jax.errors import InputError

INFO = "meta/info.json"
_SPLIT_NAMES = {"validation": "val", "valid": "val", "eval": "val"}


@dataclass(frozen=True)
class Info:
    """What `info.json` says; see the format's own documentation."""

    codebase_version: str
    fps: float
    features: Mapping[str, Any]
    data_path: str
    video_path: str | None = None
    chunks_size: int = 1000
    splits: Mapping[str, str] | None = None

    @property
    def is_v3(self) -> bool:
        """Whether files hold many episodes."""
        return self.codebase_version.startswith("v3.")

    def cameras(self) -> dict[str, tuple[int, int]]:
        """Height and width of every camera; raises InputError where a shape is odd."""
        kinds = {name: item for name, item in self.features.items() if isinstance(item, dict)}
        return {name: _size(name, item) for name, item in kinds.items() if item.get("dtype") in ("video", "image")}

    def check_columns(self, action: str, state: str | None) -> None:
        """Raises InputError where the rows have no such columns."""
        for flag, name in (("--action-key", action), ("--state-key", state)):
            if name is not None and name not in self.features:
                raise InputError(flag, name, f"one of {', '.join(sorted(self.features))}")

    def is_video(self, camera: str) -> bool:
        """Whether a camera's frames lie in video files; else they are images in the rows."""
        return self.features[camera]["dtype"] == "video"


@dataclass(frozen=True)
class Entry:
    """One episode.

    Attributes:
        index: `episode_index`.
        length: rows, one per recorded frame.
        tasks: its instructions.
        data: path of the file with its rows.
        videos: camera to the path of its video and the seconds into it at which the episode begins.
    """

    index: int
    length: int
    tasks: tuple[str, ...]
    data: str
    videos: Mapping[str, tuple[str, float]]


def read_info(root: epath.Path) -> Info:
    """Reads `meta/info.json`; raises InputError where it is damaged or of a version that is not known."""
    where = str(root / INFO)
    info = from_json(Info, read_json(root / INFO), where=where)
    if not info.codebase_version.startswith(("v2.", "v3.")):
        raise InputError(f"{where}: codebase_version", info.codebase_version, "v2.x or v3.x")
    if not 0 < info.fps < 10_000 or info.chunks_size < 1:
        raise InputError(where, (info.fps, info.chunks_size), "fps and chunks_size above 0")
    return info


def read_entries(root: epath.Path, info: Info, cameras: tuple[str, ...]) -> list[Entry]:
    """All episodes in the order of their numbers; raises InputError."""
    found = sorted(_entries_v3(root, info, cameras) if info.is_v3 else _entries_v2(root, info, cameras), key=_number)
    if not found:
        raise InputError(str(root / "meta"), 0, "episodes; the metadata list none")
    return found


def split_of(info: Info, index: int) -> str | None:
    """The split that `info.json` gives an episode; None where it tells no two apart."""
    if len(info.splits or {}) < 2:
        return None
    for name, span in (info.splits or {}).items():
        match = re.fullmatch(r"(\d+):(\d+)", span)
        if not match:
            raise InputError(f"{INFO}: splits.{name}", span, "FIRST:END in episodes")
        if int(match[1]) <= index < int(match[2]):
            return _SPLIT_NAMES.get(name, name)
    return None


def _number(entry: Entry) -> int:
    return entry.index


def _entries_v2(root: epath.Path, info: Info, cameras: tuple[str, ...]) -> Iterator[Entry]:
    for row in json_lines(root / "meta/episodes.jsonl"):
        index = whole(row, "episode_index", "meta/episodes.jsonl")
        values: dict[str, str | int] = {"episode_chunk": index // info.chunks_size, "episode_index": index}
        videos = {key: (_video_path(info, {**values, "video_key": key}), 0.0) for key in cameras if info.is_video(key)}
        yield Entry(
            index=index,
            length=whole(row, "length", "meta/episodes.jsonl"),
            tasks=_tasks(row),
            data=fill(info.data_path, values, where="info.json: data_path"),
            videos=videos,
        )


def _entries_v3(root: epath.Path, info: Info, cameras: tuple[str, ...]) -> Iterator[Entry]:
    for path in sorted(root.glob("meta/episodes/*/*.parquet")):
        with readable_parquet(path):
            file = open_parquet(path)
            names = [name for name in file.schema_arrow.names if not name.startswith("stats/")]
            rows = file.read(columns=names, use_threads=False).to_pylist()
        for row in rows:
            yield _entry_v3(row, info, cameras, str(path))


def _entry_v3(row: dict[str, Any], info: Info, cameras: tuple[str, ...], where: str) -> Entry:
    def place(prefix: str) -> dict[str, str | int]:
        return {name: whole(row, f"{prefix}/{name}", where) for name in ("chunk_index", "file_index")}

    videos = {}
    for key in cameras:
        if info.is_video(key):
            start = row.get(f"videos/{key}/from_timestamp")
            if not isinstance(start, float) or not 0 <= start < 1e9:
                raise InputError(f"{where}: videos/{key}/from_timestamp", start, "seconds, 0 or more")
            videos[key] = _video_path(info, {**place(f"videos/{key}"), "video_key": key}), start
    return Entry(
        index=whole(row, "episode_index", where),
        length=whole(row, "length", where),
        tasks=_tasks(row),
        data=fill(info.data_path, place("data"), where="info.json: data_path"),
        videos=videos,
    )


def _video_path(info: Info, values: dict[str, str | int]) -> str:
    return fill(info.video_path or "", values, where="info.json: video_path")


def _tasks(row: Mapping[str, Any]) -> tuple[str, ...]:
    tasks = row.get("tasks") or []
    return tuple(task for task in tasks if isinstance(task, str)) if isinstance(tasks, list) else ()


def _size(name: str, feature: Mapping[str, Any]) -> tuple[int, int]:
    shape, names = feature.get("shape"), feature.get("names")
    if not isinstance(shape, list) or len(shape) != 3 or not all(isinstance(side, int) for side in shape):
        raise InputError(f"{INFO}: features.{name}.shape", shape, "[height, width, channels]")
    first = isinstance(names, list) and names and names[0] in ("channel", "channels")
    height, width = shape[1:] if first or (names is None and shape[0] in (1, 3)) else shape[:2]
    return height, width


def whole(row: Mapping[str, Any], name: str, where: str) -> int:
    """A whole number of 0 or more from a row of metadata; raises InputError."""
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{where}: {name}", value, "a whole number, 0 or more")
    return value


def json_lines(path: epath.Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file; raises InputError naming the line."""
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.strip():
            yield _decoded(line, f"{path}: line {number}")


def read_json(path: epath.Path) -> dict[str, Any]:
    """The object of a JSON file; raises InputError."""
    return _decoded(_text(path), str(path))


def _text(path: epath.Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise InputError(str(path), None, "the file is missing; copy the source again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), str(error), "a readable text file; copy it again") from None


def _decoded(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(where, str(error), "a complete JSON object; copy it again") from None
    if not isinstance(value, dict):
        raise InputError(where, type(value).__name__, "a JSON object")
    return value
