"""Where a conversion keeps what it has done, so that the same command goes on after any interruption.

A hidden directory beside the store holds the plan, each finished episode, and whatever takes long to make. Files appear
whole or not at all. The plan is what the result depends on: going on under another plan is refused by name. A lock
keeps two conversions of one store apart; the operating system lets go of it however the process ends.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wam_jax.data.files import sync
from wam_jax.errors import InputError

_PLAN, _LOCK, _EPISODES = "plan.json", "lock", "episodes"


@dataclass(frozen=True)
class Spool:
    """One conversion's directory."""

    directory: Path

    def episode(self, number: int) -> Path:
        """The file of a finished episode, whether it is there or not."""
        return self.directory / _EPISODES / f"{number:08d}.safetensors"

    def pending(self, count: int) -> list[int]:
        """Numbers below `count` that are not finished."""
        done = set(os.listdir(self.directory / _EPISODES))
        return [number for number in range(count) if self.episode(number).name not in done]

    def note(self, number: int, notes: Sequence[str]) -> None:
        """Keeps what the report should say of an episode."""
        self.put(self.episode(number).with_suffix(".json"), json.dumps(list(notes)).encode())

    def notes(self) -> list[str]:
        """All that was kept."""
        files = sorted(self.directory.joinpath(_EPISODES).glob("*.json"))
        return [note for file in files for note in json.loads(file.read_text())]

    def put(self, path: Path, data: bytes) -> None:
        """Writes a file at once."""
        with tempfile.NamedTemporaryFile(dir=self.directory, prefix="new-", delete=False) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
        sync(path.parent)

    def kept(self, name: str, make: Callable[[], bytes]) -> bytes:
        """The content of a file, made on first use."""
        path = self.directory / name
        if not path.exists():
            self.put(path, make())
        return path.read_bytes()

    def discard(self, name: str) -> None:
        """Forgets a directory that a stage left."""
        shutil.rmtree(self.directory / name, ignore_errors=True)

    def remove(self) -> None:
        """Forgets everything."""
        shutil.rmtree(self.directory)


def spool_of(target: Path) -> Path:
    """The directory beside a store."""
    return target.parent / f".{target.name}.converting"


@contextmanager
def open_spool(directory: Path, plan: Mapping[str, Any], *, restart: bool) -> Generator[Spool]:
    """Opens or begins a conversion.

    Args:
        directory: that of `spool_of`.
        plan: plain JSON; the result is a function of it.
        restart: whether to throw away what was done under another plan.
    Raises:
        InputError: another process is at it, or what is there was begun under another plan.
    """
    directory.joinpath(_EPISODES).mkdir(parents=True, exist_ok=True)
    with directory.joinpath(_LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("store", str(directory), "another conversion is at work here; wait for it") from None
        spool = Spool(directory)
        _agree(spool, json.loads(json.dumps(plan)), restart=restart)
        yield spool


def _agree(spool: Spool, plan: dict[str, Any], *, restart: bool) -> None:
    path = spool.directory / _PLAN
    found = json.loads(path.read_text()) if path.exists() else None
    changed = sorted(key for key in plan.keys() | (found or {}).keys() if plan.get(key) != (found or {}).get(key))
    if found is not None and changed and not restart:
        remedy = f"an unfinished conversion here differs in {', '.join(changed)}; --restart throws it away"
        raise InputError("store", str(spool.directory), remedy)
    for item in spool.directory.iterdir():
        if (changed and item.name != _LOCK) or item.name.startswith("new-") or item.suffix == ".partial":
            shutil.rmtree(item) if item.is_dir() else item.unlink()
    spool.directory.joinpath(_EPISODES).mkdir(exist_ok=True)
    if changed:
        spool.put(path, (json.dumps(plan, indent=1) + "\n").encode())
