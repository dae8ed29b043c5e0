"""Small recordings, and the LeRobot datasets v2.1 and v3.0 that hold them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FPS, SIDE, CAMERA = 20, 32, "observation.images.front"
SENTENCES = ("open the drawer", "close the drawer")


@dataclass(frozen=True, eq=False)
class Robot:
    """What was seen and done in R frames; action t leads from frame t to frame t + 1, the last one nowhere."""

    frames: np.ndarray
    actions: np.ndarray
    states: np.ndarray
    sentence: str


def record(number: int, *, raw_frames: int | None = None, side: int = SIDE) -> Robot:
    """A bright square that moves as the actions say, on a gradient."""
    rng, R = np.random.default_rng(number), raw_frames or 9 + 3 * number
    actions = rng.uniform(-1, 1, (R, 2)).astype(np.float32)
    places = np.clip(side / 2 + 2 * np.cumsum(np.vstack([np.zeros(2), actions[:-1]]), axis=0), 4, side - 4)
    rows, columns = np.mgrid[:side, :side]
    frames = np.repeat(np.stack([rows, columns, rows + columns], -1)[None] * 3, R, axis=0).astype(np.uint8)
    for t, (y, x) in enumerate(places.astype(int)):
        frames[t, y - 4 : y + 4, x - 4 : x + 4] = 230
    states = np.hstack([places, rng.normal(size=(R, 1))]).astype(np.float32)
    return Robot(frames, actions, states, SENTENCES[number % 2])


def write_lerobot(
    root: Path,
    robots: Sequence[Robot],
    *,
    version: str = "v3.0",
    cameras: Sequence[str] = (CAMERA,),
    kind: str = "video",
    splits: dict[str, str] | None = None,
    codec: str = "libx264",
) -> Path:
    """Writes a dataset; every camera sees the same, the second one upside down. Returns `root`."""
    is_v3, lengths = version == "v3.0", [len(robot.frames) for robot in robots]
    starts = np.cumsum([0, *lengths]).tolist()
    tasks = list(dict.fromkeys(robot.sentence for robot in robots))
    tables = [_rows(robot, i, starts[i], tasks, cameras if kind == "image" else ()) for i, robot in enumerate(robots)]
    rows: list[dict[str, Any]] = [
        {"episode_index": i, "tasks": [robot.sentence], "length": lengths[i]} for i, robot in enumerate(robots)
    ]
    root.joinpath("meta").mkdir(parents=True)
    if is_v3:
        _write_table(root / "data/chunk-000/file-000.parquet", tables)
        for i, row in enumerate(rows):
            row |= {
                "data/chunk_index": 0,
                "data/file_index": 0,
                "dataset_from_index": starts[i],
                "stats/action/max": [1],
            }
            for camera in cameras:
                row |= {f"videos/{camera}/{name}_index": 0 for name in ("chunk", "file")}
                row[f"videos/{camera}/from_timestamp"] = starts[i] / FPS
        _write_table(root / "meta/episodes/chunk-000/file-000.parquet", [pa.Table.from_pylist(rows)])
        _write_table(root / "meta/tasks.parquet", [pa.table({"task_index": range(len(tasks)), "task": tasks})])
    else:
        for i, table in enumerate(tables):
            _write_table(root / f"data/chunk-000/episode_{i:06d}.parquet", [table])
        _write_lines(root / "meta/episodes.jsonl", rows)
        _write_lines(root / "meta/tasks.jsonl", [{"task_index": i, "task": task} for i, task in enumerate(tasks)])
    if kind == "video":
        _write_videos(root, robots, cameras, codec, is_v3=is_v3)
    about = _info(version, robots, cameras, kind) | {"splits": splits or {"train": f"0:{len(robots)}"}}
    root.joinpath("meta/info.json").write_text(json.dumps(about))
    return root


def write_video(path: Path, frames: np.ndarray, *, codec: str = "libx264", fps: int = FPS) -> None:
    """A video of `frames [R, H, W, 3]`, of good quality, with few keyframes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"crf": "10", "g": "6", **({"preset": "12"} if codec == "libsvtav1" else {})}
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, fps, options=options)
        stream.pix_fmt, stream.height, stream.width = "yuv420p", *frames.shape[1:3]
        stream.codec_context.time_base = Fraction(1, fps)
        for number, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def png(image: np.ndarray) -> bytes:
    """An image file's bytes."""
    context: Any = av.CodecContext.create("png", "w")
    context.width, context.height, context.pix_fmt = image.shape[1], image.shape[0], "rgb24"
    context.time_base = Fraction(1, 1)
    return bytes(context.encode(av.VideoFrame.from_ndarray(image, format="rgb24"))[0])


