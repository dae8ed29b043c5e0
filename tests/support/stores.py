"""Small synthetic stores: noise with the right shapes, written through the real writer in milliseconds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wam_jax.data.encoders.text import HashedWordEncoder, TextEncoder
from wam_jax.data.storage.index import Index
from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.payloads import episode_file
from wam_jax.data.storage.store import INDEX
from wam_jax.data.storage.tensorio import decode_tensors, encode_tensors
from wam_jax.data.storage.writer import Episode, StoreWriter

TASKS = ("reach", "push")


def tiny_encoder(channels: int, *, temporal_stride: int = 4) -> EncoderRecord:
    """An encoder record that says that there was no encoder."""
    return EncoderRecord(
        name="noise",
        kind="stand-in",
        spatial_stride=1,
        temporal_stride=temporal_stride,
        channels=channels,
        normaliser="unit variance",
    )


def tiny_arrays(
    frames: int,
    *,
    channels: int = 3,
    height: int = 2,
    width: int = 2,
    action_dim: int = 2,
    slots: int = 2,
    state_dim: int | None = 3,
    with_condition: bool = True,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """All arrays of one episode of `frames` latent frames; group 0 of the actions is zero and masked."""
    rng = np.random.default_rng(seed)
    video = (channels, frames, height, width)
    arrays = {
        "video_latents": rng.normal(size=video).astype(np.float16),
        "actions": rng.uniform(-1, 1, (slots * frames, action_dim)).astype(np.float32),
        "action_mask": np.ones((slots * frames, action_dim), np.float32),
    }
    arrays["actions"][:slots] = arrays["action_mask"][:slots] = 0
    if with_condition:
        arrays["condition_latents"] = rng.normal(size=video).astype(np.float16)
    if state_dim is not None:
        arrays["state"] = rng.normal(size=(1 + 4 * (frames - 1), state_dim)).astype(np.float32)
        arrays["proprio_context_frames"] = arrays["state"][::4]
    return arrays


def write_tiny_store(
    path: Path,
    lengths: Sequence[int] = (3, 5, 2, 4),
    *,
    channels: int = 3,
    height: int = 2,
    width: int = 2,
    action_dim: int = 2,
    slots: int = 2,
    state_dim: int | None = 3,
    text_encoder: TextEncoder | None = None,
    splits: Sequence[str | None] | None = None,
    tasks: Sequence[str] = TASKS,
    sources: Sequence[str] = ("tiny",),
    with_condition: bool = True,
    payload: str = "array_record",
    overrides: Mapping[int, Mapping[str, np.ndarray]] | None = None,
    seed: int = 0,
) -> Path:
    """Writes one episode per entry of `lengths` (latent frames) and returns `path`.

    Args:
        text_encoder: `HashedWordEncoder(dim=4, tokens=4)` by default.
        splits: of each episode; by default the last one is `val` and the others `train`.
        tasks, sources: dealt to the episodes in turn; the instruction is `do TASK`.
        overrides: per episode, arrays that replace or join the generated ones.
    """
    splits = splits or ["train"] * (len(lengths) - 1) + ["val"]
    text_encoder = text_encoder or HashedWordEncoder(dim=4, tokens=4)
    shape = {"channels": channels, "height": height, "width": width, "action_dim": action_dim, "slots": slots}
    with StoreWriter(
        path, encoder=tiny_encoder(channels), actions_per_frame=slots, text_encoder=text_encoder, payload=payload
    ) as writer:
        for i, frames in enumerate(lengths):
            task, source = tasks[i % len(tasks)], sources[i % len(sources)]
            arrays = tiny_arrays(
                frames, **shape, state_dim=state_dim, with_condition=with_condition, seed=seed + 1000 * i
            )
            episode = Episode(
                id=f"ep{i}", source=source, task=task, instruction=f"do {task}", fps=20.0, split=splits[i]
            )
            writer.add(episode, arrays | dict((overrides or {}).get(i, {})))
    return path


def rewrite_episode(path: Path, episode: int, **arrays: np.ndarray) -> None:
    """Damages a `safetensors` store: replaces arrays of one payload behind the index's back."""
    file = path / episode_file(episode)
    file.write_bytes(
        encode_tensors(decode_tensors(file.read_bytes(), source=file.name) | arrays, {"id": f"ep{episode}"})
    )


def rewrite_index(path: Path, column: str, episode: int, value: object) -> None:
    """Damages a store: replaces one value of its index."""
    table = Index(path / INDEX).table()
    values = table[column].to_pylist()
    values[episode] = value
    at = table.column_names.index(column)
    table = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    pq.write_table(table, path / INDEX)
