"""Small operations on files, for local and remote paths, and the one way a directory comes to be complete."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from etils import epath

from wam_jax.errors import InputError


def is_remote(path: epath.PathLike) -> bool:
    """Whether `path` names an object store (`gs://...`) and no file of the operating system."""
    return "://" in os.fspath(path)


def file_size(path: epath.PathLike) -> int:
    """Bytes of a file; raises FileNotFoundError."""
    # epath's own stat of a local file looks the owner's name up, which fails where a container's user has none.
    return epath.Path(path).stat().length if is_remote(path) else os.stat(path).st_size


@contextmanager
def new_directory(path: epath.PathLike, *, field: str = "store") -> Generator[Path]:
    """Yields a temporary sibling directory that takes the place of `path` when the block ends without an exception.

    After an exception the sibling is removed; after a kill it is left behind under a name ending in `.partial` and can
    be deleted. In no case does `path` exist before the block is over, and nothing that exists is overwritten.

    Raises:
        InputError: `path`, given as `field`, exists or is remote.
    """
    if is_remote(path):
        raise InputError(field, str(path), "a local or mounted directory; copy what is finished to remote storage")
    target = Path(path).expanduser()
    if target.exists():
        raise InputError(field, str(target), "exists already; remove it or choose another directory")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", suffix=".partial", dir=target.parent))
    try:
        partial.chmod(0o777 & ~_umask())  # mkdtemp's own mode shuts other users out of a shared disk.
        yield partial
        for file in sorted(partial.rglob("*")):
            sync(file)
        sync(partial)
        _rename(partial, target)
        sync(target.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def sync(path: Path) -> None:
    """Makes a file's content, or a directory's entries, survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(partial: Path, target: Path) -> None:
    if target.exists():  # An empty directory would be replaced silently.
        raise InputError("store", str(target), "appeared while it was written; choose another directory")
    partial.rename(target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
