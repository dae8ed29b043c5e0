"""Finding the checkpoint that a path means: a step, or the newest of a run.

Only looks at names. Which are complete is known by the name (`wam_jax.training.checkpoint`), so this costs nothing and
happens before anything is imported or allocated.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wam_jax.errors import InputError

type Json = dict[str, Any]

CHECKPOINTS = "checkpoints"
_UNFINISHED = ".orbax-checkpoint-tmp"


@dataclass(frozen=True)
class CheckpointRef:
    """One complete checkpoint.

    Attributes:
        directory: what holds the steps of the run.
        step: updates done.
        flag: the option by which the user named it, for messages.
    """

    directory: Path
    step: int
    flag: str

    @property
    def path(self) -> Path:
        """Of the checkpoint."""
        return self.directory / str(self.step)

    @property
    def run(self) -> Path:
        """Directory of the run it belongs to."""
        return self.directory.parent

    @property
    def previous(self) -> "CheckpointRef | None":
        """The one before it, or None."""
        earlier = [step for step in durable_steps(self.directory) if step < self.step]
        return CheckpointRef(self.directory, earlier[-1], self.flag) if earlier else None


def durable_steps(directory: Path) -> list[int]:
    """Steps of the complete checkpoints in a directory, ascending; empty where there is no such directory."""
    if not directory.is_dir():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())


def unfinished(directory: Path) -> list[str]:
    """Names of checkpoints whose write was cut short."""
    return sorted(path.name for path in directory.glob(f"*{_UNFINISHED}*")) if directory.is_dir() else []


def find_checkpoint(path: str, *, flag: str) -> CheckpointRef:
    """The checkpoint that the value of an option means.

    Args:
        path: a run directory, its `checkpoints` directory (the newest of either), or one step in it.
        flag: the option.
    Raises:
        InputError: there is none.
    """
    given = Path(path).absolute()
    if not given.exists():
        raise InputError(flag, path, "no such directory; give a run, or one of its checkpoints/STEP")
    if given.name.isdecimal() and given.parent.name == CHECKPOINTS:
        return CheckpointRef(given.parent, int(given.name), flag)
    directory = given if given.name == CHECKPOINTS else given / CHECKPOINTS
    steps = durable_steps(directory)
    if not steps:
        partial = f" ({len(unfinished(directory))} were cut short while being written)" if unfinished(directory) else ""
        raise InputError(
            flag, path, f"holds no complete checkpoint{partial}; give a run, or one of its checkpoints/STEP"
        )
    return CheckpointRef(directory, steps[-1], flag)
