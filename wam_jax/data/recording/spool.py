"""Recordings that wait on disk: about 50 kB per raw frame of 128 pixels, so that memory holds one per process."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wam_jax.data.recording.rollout import Recording

_ARRAYS = ("frames", "actions", "states")


@dataclass(frozen=True)
class Spooled:
    """A recording on disk, and its number of raw frames."""

    task: str
    seed: int
    raw_frames: int
    path: Path

    @property
    def name(self) -> str:
        """`TASK-SEED`, the id of the demonstration."""
        return f"{self.task}-{self.seed:06d}"

    def load(self) -> Recording:
        """Reads the recording back."""
        with np.load(self.path) as file:
            return Recording(task=self.task, seed=self.seed, **{name: file[name] for name in _ARRAYS})


def spool(recording: Recording, path: Path) -> Spooled:
    """Writes a recording to `path`, which ends in `.npz`."""
    np.savez(path, **{name: getattr(recording, name) for name in _ARRAYS})
    return Spooled(task=recording.task, seed=recording.seed, raw_frames=len(recording.frames), path=path)
