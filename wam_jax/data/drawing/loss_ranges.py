"""Which dataset frames of a sample carry which loss.

    stream    conditional    joint: its own range, else the generic one, else
    video     [1, F)         behind the history, from 0 where a prefix stands in its place
    action    [1, F)         [0, F)

Ranges are half-open; a missing end is the sample's. The start of a generic range is the sample's history.
"""

from dataclasses import dataclass

import numpy as np

from wam_jax.config.schema import LossRangeConfig, SampleConstructionConfig
from wam_jax.errors import InputError
from wam_jax.sequence import Objective
from wam_jax.sequence.contracts import SequenceContract

AT = "data.sample_construction.loss_range"
Range = tuple[int, int]
_Given = tuple[int | None, int | None]
_CONDITIONAL_START = 1


@dataclass(frozen=True)
class LossRanges:
    """The ranges that a recipe asks for; `None` is not said.

    Attributes:
        generic: of both streams, and the history of a sample where it has a start.
        video: of the video alone.
        action: of the actions alone.
    """

    generic: _Given = (None, None)
    video: _Given = (None, None)
    action: _Given = (None, None)

    @property
    def history(self) -> int | None:
        """Leading frames without video loss, where the recipe fixes them."""
        return self.generic[0]

    def of_video(self, objective: Objective, num_frames: int, *, history_frames: int, prefix_frames: int) -> Range:
        """Frames whose video is supervised."""
        if objective.conditional:
            return _CONDITIONAL_START, num_frames
        found = _first_given(self.video, self.generic, num_frames)
        return found or (0 if prefix_frames else history_frames, num_frames)

    def of_actions(self, objective: Objective, num_frames: int) -> Range:
        """Frames whose actions are supervised, and that show their actions in the noisy copy."""
        if objective.conditional:
            return _CONDITIONAL_START, num_frames
        return _first_given(self.action, self.generic, num_frames) or (0, num_frames)

    def check(self, shortest: int) -> None:
        """Refuses ranges that do not lie in every joint sample.

        Args:
            shortest: least frames of one.
        Raises:
            InputError: naming the end at fault.
        """
        if self.history is not None and self.history >= shortest:
            remedy = f"leaves no supervised frame of the shortest sample, {shortest} frames"
            raise InputError(f"{AT}.loss_frame_start", self.history, remedy)
        for stream, ends in {"": self.generic, "latent_": self.video, "action_": self.action}.items():
            for name, end in zip(("start", "end"), ends, strict=True):
                if end is not None and end > shortest:
                    remedy = f"must lie in the shortest sample, {shortest} frames"
                    raise InputError(f"{AT}.{stream}loss_frame_{name}", end, remedy)


def loss_ranges(construction: SampleConstructionConfig, contract: SequenceContract) -> LossRanges:
    """The ranges of a recipe: those of the configuration, and the contract's context frame."""
    given: LossRangeConfig = construction.loss_range
    return LossRanges(
        generic=(contract.context_frames or given.loss_frame_start, given.loss_frame_end),
        video=(given.latent_loss_frame_start, given.latent_loss_frame_end),
        action=(given.action_loss_frame_start, given.action_loss_frame_end),
    )


def within(frames: Range, count: int) -> np.ndarray:
    """Which of `count` frames lie in a range: bool[count]."""
    start, stop = frames
    index = np.arange(count)
    return (index >= start) & (index < stop)


def _first_given(own: _Given, generic: _Given, num_frames: int) -> Range | None:
    for start, end in (own, generic):
        if (start, end) != (None, None):
            return start or 0, num_frames if end is None else end
    return None
