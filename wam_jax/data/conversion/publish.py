"""A finished store to its place: renamed, copied to another disk, or uploaded. `store.json` always comes last."""

import os
import shutil
from pathlib import Path

from etils import epath

from wam_jax.data.files import is_remote, new_directory, sync
from wam_jax.data.storage.store import MANIFEST
from wam_jax.errors import InputError


def refuse_existing(target: epath.PathLike) -> None:
    """Raises InputError where something is in the way of a store."""
    path = epath.Path(target)
    if (path / MANIFEST if is_remote(target) else path).exists():
        raise InputError("store", str(target), "exists already; remove it or choose another place")


def publish(finished: Path, target: epath.PathLike) -> None:
    """Moves the directory `finished` to `target`, which nothing sees before it is complete.

    Object stores know no directories: there, files appear one by one, and a store is complete once it has its manifest.

    Raises:
        InputError: `target` exists.
    """
    refuse_existing(target)
    if is_remote(target):
        _upload(finished, epath.Path(target))
        shutil.rmtree(finished)
        return
    parent = Path(target).absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    if on_one_disk(finished, parent):
        finished.rename(target)
        sync(parent)
    else:
        with new_directory(target) as partial:
            shutil.copytree(finished, partial, dirs_exist_ok=True)
        shutil.rmtree(finished)


def on_one_disk(path: Path, other: Path) -> bool:
    """Whether a rename can move one beside the other."""
    return path.stat().st_dev == other.stat().st_dev


def _upload(finished: Path, target: epath.Path) -> None:
    files = [path for path in sorted(finished.rglob("*")) if path.is_file() and path.name != MANIFEST]
    for file in [*files, finished / MANIFEST]:
        place = target.joinpath(*file.relative_to(finished).parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as data, place.open("wb") as out:
            shutil.copyfileobj(data, out, length=1 << 24)


def local_target(target: epath.PathLike, work_dir: Path | None) -> Path:
    """Where unfinished work of a store lies: beside it, or in `work_dir`; raises InputError where neither can be."""
    if is_remote(target) and work_dir is None:
        raise InputError("--work-dir", None, "a local directory for unfinished work, as the store is remote")
    name = epath.Path(target).name
    if not name:
        raise InputError("store", os.fspath(target), "a directory with a name")
    return Path(work_dir or Path(target).expanduser().absolute().parent) / name
