"""The geometry of one sample: everything its visibility and its token order depend on."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from wam_jax.errors import InputError
from wam_jax.sequence.programs import COUPLINGS, PROGRAMS, Coupling, Kind

HISTORIES = ("full", "video_queries_video_only", "video_only")


@dataclass(frozen=True, eq=False)
class SequenceGeometry:
    """Frames, chunks and rules of one sample. Frames are latent frames; chunks are groups of frames denoised together.

    Attributes:
        num_frames: dataset frames F; a prefix is not counted.
        video_tokens_per_frame: P.
        actions_per_frame: A, action slots of a frame; 0 of samples without actions.
        chunk_size: frames of a chunk, counted from `chunk_origin`.
        window_size: largest block distance between query and key; a block is one stream of one chunk.
        program: a key of `PROGRAMS`.
        history: which streams of earlier chunks are read: "full", "video_queries_video_only" or "video_only".
        prefix_frames: clean video frames in front of the dataset's own, outside its frame numbers.
        chunk_origin: the frame from which chunks are counted.
        singleton_frame: a frame that is a chunk of its own and behind which nothing is read, or None.
        boundary_only: earlier chunks are read only through the clean video frame just before the query's chunk.
        action_valid: bool[F * A], which action slots may be read; None means all.

    Raises:
        InputError: naming the attribute, for values outside these meanings.
    """

    num_frames: int
    video_tokens_per_frame: int
    actions_per_frame: int
    chunk_size: int
    window_size: int
    program: str
    history: str
    prefix_frames: int = 0
    chunk_origin: int = 0
    singleton_frame: int | None = None
    boundary_only: bool = False
    action_valid: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("num_frames", "video_tokens_per_frame", "chunk_size"):
            if getattr(self, name) < 1:
                self._refuse(name, "must be at least 1")
        for name in ("actions_per_frame", "window_size"):
            if getattr(self, name) < 0:
                self._refuse(name, "must not be negative")
        if self.program not in PROGRAMS:
            self._refuse("program", f"must be one of {', '.join(PROGRAMS)}")
        if self.history not in HISTORIES:
            self._refuse("history", f"must be one of {', '.join(HISTORIES)}")
        if self.prefix_frames not in (0, 1):
            self._refuse("prefix_frames", "must be 0 or 1")
        if self.singleton_frame is not None and not 0 <= self.singleton_frame < self.num_frames:
            self._refuse("singleton_frame", f"must lie in [0, {self.num_frames})")
        if self.action_valid is not None and np.shape(self.action_valid) != (self.num_slots,):
            self._refuse("action_valid", f"needs one entry for each of {self.num_slots} action slots")

    def _refuse(self, name: str, remedy: str) -> NoReturn:
        raise InputError(f"geometry.{name}", getattr(self, name), remedy)

    @property
    def coupling(self) -> Coupling:
        """The program's same-chunk relations."""
        return COUPLINGS[PROGRAMS[self.program].coupling]

    @property
    def num_video_frames(self) -> int:
        """Model video frames: the prefix and the dataset's."""
        return self.num_frames + self.prefix_frames

    @property
    def num_slots(self) -> int:
        """Action slots, F * A."""
        return self.num_frames * self.actions_per_frame

    @property
    def num_tokens(self) -> int:
        """Self-attention tokens: two copies of both streams."""
        return 2 * (self.num_video_frames * self.video_tokens_per_frame + self.num_slots)

    def frames_of(self, kind: Kind) -> int:
        """Frames of one copy of the kind's stream."""
        return self.num_video_frames if kind.is_video else self.num_frames

    def tokens_per_frame(self, kind: Kind) -> int:
        """Tokens of one frame of the kind's stream."""
        return self.video_tokens_per_frame if kind.is_video else self.actions_per_frame

    @cached_property
    def law_key(self) -> tuple[Any, ...]:
        """What the visibility law depends on: equal keys have equal run tables."""
        return (
            self.num_frames,
            self.chunk_size,
            self.window_size,
            self.coupling,
            self.history,
            self.prefix_frames,
            self.chunk_origin,
            self.singleton_frame,
            self.boundary_only,
        )
