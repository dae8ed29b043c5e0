"""Reading the tensors of episodes: one interface over two containers.

A payload is the safetensors serialization of one episode's arrays, in both containers byte for byte the same:

    safetensors     one file per episode, `episodes/000000.safetensors`; good up to some ten thousand episodes
    array_record    shards `payload-00000.array_record` of one-record groups; good for any number on a cluster's disk

Nothing is unpickled: files of strangers are safe to open. Readers open files on first use, once per process, may be
shared by threads, and pickle as paths.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader  # ty: ignore[import-not-found]
from etils import epath

from wam_jax.data.storage.tensorio import Part, TensorFile, decode_tensors
from wam_jax.errors import InputError

PartOf = Callable[[str], Part]
"""Maps a tensor's name to the part of it that is wanted; `()` is all of it."""


def everything(name: str) -> Part:
    """The `PartOf` of a whole episode."""
    del name
    return ()


class PayloadReader(Protocol):
    """Random access to payloads by their place."""

    def read_bytes(self, shard: int, record: int) -> bytes:
        """The payload as it was serialized."""
        ...

    def read_arrays(self, shard: int, record: int, part_of: PartOf = everything) -> dict[str, np.ndarray]:
        """The payload's arrays, or parts of them."""
        ...


def episode_file(record: int) -> str:
    """Name of the file of one episode in a `safetensors` store."""
    return f"episodes/{record:06d}.safetensors"


def shard_file(shard: int) -> str:
    """Name of one shard of an `array_record` store."""
    return f"payload-{shard:05d}.array_record"


class EpisodeFileReader:
    """A file per episode; a part of an episode is read without the rest."""

    def __init__(self, directory: epath.PathLike) -> None:
        self._directory = epath.Path(directory)

    def read_bytes(self, shard: int, record: int) -> bytes:
        del shard
        path = self._directory / episode_file(record)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise InputError("payload", str(path), "the file is missing; copy the store again") from None

    def read_arrays(self, shard: int, record: int, part_of: PartOf = everything) -> dict[str, np.ndarray]:
        del shard
        file = TensorFile(self._directory / episode_file(record))
        return {name: file.read(name, part_of(name)) for name in file.names()}


class ShardReader:
    """ArrayRecord shards; a record is always read whole."""

    def __init__(self, shards: Sequence[epath.PathLike]) -> None:
        self._shards = [str(shard) for shard in shards]
        self._start()

    def read_bytes(self, shard: int, record: int) -> bytes:
        try:
            return self._reader(shard).read([record])[0]
        except (RuntimeError, IndexError) as error:
            remedy = "a complete ArrayRecord file with this record; copy the store again"
            raise InputError(f"{self._shards[shard]}: record {record}", str(error), remedy) from None

    def read_arrays(self, shard: int, record: int, part_of: PartOf = everything) -> dict[str, np.ndarray]:
        arrays = decode_tensors(self.read_bytes(shard, record), source=f"{self._shards[shard]}: record {record}")
        return {name: array[part_of(name)] for name, array in arrays.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {"_shards": self._shards}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._shards = state["_shards"]
        self._start()

    def _start(self) -> None:
        self._readers: dict[int, ArrayRecordReader] = {}
        self._lock = threading.Lock()

    def _reader(self, shard: int) -> ArrayRecordReader:
        with self._lock:
            if shard not in self._readers:
                # Without read-ahead: records are read in random order.
                self._readers[shard] = ArrayRecordReader(self._shards[shard], "readahead_buffer_size:0")
            return self._readers[shard]
