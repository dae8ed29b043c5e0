"""Writing payloads into one of the two containers of `wam_jax.data.storage.payloads`."""

import re
from pathlib import Path
from typing import Protocol

from array_record.python.array_record_module import ArrayRecordWriter  # ty: ignore[import-not-found]

from wam_jax.data.storage.manifest import PayloadRecord, ShardRecord
from wam_jax.data.storage.payloads import episode_file, shard_file
from wam_jax.errors import InputError


class PayloadWriter(Protocol):
    """Appends payloads."""

    def write(self, payload: bytes) -> tuple[int, int]:
        """Appends one payload and returns its place: shard and record."""
        ...

    def close(self) -> tuple[ShardRecord, ...]:
        """Finishes the files and returns the shards; to be called once."""
        ...


def open_payload_writer(directory: Path, payload: PayloadRecord, *, shard_bytes: int) -> PayloadWriter:
    """A writer of `payload.format` into an existing directory.

    Raises:
        InputError: the compression is unknown, or not one of the format.
    """
    if not re.fullmatch(r"none|zstd:(1?[0-9]|2[0-2])", payload.compression):
        raise InputError("compression", payload.compression, "none or zstd:LEVEL with a level up to 22")
    if payload.format == "array_record":
        return ShardWriter(directory, compression=payload.compression, shard_bytes=shard_bytes)
    if payload.compression != "none":
        raise InputError("compression", payload.compression, "none for safetensors; use array_record to compress")
    return EpisodeFileWriter(directory)


class EpisodeFileWriter:
    """A safetensors file per episode."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._written = 0

    def write(self, payload: bytes) -> tuple[int, int]:
        path = self._directory / episode_file(self._written)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(payload)
        self._written += 1
        return 0, self._written - 1

    def close(self) -> tuple[ShardRecord, ...]:
        return ()


class ShardWriter:
    """ArrayRecord shards, one record per group, so that a random read touches one record."""

    def __init__(self, directory: Path, *, compression: str, shard_bytes: int) -> None:
        self._directory, self._shard_bytes = directory, shard_bytes
        self._options = f"group_size:1,{'uncompressed' if compression == 'none' else compression}"
        self._shards: list[ShardRecord] = []
        self._writer: ArrayRecordWriter | None = None

    def write(self, payload: bytes) -> tuple[int, int]:
        if self._writer is None:
            self._writer = ArrayRecordWriter(str(self._path), self._options)
            self._records = self._bytes = 0
        place = len(self._shards), self._records
        self._writer.write(payload)
        self._records += 1
        self._bytes += len(payload)
        if self._bytes >= self._shard_bytes:
            self._finish_shard(self._writer)
        return place

    def close(self) -> tuple[ShardRecord, ...]:
        if self._writer is not None:
            self._finish_shard(self._writer)
        return tuple(self._shards)

    @property
    def _path(self) -> Path:
        return self._directory / shard_file(len(self._shards))

    def _finish_shard(self, writer: ArrayRecordWriter) -> None:
        writer.close()
        size = self._path.stat().st_size
        self._shards.append(ShardRecord(name=self._path.name, num_bytes=size, num_records=self._records))
        self._writer = None
