"""Columns of an episode's rows from the parquet files of a LeRobot dataset: only the row groups and columns wanted."""

import os
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from etils import epath

from wam_jax.data.conversion.paths import open_parquet, readable_parquet
from wam_jax.data.files import is_remote
from wam_jax.errors import InputError

_NUMBER, _FRAME = "episode_index", "frame_index"


def episode_rows(path: epath.Path, episode: int, columns: Sequence[str]) -> pa.Table:
    """The rows of one episode, in the order of their frames.

    Args:
        path: a file with a column `episode_index`; one without holds one episode.
        columns: those wanted.
    Raises:
        InputError: the file is damaged, lacks a column, or has no rows of the episode.
    """
    with readable_parquet(path):
        file = open_parquet(path)
        names = file.schema_arrow.names
        for name in columns:
            if name not in names:
                raise InputError(f"{path}: column", name, f"one of {', '.join(names)}")
        known = [name for name in (_NUMBER, _FRAME) if name in names]
        parts = [_group(str(path), _stamp(path), group, (*columns, *known)) for group in _groups(file, episode)]
        table = pa.concat_tables(parts) if parts else file.schema_arrow.empty_table()
        if _NUMBER in known and len(table):
            table = table.filter(pc.field(_NUMBER) == episode)
    if not len(table):
        raise InputError(str(path), f"no row of episode {episode}", "copy the source again")
    if _FRAME in known and not np.array_equal(table[_FRAME].to_numpy(), np.arange(len(table))):
        raise InputError(f"{path}: {_FRAME}", f"episode {episode}", "frames 0, 1, 2, ... in order")
    return table


def matrix(table: pa.Table, name: str, *, where: str) -> np.ndarray:
    """A column of numbers or of equally long lists of numbers as `[rows, dim]` float32; raises InputError."""
    column = table[name].combine_chunks()
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    try:
        if is_list and len(column.value_lengths().unique()) != 1:
            raise ValueError("their lengths differ")
        flat = column.flatten() if is_list or pa.types.is_fixed_size_list(column.type) else column
        return flat.to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(table), -1)
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise InputError(f"{where}: column {name}", str(error), "lists of numbers, all of one length") from None


def _groups(file: pq.ParquetFile, episode: int) -> list[int]:
    """Row groups that can hold rows of an episode, by their statistics."""
    names = [file.metadata.schema.column(i).path for i in range(file.metadata.num_columns)]
    found = []
    for group in range(file.metadata.num_row_groups):
        about = file.metadata.row_group(group)
        known = about.column(names.index(_NUMBER)).statistics if _NUMBER in names else None
        if known is None or not known.has_min_max or known.min <= episode <= known.max:
            found.append(group)
    return found


def _stamp(path: epath.Path) -> int:
    """Changes when a local file is written anew."""
    return 0 if is_remote(path) else os.stat(path).st_mtime_ns


@lru_cache(maxsize=2)
def _group(path: str, stamp: int, group: int, columns: tuple[str, ...]) -> pa.Table:
    """Kept, because older files hold many episodes in one group."""
    del stamp
    return open_parquet(epath.Path(path)).read_row_group(group, columns=list(columns), use_threads=False)
