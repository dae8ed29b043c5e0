"""What a sampler's items are, and which stretch of which episode an item becomes.

    full_segment       one item an episode: all its frames
    uniform_segment    one item an (episode, start) with room for the shortest length that may be drawn; an episode
                       shorter than that is one item of its whole length, so that no episode is ever left out

Lengths of `uniform_segment` are drawn evenly from the candidates that fit into the episode; the item's start moves
back just as far as the drawn length needs. Everything follows from the episodes' lengths; no payload is read.

    frames 0 1 2 3 4 5, lengths 3 or 5          items are the starts 0 1 2 3
    item 3, length 3    . . . # # #
    item 3, length 5    . # # # # #             moved back by 2
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wam_jax.config.schema import SampleConstructionConfig
from wam_jax.keys import integers


def candidate_lengths(config: SampleConstructionConfig) -> np.ndarray | None:
    """The lengths that may be drawn, int64 and ascending; None where every episode is taken whole."""
    longest = config.max_segment_frames
    if config.mode == "full_segment" or longest is None:
        return None
    if not config.randomize_segment_length or config.min_segment_frames is None:
        return np.array([longest])
    return np.union1d(np.arange(config.min_segment_frames, longest, config.segment_length_stride), [longest])


@dataclass(frozen=True)
class Segments:
    """Stretches of episodes; all int64 of one shape.

    Attributes:
        episode: position in the index.
        start: first latent frame.
        num_frames: length in latent frames.
    """

    episode: np.ndarray
    start: np.ndarray
    num_frames: np.ndarray


@dataclass(frozen=True, eq=False)
class SegmentSpace:
    """The items of some rows, each an episode; an episode may have several rows.

    Attributes:
        episodes: int64[rows], positions in the index.
        frames: int64[rows], their latent frames.
        candidates: ascending lengths that may be drawn, or None for whole episodes.
    """

    episodes: np.ndarray
    frames: np.ndarray
    candidates: np.ndarray | None

    def __len__(self) -> int:
        return int(self.ends[-1])

    @cached_property
    def ends(self) -> np.ndarray:
        """One past the last item of each row: int64[rows]."""
        if self.candidates is None:
            return np.arange(1, len(self.episodes) + 1)
        return np.cumsum(np.maximum(self.frames - self.candidates[0] + 1, 1))

    def shortest(self) -> np.ndarray:
        """The least frames a segment of each row can have: int64[rows]."""
        return self.frames if self.candidates is None else np.minimum(self.frames, self.candidates[0])

    def longest(self) -> np.ndarray:
        """The most frames a segment of each row can have: int64[rows]."""
        if self.candidates is None:
            return self.frames
        fitting = np.searchsorted(self.candidates, self.frames, side="right")
        return np.where(fitting > 0, self.candidates[fitting - 1], self.frames)

    def mean_frames(self) -> np.ndarray:
        """The frames that a segment of each row has on average: float64[rows]."""
        if self.candidates is None:
            return self.frames.astype(np.float64)
        fitting = np.searchsorted(self.candidates, self.frames, side="right")
        means = np.cumsum(self.candidates) / np.arange(1, len(self.candidates) + 1)
        return np.where(fitting > 0, means[fitting - 1], self.frames)

    def segments(self, items: np.ndarray, words: np.ndarray) -> Segments:
        """The segments that items become.

        Args:
            items: int64[...], in [0, len(self)).
            words: uint64[...], one random word an item, for the length.
        """
        row = np.searchsorted(self.ends, items, side="right")
        frames = self.frames[row]
        if self.candidates is None:
            return Segments(self.episodes[row], np.zeros_like(frames), frames)
        first = items - np.where(row > 0, self.ends[row - 1], 0)
        fitting = np.searchsorted(self.candidates, frames, side="right")
        drawn = self.candidates[integers(words, 0, np.maximum(fitting, 1))]
        length = np.where(fitting > 0, drawn, frames)
        return Segments(self.episodes[row], np.minimum(first, frames - length), length)
