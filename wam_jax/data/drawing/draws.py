"""A draw: one position of the stream of samples, and everything about its sample that is random or bears on shapes.

Draws travel as a `DrawTable`, one array a property, because a plan handles thousands at once. An empty slot of a batch
is a draw without an episode.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NOTHING = -1
"""The episode of an empty slot."""


@dataclass(frozen=True, eq=False)
class DrawTable:
    """Draws, one array a property; all arrays have one shape, any shape.

    Attributes:
        phase, epoch, position: int64, what the noise of the draw is a function of, with the seed.
        episode: int64, position in the index; `NOTHING` for an empty slot.
        segment_start: int64, first latent frame of the segment in its episode.
        num_frames: int64, latent frames of the sample, a prefix not counted.
        frame_shift: int64, episode frame at which positions start.
        chunk_size, window_size: int64, the sample's geometry.
        history_frames: int64, leading frames without video loss.
        chunk_origin: int64, the frame chunks are counted from.
        singleton_frame: int64, a frame that is a chunk of its own, or `wam_jax.sequence.contracts.NO_SINGLETON`.
        prefix_frames: int64, clean frames in front.
        objective: int64, `wam_jax.sequence.Objective`.
        route: int64, which of the law's routes the draw came by.
        num_text, num_proprio: int64, text tokens and proprioception tokens among the text keys.
        drop_text: bool, whether the text is dropped for classifier-free guidance.
    """

    phase: np.ndarray
    epoch: np.ndarray
    position: np.ndarray
    episode: np.ndarray
    segment_start: np.ndarray
    num_frames: np.ndarray
    frame_shift: np.ndarray
    chunk_size: np.ndarray
    window_size: np.ndarray
    history_frames: np.ndarray
    chunk_origin: np.ndarray
    singleton_frame: np.ndarray
    prefix_frames: np.ndarray
    objective: np.ndarray
    route: np.ndarray
    num_text: np.ndarray
    num_proprio: np.ndarray
    drop_text: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every array."""
        return self.episode.shape

    @property
    def present(self) -> np.ndarray:
        """bool, whether there is a draw at all."""
        return self.episode != NOTHING

    def __getitem__(self, index: Any) -> "DrawTable":
        """The draws at a NumPy index."""
        return self._each(lambda array: array[index])

    def seated(self, seats: np.ndarray) -> "DrawTable":
        """The draws [n] at the given numbers, empty slots where a number is negative, in the shape of `seats`."""
        table = self[np.maximum(seats, 0)]
        table.episode[seats < 0] = NOTHING
        return table

    def reshape(self, *shape: int) -> "DrawTable":
        """The same draws in another shape."""
        return self._each(lambda array: array.reshape(shape))

    def transpose(self, *axes: int) -> "DrawTable":
        """The same draws with axes permuted."""
        return self._each(lambda array: array.transpose(axes))

    def padded(self, count: int) -> "DrawTable":
        """Draws [n] with empty slots behind them: [count]."""
        missing = count - len(self.episode)
        table = self._each(lambda array: np.pad(array, (0, missing)))
        table.episode[len(self.episode) :] = NOTHING
        return table

    def columns(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def _each(self, function: Callable[[np.ndarray], np.ndarray]) -> "DrawTable":
        return DrawTable(**{name: function(array) for name, array in self.columns().items()})


def concatenate(tables: Sequence[DrawTable]) -> DrawTable:
    """Tables [n], [m], ... one behind the other."""
    columns = [table.columns() for table in tables]
    return DrawTable(**{name: np.concatenate([table[name] for table in columns]) for name in columns[0]})
