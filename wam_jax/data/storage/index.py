"""The index of a store (`index.parquet`): one row per episode, everything a plan needs and no tensors.

Columns: `id`, `source`, `task`, `instruction`, `fps`, `split`, where the payload lies (`shard`, `record`, `num_bytes`,
`sha256`) and, for every field of the field table, `extent_<field>`: the length of the field's growing axis over the
whole episode, null where the episode lacks the field.

Columns are read on first use and become numpy arrays, so that an index of a million episodes costs what a plan reads
of it. An index that was read from a file is pickled as the file's path.
"""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from etils import epath

from wam_jax.data.files import is_remote
from wam_jax.data.storage.fields import FIELDS
from wam_jax.errors import InputError

ABSENT = -1
_REPEATED = pa.dictionary(pa.int32(), pa.string())

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("source", _REPEATED, nullable=False),
        pa.field("task", _REPEATED, nullable=False),
        pa.field("instruction", _REPEATED, nullable=False),
        pa.field("fps", pa.float64(), nullable=False),
        pa.field("split", _REPEATED),
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("record", pa.int32(), nullable=False),
        pa.field("num_bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.binary(32), nullable=False),
        *(pa.field(f"extent_{field.name}", pa.int32()) for field in FIELDS),
    ]
)


class Index:
    """Columns of the index as numpy arrays `[episodes]`, in the order of the file.

    Attributes:
        extents: field name to int32 lengths of its growing axis, `ABSENT` (-1) where the episode lacks the field.
        ids, sources, tasks, instructions: str objects; equal strings share memory.
        splits: str objects, None where the file names no split (see `wam_jax.data.storage.splits`).
        fps: float64, raw frames per second.
        shards, records: int32, which payload file and which record of it.
        num_bytes: int64, size of the payload.
        sha256: bytes objects, digest of the payload.
    """

    def __init__(self, source: epath.PathLike | pa.Table) -> None:
        """
        Args:
            source: a parquet file, or a table with the columns of `SCHEMA`.
        Raises:
            InputError: the file is missing or damaged, or lacks a column.
        """
        self._source = source if isinstance(source, pa.Table) else epath.Path(source)
        self._lock = threading.Lock()
        missing = [name for name in SCHEMA.names if name not in self._file.schema_arrow.names]
        if missing:
            raise InputError("index", missing, "these columns are missing; write the store again")

    def __len__(self) -> int:
        return self._file.metadata.num_rows

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._source,)

    @cached_property
    def extents(self) -> Mapping[str, np.ndarray]:
        columns = self._columns([f"extent_{field.name}" for field in FIELDS])
        return {
            field.name: _readonly(columns[f"extent_{field.name}"].fill_null(ABSENT).to_numpy().astype(np.int32))
            for field in FIELDS
        }

    @cached_property
    def ids(self) -> np.ndarray:
        return self._strings("id")

    @cached_property
    def sources(self) -> np.ndarray:
        return self._strings("source")

    @cached_property
    def tasks(self) -> np.ndarray:
        return self._strings("task")

    @cached_property
    def instructions(self) -> np.ndarray:
        return self._strings("instruction")

    @cached_property
    def splits(self) -> np.ndarray:
        return self._strings("split")

    @cached_property
    def fps(self) -> np.ndarray:
        return self._numbers("fps")

    @cached_property
    def shards(self) -> np.ndarray:
        return self._numbers("shard")

    @cached_property
    def records(self) -> np.ndarray:
        return self._numbers("record")

    @cached_property
    def num_bytes(self) -> np.ndarray:
        return self._numbers("num_bytes")

    @cached_property
    def sha256(self) -> np.ndarray:
        return _readonly(self._columns(["sha256"])["sha256"].to_numpy())

    def table(self) -> pa.Table:
        """The whole index as an Arrow table with the columns of `SCHEMA`."""
        return self._columns(SCHEMA.names)

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return _open(self._source)

    def _columns(self, names: Sequence[str]) -> pa.Table:
        with self._lock:
            return self._file.read(columns=list(names), use_threads=False)

    def _numbers(self, name: str) -> np.ndarray:
        return _readonly(self._columns([name])[name].to_numpy())

    def _strings(self, name: str) -> np.ndarray:
        column = self._columns([name])[name].combine_chunks()
        if not pa.types.is_dictionary(column.type):
            return _readonly(column.to_numpy(zero_copy_only=False))
        names = np.array([*column.dictionary.to_pylist(), None], dtype=object)
        return _readonly(names[column.indices.fill_null(-1).to_numpy()])


def index_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """An Arrow table with the columns of `SCHEMA` from one mapping per episode; absent extents may be left out."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def fingerprint_of(index: Index) -> str:
    """Hexadecimal hash of the episodes in order: their names, texts, splits, extents and payload digests.

    Where a payload lies (shard, record) does not enter, nor how parquet encodes the columns.
    """
    digest = hashlib.sha256()
    table = index.table().drop_columns(["shard", "record"])
    for name in table.column_names:
        values = [value.hex() if isinstance(value, bytes) else value for value in table[name].to_pylist()]
        digest.update(json.dumps([name, values]).encode())
    return digest.hexdigest()


def _open(source: epath.Path | pa.Table) -> pq.ParquetFile:
    # Neither Python file objects nor `pq.read_table`: its threads may let go of such a file after the interpreter has
    # begun to shut down, which aborts the process (pyarrow 26).
    if isinstance(source, pa.Table):
        return pq.ParquetFile(pa.BufferReader(_in_memory(source)))
    try:
        data = pa.BufferReader(source.read_bytes()) if is_remote(source) else pa.memory_map(str(source))
        return pq.ParquetFile(data)
    except FileNotFoundError:
        raise InputError("index", str(source), "the file is missing; the store is incomplete") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"index {source}", str(error), "a readable parquet file; copy it again") from None


def _in_memory(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue()


def _readonly(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
