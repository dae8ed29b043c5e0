"""What every source gives, whatever its files: a list of episodes from metadata alone, and one episode's content.

A source is a plain picklable value, so that worker processes read with it. Rows of `Content` are on the source's own
time line: R raw frames (every `frame_stride`-th of the recording), and the actions that lead from each to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from wam_jax.data.storage.manifest import EncoderRecord
from wam_jax.data.storage.units import Units

STRIDE = 4
"""Raw frames per latent frame after the first: `wan_causal_stride4`."""


@dataclass(frozen=True)
class Listed:
    """One episode as the source's metadata have it.

    Attributes:
        id: unique in the source.
        task: a short name; by default the instruction.
        instruction: the prompt; "" for none.
        fps: frames per second of the sampled time line.
        raw_frames: R, or None where only the payload tells.
        place: what the source needs to find it; plain and picklable.
        split: the source's own, or None.
        source: what the store's `source` column says.
        group: episodes of one group share a split; by default the id.
        parent: of a branch: the id of what it branches from, and the raw frame where.
    """

    id: str
    task: str
    instruction: str
    fps: float
    raw_frames: int | None
    place: Any
    source: str
    split: str | None = None
    group: str | None = None
    parent: tuple[str, int] | None = None


@dataclass(frozen=True, eq=False)
class Content:
    """One episode. Either `frames` or `video_latents` is there.

    Attributes:
        actions: `[rows, D]`, A / 4 rows from each raw frame to the next.
        states: `[R, d]` at every raw frame, or `[T, d]` at every latent frame, or None.
        frames: `[R, H, W, 3]` uint8 RGB canvas.
        video_latents, condition_latents: `[C, T, h, w]`.
        text: `[tokens, dim]`, the vectors of the instruction, where the source has them.
        notes: what the report should say of it.
    """

    actions: np.ndarray
    states: np.ndarray | None = None
    frames: np.ndarray | None = None
    video_latents: np.ndarray | None = None
    condition_latents: np.ndarray | None = None
    text: np.ndarray | None = None
    notes: tuple[str, ...] = ()


class Source(Protocol):
    """Episodes of one layout on disk."""

    @property
    def layout(self) -> str:
        """What it is, for people."""
        ...

    @property
    def units(self) -> Units:
        """A and s of what it gives."""
        ...

    @property
    def latents(self) -> EncoderRecord | None:
        """What made its latents; None where it gives frames."""
        ...

    def episodes(self) -> Sequence[Listed]:
        """All episodes, in a fixed order, from metadata alone; raises InputError where those cannot be used."""
        ...

    def control(self, listed: Listed) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions and states of one episode, as in `Content`, without its video."""
        ...

    def content(self, listed: Listed) -> Content:
        """One episode; raises InputError, naming the file, where it cannot be used."""
        ...

    def empty_text(self) -> np.ndarray | None:
        """`[tokens, dim]`, the vectors of the empty prompt, where the source has them."""
        ...
