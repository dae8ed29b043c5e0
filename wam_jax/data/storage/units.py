"""What each unit of the field table counts: how many rows F frames give, and which rows a range of frames owns.

Two numbers of a store turn frames into the other units: A action slots per frame, and s raw frames per latent frame.

    unit          rows for F frames     rows of frames [a, b)
    frame         F                     [a, b)
    slot          A * F                 [A a, A b)
    observation   1 + s (F - 1)         [s a, s (b - 1) + 1)
    chunk, token  not given by F        all of them
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Units:
    """The two numbers, and the arithmetic over them.

    Attributes:
        actions_per_frame: A, action slots per latent frame.
        temporal_stride: s, raw frames from the anchor of one latent frame to the next.
    """

    actions_per_frame: int
    temporal_stride: int

    def extent(self, unit: str, frames: int | np.ndarray) -> int | np.ndarray | None:
        """Rows that `frames` latent frames have in `unit`; None where frames do not decide. Works on arrays."""
        match unit:
            case "frame":
                return frames
            case "slot":
                return self.actions_per_frame * frames
            case "observation":
                return 1 + self.temporal_stride * (frames - 1)
            case _:
                return None

    def rows(self, unit: str, start: int, stop: int) -> slice:
        """Rows of `unit` that belong to latent frames [start, stop); everything where frames do not decide."""
        match unit:
            case "frame":
                return slice(start, stop)
            case "slot":
                return slice(self.actions_per_frame * start, self.actions_per_frame * stop)
            case "observation":
                return slice(self.temporal_stride * start, self.temporal_stride * (stop - 1) + 1)
            case _:
                return slice(None)
