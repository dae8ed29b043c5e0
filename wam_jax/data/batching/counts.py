"""Slot utilisation: how much of what a step allocates holds something real."""

from dataclasses import astuple, dataclass

import numpy as np

from wam_jax.data.drawing.draws import DrawTable
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.rung import Rung

STREAMS = ("video", "action", "text", "proprio")


@dataclass(frozen=True)
class TokenCounts:
    """Samples, and real tokens against allocated slots of each stream, over all ranks.

    Both copies of video and action count. `text` and `proprio` are keys of cross-attention; a run without tokens of
    proprioception has no slots for them.
    """

    samples: int = 0
    video_tokens: int = 0
    video_slots: int = 0
    action_tokens: int = 0
    action_slots: int = 0
    text_tokens: int = 0
    text_slots: int = 0
    proprio_tokens: int = 0
    proprio_slots: int = 0

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

    @property
    def streams(self) -> dict[str, tuple[int, int]]:
        """Real tokens and allocated slots of each stream that has slots: `video`, `action`, `text`, `proprio`."""
        pairs = {name: (getattr(self, f"{name}_tokens"), getattr(self, f"{name}_slots")) for name in STREAMS}
        return {name: pair for name, pair in pairs.items() if pair[1]}

    def utilisations(self) -> dict[str, float]:
        """Real tokens over allocated slots: of self-attention as `all`, and of each stream that has slots."""
        return {"all": self.utilisation} | {name: tokens / slots for name, (tokens, slots) in self.streams.items()}


def count_tokens(draws: DrawTable, rung: Rung, constants: RowConstants) -> TokenCounts:
    """Counts the draws of some rows, [..., S]: every leading index is a row of `rung`."""
    return real_tokens(draws, constants) + allocated_slots(rung, int(np.prod(draws.shape[:-1])), constants)


def real_tokens(draws: DrawTable, constants: RowConstants) -> TokenCounts:
    """Samples and tokens of some draws, without slots."""
    present = draws.present
    frames, prefix = draws.num_frames[present], draws.prefix_frames[present]
    return TokenCounts(
        samples=int(present.sum()),
        video_tokens=2 * constants.video_tokens_per_frame * int((frames + prefix).sum()),
        action_tokens=2 * constants.actions_per_frame * int(frames.sum()),
        text_tokens=int(draws.num_text[present].sum()),
        proprio_tokens=int(draws.num_proprio[present].sum()),
    )


def allocated_slots(rung: Rung, rows: int, constants: RowConstants) -> TokenCounts:
    """Slots of some rows of a rung, without anything in them."""
    return TokenCounts(
        video_slots=rows * rung.video_frames * constants.video_tokens_per_frame,
        action_slots=rows * rung.action_frames * constants.actions_per_frame,
        text_slots=rows * rung.text_keys,
        proprio_slots=rows * rung.proprio_keys,
    )


def rectangle_tokens(draws: DrawTable, constants: RowConstants) -> int:
    """Self-attention tokens if every row of some draws, [..., S], were padded to its own longest sample.

    That is B x max(video) + B x max(action) of each row of B samples, against the sum of both that packing computes.
    """
    present = draws.present
    frames = np.where(present, draws.num_frames, 0)
    video = np.where(present, draws.num_frames + draws.prefix_frames, 0)
    per_frame = video.max(-1) * constants.video_tokens_per_frame + frames.max(-1) * constants.actions_per_frame
    return 2 * int((present.sum(-1) * per_frame).sum())
