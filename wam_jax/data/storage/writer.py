"""Writing a trajectory store: `StoreWriter`.

Episodes go into a temporary sibling directory, which is renamed when the last file, `store.json`, has been written. A
writer that fails removes it, one that is killed leaves it under another name: an interrupted write never looks
complete. Every episode is validated as it is added, so a store that was written can be read.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from etils import epath

from wam_jax.data.encoders.text import TextEncoder, record_of
from wam_jax.data.files import new_directory
from wam_jax.data.storage.fields import BY_NAME, FIELDS
from wam_jax.data.storage.index import Index, fingerprint_of, index_table
from wam_jax.data.storage.manifest import SCHEMA, Dims, EncoderRecord, Manifest, PayloadRecord, ShardRecord
from wam_jax.data.storage.payload_writers import open_payload_writer
from wam_jax.data.storage.splits import hashed_split
from wam_jax.data.storage.statistics import Moments
from wam_jax.data.storage.store import CODEC, INDEX, MANIFEST
from wam_jax.data.storage.tensorio import encode_tensors
from wam_jax.data.storage.text_cache import write_text_cache
from wam_jax.data.storage.validate import check_index, validate_sample
from wam_jax.errors import InputError

_SUMMARISED = {"actions": "action_mask", "state": "state_mask"}


@dataclasses.dataclass(frozen=True)
class Episode:
    """What the index says of an episode besides lengths.

    Attributes:
        id: unique in the store; a split by hash and all messages go by it.
        source: where it comes from (a data set, a robot).
        task: a short name; samplers weigh by it.
        instruction: the prompt.
        fps: raw frames per second.
        split: `train`, `val`, another name, or None to leave it to a hash of the id.
    """

    id: str
    source: str
    task: str
    instruction: str
    fps: float
    split: str | None = None


class StoreWriter(AbstractContextManager["StoreWriter"]):
    """Writes one store; use as a context manager. Not thread-safe.

    Example:
        with StoreWriter("mine", encoder=record, actions_per_frame=4, text_encoder=HashedWordEncoder()) as writer:
            writer.add(Episode(id="0", source="lab", task="wipe", instruction="wipe the table", fps=30), arrays)
    """

    def __init__(
        self,
        path: epath.PathLike,
        *,
        encoder: EncoderRecord,
        actions_per_frame: int,
        text_encoder: TextEncoder | None = None,
        payload: str = "array_record",
        compression: str = "none",
        shard_bytes: int = 1 << 30,
        codec: bytes | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            path: the directory to create.
            encoder: what made the latents; its `sha256` is filled in when `codec` is given.
            actions_per_frame: action slots per latent frame.
            text_encoder: encodes every distinct instruction and the empty prompt; None for a store without text.
            payload: `array_record` or `safetensors`.
            compression: `none`, or `zstd:LEVEL` (`array_record` only; smaller, several times slower to read).
            shard_bytes: size at which the next ArrayRecord shard begins.
            codec: content of the encoder's file, kept in the store so that latents can be decoded.
            provenance: JSON for the manifest.
        Raises:
            InputError: `path` exists, or an option is unknown.
        """
        self._path = path
        self._text_encoder, self._codec = text_encoder, codec
        sha256 = hashlib.sha256(codec).hexdigest() if codec else encoder.sha256
        self._payload = PayloadRecord(format=payload, compression=compression)
        self._shard_bytes = shard_bytes
        self._draft = Manifest(
            schema=SCHEMA,
            num_episodes=1,
            actions_per_frame=actions_per_frame,
            dims=Dims(encoder.channels, 0, 0, 0, text_dim=text_encoder.dim if text_encoder else None),
            encoder=dataclasses.replace(encoder, sha256=sha256),
            text=record_of(text_encoder) if text_encoder else None,
            payload=self._payload,
            index_fingerprint="",
            provenance=dict(provenance or {}),
        )
        self._rows: dict[str, dict[str, Any]] = {}
        self._moments: dict[str, Moments] = {}

    def __enter__(self) -> "StoreWriter":
        with ExitStack() as stack:
            self._partial = stack.enter_context(new_directory(self._path))
            self._payloads = open_payload_writer(self._partial, self._payload, shard_bytes=self._shard_bytes)
            self._stack = stack.pop_all()
        return self

    def add(self, episode: Episode, arrays: Mapping[str, np.ndarray]) -> None:
        """Adds an episode.

        Args:
            episode: its description.
            arrays: field name to array, whole episode, as `wam_jax.data.storage.validate.validate_sample` demands. The
                first episode sets the sizes of all axes that do not grow.
        Raises:
            InputError: the id is taken, or the arrays are no valid sample.
        """
        if episode.id in self._rows:
            raise InputError("episode id", episode.id, "is in the store already; ids must be unique")
        self._draft = dataclasses.replace(self._draft, dims=_completed(self._draft.dims, arrays))
        validate_sample(arrays, self._draft, sample_id=episode.id)
        payload = encode_tensors(arrays, {"id": episode.id})
        shard, record = self._payloads.write(payload)
        extents = {f"extent_{name}": array.shape[BY_NAME[name].time_axis] for name, array in arrays.items()}
        place = {"shard": shard, "record": record, "num_bytes": len(payload)}
        digest = hashlib.sha256(payload).digest()
        self._rows[episode.id] = dataclasses.asdict(episode) | place | extents | {"sha256": digest}
        if (episode.split or hashed_split(episode.id)) == "train":
            self._summarise(arrays)

    def note(self, **facts: Any) -> None:
        """Adds to the provenance what is known only after encoding."""
        self._draft = dataclasses.replace(self._draft, provenance={**self._draft.provenance, **facts})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            shards = self._payloads.close()
            if error is not None:
                raise error  # Inside the stack, which therefore removes the directory.
            self._finish(shards)

    def _finish(self, shards: tuple[ShardRecord, ...]) -> None:
        if not self._rows:
            raise InputError("store", str(self._path), "no episode was added")
        index = Index(index_table(list(self._rows.values())))
        check_index(index, self._draft)
        pq.write_table(index.table(), self._partial / INDEX, compression="zstd")
        if self._text_encoder is not None:
            write_text_cache(self._partial, self._text_encoder, index.instructions)
        if self._codec is not None:
            self._partial.joinpath(CODEC).write_bytes(self._codec)
        manifest = dataclasses.replace(
            self._draft,
            num_episodes=len(index),
            payload=dataclasses.replace(self._payload, shards=shards),
            index_fingerprint=fingerprint_of(index),
            statistics={name: moments.summary() for name, moments in self._moments.items()},
        )
        self._partial.joinpath(MANIFEST).write_text(manifest.to_json())

    def _summarise(self, arrays: Mapping[str, np.ndarray]) -> None:
        for name, mask in _SUMMARISED.items():
            if name in arrays:
                moments = Moments.of(arrays[name], arrays.get(mask))
                self._moments[name] = self._moments[name].merge(moments) if name in self._moments else moments


def _completed(dims: Dims, arrays: Mapping[str, np.ndarray]) -> Dims:
    """`dims` with sizes that no earlier episode has set taken from `arrays`."""
    found = {
        axis: size
        for field in FIELDS
        if field.name in arrays and arrays[field.name].ndim == len(field.axes)
        for axis, size in zip(field.axes, arrays[field.name].shape, strict=True)
        if not getattr(dims, axis, True)
    }
    return dataclasses.replace(dims, **found)