def seen(robot: Robot, camera: int) -> np.ndarray:
    """What a camera sees, `[R, H, W, 3]`."""
    return robot.frames if camera == 0 else robot.frames[:, ::-1]


def _rows(robot: Robot, number: int, start: int, tasks: list[str], images: Sequence[str]) -> pa.Table:
    R = len(robot.frames)
    vectors = lambda a: pa.FixedSizeListArray.from_arrays(pa.array(a.ravel()), a.shape[1])  # noqa: E731
    columns = {
        "observation.state": vectors(robot.states),
        "action": vectors(robot.actions) if number % 2 else pa.array(robot.actions.tolist(), pa.list_(pa.float32())),
        "timestamp": pa.array(np.arange(R) / FPS, pa.float32()),
        "frame_index": pa.array(np.arange(R)),
        "episode_index": pa.array(np.full(R, number)),
        "index": pa.array(start + np.arange(R)),
        "task_index": pa.array(np.full(R, tasks.index(robot.sentence))),
    }
    for i, camera in enumerate(images):
        columns[camera] = pa.array([{"bytes": png(image), "path": None} for image in seen(robot, i)])
    columns["action"] = columns["action"].cast(pa.list_(pa.float32(), robot.actions.shape[1]))
    return pa.table(columns)


def _info(version: str, robots: Sequence[Robot], cameras: Sequence[str], kind: str) -> dict[str, Any]:
    shape = [*robots[0].frames.shape[1:3], 3]
    features: dict[str, Any] = {
        name: {"dtype": kind, "shape": shape, "names": ["height", "width", "channel"]} for name in cameras
    }
    features |= {"action": {"dtype": "float32", "shape": [2]}, "observation.state": {"dtype": "float32", "shape": [3]}}
    file = "chunk-{chunk_index:03d}/file-{file_index:03d}"
    episode = "episode_{episode_index:06d}"
    paths = {
        "v3.0": (f"data/{file}.parquet", f"videos/{{video_key}}/{file}.mp4"),
        "v2.1": (
            f"data/chunk-{{episode_chunk:03d}}/{episode}.parquet",
            f"videos/chunk-{{episode_chunk:03d}}/{{video_key}}/{episode}.mp4",
        ),
    }[version]
    return {
        "codebase_version": version,
        "fps": FPS,
        "chunks_size": 1000,
        "total_episodes": len(robots),
        "features": features,
        "data_path": paths[0],
        "video_path": paths[1],
    }


def _write_videos(root: Path, robots: Sequence[Robot], cameras: Sequence[str], codec: str, *, is_v3: bool) -> None:
    for i, camera in enumerate(cameras):
        videos = [seen(robot, i) for robot in robots]
        if is_v3:
            write_video(root / f"videos/{camera}/chunk-000/file-000.mp4", np.concatenate(videos), codec=codec)
            continue
        for number, video in enumerate(videos):
            write_video(root / f"videos/chunk-000/{camera}/episode_{number:06d}.mp4", video, codec=codec)


def _write_table(path: Path, tables: Sequence[pa.Table]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)


def _write_lines(path: Path, rows: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
