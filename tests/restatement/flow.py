"""Flow matching of one sample in float64: the grid, its weights, the noise and the four joint clocks.

Uniform numbers are arguments, never drawn here, so that a test can inject the product's own.
"""

from dataclasses import dataclass

import numpy as np

CLOCKS = ("independent", "match_index", "match_sigma", "shared_video_schedule")


@dataclass(frozen=True)
class Schedule:
    """The grid of one stream: `num_steps` entries that run from sigma 1 downwards and never reach 0."""

    num_steps: int
    shift: float

    @property
    def sigmas(self) -> np.ndarray:
        r = 1 - np.arange(self.num_steps) / self.num_steps
        return self.shift * r / (1 + (self.shift - 1) * r)

    @property
    def timesteps(self) -> np.ndarray:
        return self.num_steps * self.sigmas

    @property
    def weights(self) -> np.ndarray:
        """Training weight per entry; the mean over the grid is 1 and the noisiest entry weighs nothing."""
        y = np.exp(-2 * ((self.timesteps - self.num_steps / 2) / self.num_steps) ** 2)
        return self.num_steps * (y - y.min()) / (y - y.min()).sum()

    def ids(self, uniforms: np.ndarray) -> np.ndarray:
        """Grid entries for uniform numbers in [0, 1)."""
        return np.floor(np.clip(np.asarray(uniforms) * self.num_steps, 0, self.num_steps - 1)).astype(int)

    def nearest(self, timesteps: np.ndarray) -> np.ndarray:
        """Grid entry nearest to each timestep; timestep 0, which is not on the grid, finds the last entry."""
        return nearest(self.timesteps, timesteps)

    def sigma_at(self, timesteps: np.ndarray) -> np.ndarray:
        return self.sigmas[self.nearest(timesteps)]

    def weight_at(self, timesteps: np.ndarray) -> np.ndarray:
        return self.weights[self.nearest(timesteps)]


def nearest(grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Index of the nearest grid value, the first of equals; the rounding lets true ties be ties in floating point."""
    distances = np.abs(np.asarray(values)[..., None] - grid)
    return np.argmin(np.round(distances, 10), axis=-1)


def uniforms_of_ids(ids: np.ndarray, num_steps: int) -> np.ndarray:
    """Uniform numbers in the middle of the cells of `ids`, which any precision maps back to the same ids."""
    return (np.asarray(ids) + 0.5) / num_steps


def noised(clean: np.ndarray, noise: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """`x_t = (1 - sigma) x + sigma eps`, sigma already broadcast over the axes of a frame."""
    return (1 - sigma) * clean + sigma * noise


@dataclass(frozen=True)
class Ticks:
    """Timesteps per frame of both streams, and the grid on which the action's sigma and weight are looked up."""

    video: np.ndarray
    action: np.ndarray
    action_schedule: Schedule


def clock_ticks(
    clock: str, video_u: np.ndarray, action_u: np.ndarray, video_schedule: Schedule, action_schedule: Schedule
) -> Ticks:
    """Timesteps `[Fv]` and `[F]`; every clock but the independent one leaves `action_u` unread.

    The video's leading frames that have no actions (the prefix) are skipped where the action follows the video.
    """
    video_ids = video_schedule.ids(video_u)
    video = video_schedule.timesteps[video_ids]
    target = slice(len(video_u) - len(action_u), None)
    if clock == "independent":
        return Ticks(video, action_schedule.timesteps[action_schedule.ids(action_u)], action_schedule)
    if clock == "match_index":
        if video_schedule.num_steps != action_schedule.num_steps:
            raise ValueError("match_index needs grids of equal length")
        return Ticks(video, action_schedule.timesteps[video_ids[target]], action_schedule)
    if clock == "match_sigma":
        ids = nearest(action_schedule.sigmas, video_schedule.sigma_at(video[target]))
        return Ticks(video, action_schedule.timesteps[ids], action_schedule)
    if clock == "shared_video_schedule":
        return Ticks(video, video[target], video_schedule)
    raise ValueError(f"clock {clock!r} is none of {CLOCKS}")
