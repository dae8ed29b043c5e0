"""Paths that a source's own files name: kept inside the source, filled in without running anything, local or remote."""

import hashlib
import os
import re
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
from etils import epath

from wam_jax.data.files import is_remote
from wam_jax.errors import InputError

_VARIABLE = re.compile(r"\{(\w+)(?::0?(\d)d)?\}")


def fill(template: str, values: dict[str, str | int], *, where: str) -> str:
    """A path template (`data/chunk-{episode_chunk:03d}/...`) with its variables filled in.

    Only names and widths of one digit are known, so a template can neither call anything nor grow.

    Raises:
        InputError: a variable is unknown, or the path leaves the source.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise InputError(where, template, f"variables {', '.join(values)}")
        found = values[match[1]]
        return f"{found:0{match[2]}d}" if match[2] and isinstance(found, int) else str(found)

    return inside(_VARIABLE.sub(value, template), where=where)


def inside(path: str, *, where: str) -> str:
    """`path` itself; raises InputError where it is absolute or climbs."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "://" in path or "\\" in path or not path:
        raise InputError(where, path, "a relative path inside the source")
    return path


def files_below(root: epath.Path) -> Iterator[epath.Path]:
    """All files of a directory and those below it, in the order of their names; hidden ones are left out."""
    for path in sorted(root.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from files_below(path)
        else:
            yield path


def directories_with(root: epath.Path, marker: str) -> Iterator[epath.Path]:
    """Directories that hold the file `marker`, in the order of their names; none of them is looked into."""
    if root.joinpath(marker).exists():
        yield root
        return
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            yield from directories_with(path, marker)


def open_parquet(path: epath.Path) -> pq.ParquetFile:
    """A parquet file, local (memory-mapped) or remote (read whole); raises InputError."""
    with readable_parquet(path):
        data = pa.BufferReader(path.read_bytes()) if is_remote(path) else pa.memory_map(str(path))
        return pq.ParquetFile(data)


@contextmanager
def readable_parquet(path: epath.PathLike) -> Generator[None]:
    """Turns what reading a damaged parquet file raises into InputError."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(str(path), None, "the file is missing; copy the source again") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), str(error), "a readable parquet file; copy it again") from None


def local_copy(path: epath.Path, cache: Path) -> Path:
    """The path of a local file; a remote one is downloaded into `cache` once. Raises InputError."""
    if not is_remote(path):
        if not path.exists():
            raise InputError(str(path), None, "the file is missing; copy the source again")
        return Path(path)
    name = hashlib.sha256(os.fspath(path).encode()).hexdigest()[:32] + path.suffix
    target = cache / name
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise InputError(str(path), None, "the file is missing; copy the source again") from None
        with tempfile.NamedTemporaryFile(dir=cache, delete=False) as file:
            file.write(data)
        Path(file.name).rename(target)
    return target
