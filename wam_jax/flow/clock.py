"""The timesteps of a sample's frames: one index a frame and stream, by the run's clock.

    independent             separate draws, each stream on its own grid
    match_index             one draw; the action stream uses the same index on its own grid
    match_sigma             one draw; the action stream takes the entry of its grid nearest in noise level
    shared_video_schedule   one draw; both streams live on the video grid

Draws are keyed by the dataset's frame, so a prefix, padding or a neighbour never moves them.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from wam_jax import keys
from wam_jax.flow.schedule import FlowSchedule
from wam_jax.keys import Purpose

Clock = Literal["independent", "match_index", "match_sigma", "shared_video_schedule"]
AUGMENTED_FROM = 0.5
"""Noised condition frames draw from the less noisy half of the grid: indices N / 2 and up."""


@dataclass(frozen=True)
class FlowConfig:
    """What noising depends on.

    Attributes:
        video: the video schedule.
        action: the action schedule.
        clock: how the streams' timesteps are tied.
        noisy_condition_prob: probability that the clean video copy of a sample is noised.
    """

    video: FlowSchedule
    action: FlowSchedule
    clock: Clock = "independent"
    noisy_condition_prob: float = 0.5

    @property
    def action_grid(self) -> FlowSchedule:
        """The grid on which action noise levels, weights and denoising are looked up."""
        return self.video if self.clock == "shared_video_schedule" else self.action

    def __post_init__(self) -> None:
        if self.clock == "match_index" and self.video.num_timesteps != self.action.num_timesteps:
            raise ValueError(
                f"the match_index clock needs equally many timesteps, got {self.video.num_timesteps} "
                f"for video and {self.action.num_timesteps} for actions"
            )


def frame_indices(
    draw_keys: jax.Array, video_frames: jax.Array, action_frames: jax.Array, flow: FlowConfig
) -> tuple[jax.Array, jax.Array]:
    """Grid indices of the noisy copies.

    Args:
        draw_keys: keys[R, S].
        video_frames: int32[R, S, T], dataset frame of each video frame (-1 for the prefix).
        action_frames: int32[R, S, F].
        flow: schedules and clock.

    Returns:
        int32[R, S, T] on the video grid and int32[R, S, F] on the action grid of the clock.
    """
    if flow.clock == "independent":
        return (
            flow.video.indices(_unit(draw_keys, Purpose.VIDEO_TIMESTEP, video_frames)),
            flow.action.indices(_unit(draw_keys, Purpose.ACTION_TIMESTEP, action_frames)),
        )
    video = flow.video.indices(_unit(draw_keys, Purpose.SHARED_TIMESTEP, video_frames))
    shared = flow.video.indices(_unit(draw_keys, Purpose.SHARED_TIMESTEP, action_frames))
    if flow.clock == "match_sigma":
        return video, jnp.asarray(flow.video.nearest_in(flow.action))[shared]
    return video, shared


def condition_indices(draw_keys: jax.Array, video_frames: jax.Array, flow: FlowConfig) -> jax.Array:
    """Grid indices of a noised clean video copy: int32[R, S, T]."""
    return flow.video.indices(_unit(draw_keys, Purpose.CONDITION_TIMESTEP, video_frames), AUGMENTED_FROM)


def condition_is_noised(draw_keys: jax.Array, flow: FlowConfig) -> jax.Array:
    """The one decision a draw makes on its clean video copy: bool[R, S]."""
    return keys.unit(keys.purpose_keys(draw_keys, Purpose.CONDITION_DECISION)) < flow.noisy_condition_prob


def _unit(draw_keys: jax.Array, purpose: Purpose, frames: jax.Array) -> jax.Array:
    return keys.unit(keys.frame_keys(keys.purpose_keys(draw_keys, purpose), frames))
