"""From the samples of a row to what the network sees and what it is asked for.

    x_t = (1 - sigma) x + sigma eps        target v = eps - x        denoised x = x_t - sigma v

Each stream appears twice: a noisy copy, which is supervised, and a clean copy, which never is. A conditional sample
shows its given stream clean, at timestep 0, in the noisy slot. A prefix frame is clean in both copies. Everything is a
function of a sample's own fields and of its draw's keys.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from wam_jax import keys
from wam_jax.data.transport import SampleSlots
from wam_jax.flow.clock import FlowConfig, condition_indices, condition_is_noised, frame_indices
from wam_jax.flow.schedule import FlowSchedule
from wam_jax.keys import Purpose
from wam_jax.sequence.objectives import FORWARD_DYNAMICS, INVERSE_DYNAMICS


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NoisedStream:
    """One stream of a row's samples; trailing axes are C, H, W (video) or A, D (action).

    Attributes:
        copies: float32[R, S, 2, frames, ...], noisy then clean contents.
        timesteps: float32[R, S, 2, frames].
        target: float32[R, S, frames, ...], what the noisy copy's velocity should be.
        sigma: float32[R, S, frames], noise level of the noisy copy, as denoising looks it up.
        weight: float32[R, S, frames], training weight at that timestep.
    """

    copies: jax.Array
    timesteps: jax.Array
    target: jax.Array
    sigma: jax.Array
    weight: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NoisedSamples:
    """Both streams."""

    video: NoisedStream
    action: NoisedStream


def dataset_frames(samples: SampleSlots) -> tuple[jax.Array, jax.Array]:
    """Dataset frame numbers: int32[R, S, T] of the video (negative in the prefix) and int32[R, S, F] of the actions."""
    video = jnp.arange(samples.video_latents.shape[2]) - samples.prefix_frames[..., None]
    action = jnp.broadcast_to(jnp.arange(samples.actions.shape[2]), samples.actions.shape[:3])
    return video, action


def noise_samples(
    samples: SampleSlots, seed: jax.Array, flow: FlowConfig, *, video_index: int | None = None
) -> NoisedSamples:
    """Draws timesteps and noise and applies them.

    Args:
        samples: the samples of the rows.
        seed: uint32[], the run's seed.
        flow: schedules, clock and augmentation.
        video_index: a fixed grid index for every noisy video frame, for pictures at a stated noise level.
    """
    draw_keys = keys.draw_keys(seed, samples.draw)
    video_frames, action_frames = dataset_frames(samples)
    video_ids, action_ids = frame_indices(draw_keys, video_frames, action_frames, flow)
    if video_index is not None:
        video_ids = jnp.full_like(video_ids, video_index)
    return NoisedSamples(
        _noise_video(samples, draw_keys, video_frames, video_ids, flow),
        _noise_action(samples, draw_keys, action_frames, action_ids, flow),
    )


def _noise_video(
    samples: SampleSlots, draw_keys: jax.Array, frames: jax.Array, ids: jax.Array, flow: FlowConfig
) -> NoisedStream:
    latents = samples.video_latents.astype(jnp.float32)
    clean = latents if samples.clean_latents is None else samples.clean_latents.astype(jnp.float32)
    given = (samples.objective == INVERSE_DYNAMICS)[..., None] | (frames < 0)
    noise = _frame_noise(draw_keys, Purpose.VIDEO_NOISE, frames, latents.shape[3:])
    condition_noise = _frame_noise(draw_keys, Purpose.CONDITION_NOISE, frames, latents.shape[3:])
    augmented = condition_is_noised(draw_keys, flow) & (samples.objective == 0)
    condition_ids = condition_indices(draw_keys, frames, flow)
    kept = ~augmented[..., None] | (frames < 0)
    noisy, noisy_time = _mix(latents, noise, ids, given, flow.video)
    clean, clean_time = _mix(clean, condition_noise, condition_ids, kept, flow.video)
    target = jnp.where(_spread(given, latents), 0.0, noise - latents)
    entry = jnp.where(given, flow.video.clean_index, ids)
    return _stream((noisy, clean), (noisy_time, clean_time), target, entry, flow.video)


def _noise_action(
    samples: SampleSlots, draw_keys: jax.Array, frames: jax.Array, ids: jax.Array, flow: FlowConfig
) -> NoisedStream:
    actions, mask, grid = samples.actions, samples.action_mask, flow.action_grid
    given = jnp.broadcast_to((samples.objective == FORWARD_DYNAMICS)[..., None], frames.shape)
    noise = _frame_noise(draw_keys, Purpose.ACTION_NOISE, frames, actions.shape[3:])
    noisy, noisy_time = _mix(actions, noise, ids, given, grid)
    target = jnp.where(_spread(given, actions), 0.0, (noise - actions) * mask)
    entry = jnp.where(given, grid.clean_index, ids)
    return _stream((noisy * mask, actions), (noisy_time, jnp.zeros_like(noisy_time)), target, entry, grid)


def _frame_noise(draw_keys: jax.Array, purpose: Purpose, frames: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return keys.normal(keys.frame_keys(keys.purpose_keys(draw_keys, purpose), frames), shape)


def _spread(per_frame: jax.Array, like: jax.Array) -> jax.Array:
    """A value a frame, with axes of one for the contents of the frame."""
    return per_frame.reshape(per_frame.shape + (1,) * (like.ndim - per_frame.ndim))


def _mix(
    contents: jax.Array, noise: jax.Array, ids: jax.Array, kept: jax.Array, grid: FlowSchedule
) -> tuple[jax.Array, jax.Array]:
    """Noises each frame at its grid index, except the kept ones, which stay as they are at timestep 0."""
    sigma = _spread(jnp.asarray(grid.sigmas)[ids], contents)
    mixed = jnp.where(_spread(kept, contents), contents, (1 - sigma) * contents + sigma * noise)
    return mixed, jnp.where(kept, 0.0, jnp.asarray(grid.timesteps)[ids])


def _stream(
    copies: tuple[jax.Array, jax.Array],
    times: tuple[jax.Array, jax.Array],
    target: jax.Array,
    entry: jax.Array,
    grid: FlowSchedule,
) -> NoisedStream:
    return NoisedStream(
        copies=jnp.stack(copies, axis=2),
        timesteps=jnp.stack(times, axis=2),
        target=target,
        sigma=jnp.asarray(grid.sigmas)[entry],
        weight=jnp.asarray(grid.weights)[entry],
    )
