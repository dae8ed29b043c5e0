"""Which recorded rows belong to the sampled time line: every g-th frame, and the actions between.

With g = 2 and 7 recorded rows:

    recorded frame   0   1   2   3   4   5   6
    sampled frame    0       1       2       3
    actions, `all`     0   1   2   3   4   5         A = 4 g
    actions, `sampled` 0       2       4             A = 4, as the reference reads subsampled video

Row i of a recording holds the action that leads from frame i to frame i + 1, so the last row's leads nowhere that the
video shows: it is dropped. `shift` rows are skipped first where a recording wrote the action beside the frame that it
led to.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from wam_jax.data.conversion.content import STRIDE
from wam_jax.data.storage.units import Units
from wam_jax.errors import InputError

ActionRows = Literal["all", "sampled"]


@dataclass(frozen=True)
class Timeline:
    """How a recording is sampled.

    Attributes:
        stride: g, recorded frames from one sampled frame to the next.
        rows: which actions are kept.
        shift: rows by which actions are late in the recording.
    """

    stride: int = 1
    rows: ActionRows = "all"
    shift: int = 0

    def __post_init__(self) -> None:
        if self.stride < 1:
            raise InputError("--frame-stride", self.stride, "at least 1")
        if self.shift < 0:
            raise InputError("--action-shift", self.shift, "0, or how many rows late the actions were recorded")

    @property
    def units(self) -> Units:
        """A and s."""
        return Units(actions_per_frame=STRIDE * (self.stride if self.rows == "all" else 1), temporal_stride=STRIDE)

    def frames(self, recorded: int) -> int:
        """R of `recorded` frames."""
        return len(range(0, recorded, self.stride))

    def states(self, recorded: np.ndarray) -> np.ndarray:
        """`[R, d]` of `[rows, d]`."""
        return recorded[:: self.stride]

    def actions(self, recorded: np.ndarray) -> np.ndarray:
        """The actions from the first to the last sampled frame, of one row per recorded frame."""
        between = self.stride * (self.frames(len(recorded)) - 1)
        return recorded[self.shift :][:between][:: 1 if self.rows == "all" else self.stride]
