"""Slot utilisation: how much of what a step allocates holds something real."""

from dataclasses import astuple, dataclass

import numpy as np

from wam_jax.data.draws import DrawTable
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.rung import Rung


@dataclass(frozen=True)
class TokenCounts:
    """Samples, and tokens against allocated slots of each stream, over all ranks.

    Both copies of the two streams count; `text` counts the keys of cross-attention, proprioception tokens included.
    """

    samples: int
    video_tokens: int
    video_slots: int
    action_tokens: int
    action_slots: int
    text_tokens: int
    text_slots: int

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        """Both together."""
        return TokenCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def tokens(self) -> int:
        """Self-attention tokens that are real."""
        return self.video_tokens + self.action_tokens

    @property
    def slots(self) -> int:
        """Self-attention token slots that are computed."""
        return self.video_slots + self.action_slots

    @property
    def utilisation(self) -> float:
        """Real self-attention tokens over allocated slots."""
        return self.tokens / self.slots


def count_tokens(draws: DrawTable, rung: Rung, constants: RowConstants) -> TokenCounts:
    """Counts the draws of some rows, [..., S]: every leading index is a row of `rung`."""
    present = draws.present
    frames = np.where(present, draws.num_frames, 0)
    rows = int(np.prod(draws.shape[:-1]))
    per_frame, slots_per_frame = constants.video_tokens_per_frame, constants.actions_per_frame
    return TokenCounts(
        samples=int(present.sum()),
        video_tokens=2 * per_frame * int((frames + np.where(present, draws.prefix_frames, 0)).sum()),
        video_slots=rows * rung.video_frames * per_frame,
        action_tokens=2 * slots_per_frame * int(frames.sum()),
        action_slots=rows * rung.action_frames * slots_per_frame,
        text_tokens=int((draws.num_text + draws.num_proprio)[present].sum()),
        text_slots=rows * (rung.text_keys + rung.proprio_keys),
    )
