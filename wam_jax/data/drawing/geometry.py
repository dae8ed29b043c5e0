"""Chunk size, window and history of every draw: the two laws of the reference family, elementwise on arrays.

    full_segment       chunk  C ~ U{1..chunk_size}, at most F
                       window W ~ U{4..window_size}, or window_size where that is below 4
                       history = clamp(k C, 1, F - C) with k ~ U{1..max(1, F // C - 1)}
    uniform_segment    chunk and window likewise, C from U{1..min(chunk_size, F)}
                       history = clamp(ceil(W / 2) C, 1, F - C): as much past as the window shows

History is the number of leading frames without video loss. With `randomize_geometry` off, chunk and window are the
configured values, nothing is drawn, and a full segment has the policy's `video_prefix_frames` for a history.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from wam_jax.config.schema import SampleConstructionConfig
from wam_jax.errors import InputError
from wam_jax.keys import Purpose, integers

WINDOW_FLOOR = 4
"""The least window that is ever drawn, in blocks."""

Words = Callable[[Purpose], np.ndarray]
"""Random words of the draws at hand, one per draw, for a purpose."""

Geometry = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Chunk, window and history of each sample, int64."""


@dataclass(frozen=True)
class GeometryLaw:
    """How geometry is drawn.

    Attributes:
        full_segment: which of the two laws.
        randomize: whether chunk and window are drawn or given.
        chunk_size: largest chunk, or the chunk.
        window_size: largest window, or the window.
        fixed_history: history of a full segment whose geometry is not drawn.
    """

    full_segment: bool
    randomize: bool
    chunk_size: int
    window_size: int
    fixed_history: int

    def draw(self, num_frames: np.ndarray, words: Words) -> Geometry:
        """Chunk, window and history of samples of these lengths."""
        chunk, window = self.chunk(num_frames, words), self.window(num_frames, words)
        return chunk, window, self.history(num_frames, chunk, window, words)

    def history_bounds(self, num_frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the history that samples of these lengths can draw."""
        if self.randomize:
            return np.ones_like(num_frames), num_frames - 1
        history = self.draw(num_frames, _undrawn)[2]
        return history, history

    def chunk(self, num_frames: np.ndarray, words: Words) -> np.ndarray:
        """Frames of a chunk, 1 to `num_frames`."""
        largest = self.chunk_size if self.full_segment else np.minimum(self.chunk_size, num_frames)
        drawn = integers(words(Purpose.CHUNK_SIZE), 1, largest + 1) if self.randomize else largest
        return np.minimum(drawn, num_frames)

    def window(self, num_frames: np.ndarray, words: Words) -> np.ndarray:
        """Largest block distance between query and key."""
        if not self.randomize or self.window_size < WINDOW_FLOOR:
            return np.full_like(num_frames, self.window_size)
        return integers(words(Purpose.WINDOW_SIZE), WINDOW_FLOOR, self.window_size + 1)

    def history(self, num_frames: np.ndarray, chunk: np.ndarray, window: np.ndarray, words: Words) -> np.ndarray:
        """Leading frames without video loss, 1 to `num_frames - 1`."""
        if not self.full_segment:
            past = (window + 1) // 2 * chunk
        elif not self.randomize:
            return np.full_like(num_frames, self.fixed_history)
        else:
            past = chunk * integers(words(Purpose.HISTORY), 1, np.maximum(num_frames // chunk - 1, 1) + 1)
        return np.maximum(1, np.minimum(past, num_frames - chunk))


def _undrawn(purpose: Purpose) -> NoReturn:
    raise AssertionError(f"{purpose!r} of a geometry that is not drawn")


def geometry_law(config: SampleConstructionConfig, *, video_prefix_frames: int, shortest: int) -> GeometryLaw:
    """The law that a configuration asks for.

    Args:
        config: `data.sample_construction`.
        video_prefix_frames: of the policy.
        shortest: least frames that any draw can have.
    Raises:
        InputError: the fixed history leaves the shortest draw without a supervised frame.
    """
    full_segment = config.mode == "full_segment"
    if full_segment and not config.randomize_geometry and not 0 < video_prefix_frames < shortest:
        remedy = f"the history of fixed geometry: at least 1 and below the shortest episode's {shortest} frames"
        raise InputError("policy.video_prefix_frames", video_prefix_frames, remedy)
    return GeometryLaw(
        full_segment=full_segment,
        randomize=config.randomize_geometry,
        chunk_size=config.chunk_size,
        window_size=config.window_size,
        fixed_history=video_prefix_frames,
    )
