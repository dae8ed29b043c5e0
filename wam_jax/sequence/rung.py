"""The static sizes of a compiled step."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rung:
    """Every static size of a compiled step. Two batches of one rung run the same program.

    Attributes:
        samples: S, sample slots of a row.
        video_slot_frames: T, model video frames (prefix included) of a slot.
        action_slot_frames: F, action frames of a slot.
        video_frames: Nv, frames of the video row buffer (noisy and clean copies counted).
        action_frames: Na, frames of the action row buffer.
        text_keys: text tokens of a row.
        proprio_keys: proprioception tokens of a row (text-token mode; else 0).
        runs: rows of the range tables, the empty run 0 included.
    """

    samples: int
    video_slot_frames: int
    action_slot_frames: int
    video_frames: int
    action_frames: int
    text_keys: int
    proprio_keys: int
    runs: int


def most_runs(video_frames: int, action_frames: int) -> int:
    """Rows of the range tables that buffers of so many frames can need, whatever the chunks of their samples.

    At most one a frame, behind run 0, which reads nothing.
    """
    return 1 + video_frames + action_frames
