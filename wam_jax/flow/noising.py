"""From the samples of a row to what the network sees and what it is asked for.

    x_t = (1 - sigma) x + sigma eps        target v = eps - x        denoised x = x_t - sigma v

Each stream appears twice: a noisy copy, which is supervised, and a clean copy, which never is. A conditional sample
shows its given stream clean, at timestep 0, in the noisy slot. A prefix frame is clean in both copies. Everything is a
function of a sample's own fields and of its draw's keys.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from wam_jax import keys
from wam_jax.data.transport import SampleSlots
from wam_jax.flow.clock import FlowConfig, condition_indices, condition_is_noised, frame_indices
from wam_jax.flow.frames import per_frame
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
    samples: SampleSlots,
    seed: jax.Array,
    flow: FlowConfig,
    *,
    video_index: int | None = None,
    tiles: tuple[int | None, int | None] = (None, None),
) -> NoisedSamples:
    """Draws timesteps and noise and applies them.

    Args:
        samples: the samples of the rows.
        seed: uint32[], the run's seed.
        flow: schedules, clock and augmentation.
        video_index: a fixed grid index for every noisy video frame, for pictures at a stated noise level.
        tiles: frames of the video and of the actions that are worked on together (`wam_jax.flow.frames`).
    """
    video_frames, action_frames = dataset_frames(samples)
    latents = samples.video_latents.astype(jnp.float32)
    clean = None if samples.clean_latents is None else samples.clean_latents.astype(jnp.float32)
    video = per_frame(
        functools.partial(_noise_video, flow=flow, index=video_index),
        *_of_frames(samples, video_frames, seed),
        latents,
        clean,
        tile=tiles[0],
    )
    action = per_frame(
        functools.partial(_noise_action, flow=flow),
        *_of_frames(samples, action_frames, seed),
        samples.actions,
        samples.action_mask,
        tile=tiles[1],
    )
    return NoisedSamples(_stream(*video), _stream(*action))


class _Noised(NamedTuple):
    """Frames of one stream [..., frames, ...], the copies apart."""

    copies: tuple[jax.Array, jax.Array]
    timesteps: tuple[jax.Array, jax.Array]
    target: jax.Array
    sigma: jax.Array
    weight: jax.Array


def _of_frames(samples: SampleSlots, frames: jax.Array, seed: jax.Array) -> tuple[jax.Array, ...]:
    """What noise is a function of, for every frame: seed, draw, objective and frame number."""
    shape = frames.shape
    draw = jnp.broadcast_to(samples.draw[:, :, None], (*shape, 3))
    objective = jnp.broadcast_to(samples.objective[..., None], shape)
    return jnp.broadcast_to(seed, shape), draw, objective, frames


def _noise_video(
    seed: jax.Array,
    draw: jax.Array,
    objective: jax.Array,
    frames: jax.Array,
    latents: jax.Array,
    clean: jax.Array | None,
    *,
    flow: FlowConfig,
    index: int | None,
) -> _Noised:
    draw_keys = keys.draw_keys(seed, draw)
    ids = _by_frame(frame_indices, draw_keys, frames, frames, flow=flow)[0]
    ids = ids if index is None else jnp.full_like(ids, index)
    given = (objective == INVERSE_DYNAMICS) | (frames < 0)
    noise = _frame_noise(draw_keys, Purpose.VIDEO_NOISE, frames, latents)
    condition_noise = _frame_noise(draw_keys, Purpose.CONDITION_NOISE, frames, latents)
    condition_ids = _by_frame(condition_indices, draw_keys, frames, flow=flow)
    kept = ~(condition_is_noised(draw_keys, flow) & (objective == 0)) | (frames < 0)
    noisy, noisy_time = _mix(latents, noise, ids, given, flow.video)
    clean, clean_time = _mix(latents if clean is None else clean, condition_noise, condition_ids, kept, flow.video)
    target = jnp.where(_spread(given, latents), 0.0, noise - latents)
    entry = jnp.where(given, flow.video.clean_index, ids)
    return _Noised((noisy, clean), (noisy_time, clean_time), target, *_levels(entry, flow.video))


def _noise_action(
    seed: jax.Array,
    draw: jax.Array,
    objective: jax.Array,
    frames: jax.Array,
    actions: jax.Array,
    mask: jax.Array,
    *,
    flow: FlowConfig,
) -> _Noised:
    draw_keys, grid = keys.draw_keys(seed, draw), flow.action_grid
    ids = _by_frame(frame_indices, draw_keys, frames, frames, flow=flow)[1]
    given = objective == FORWARD_DYNAMICS
    noise = _frame_noise(draw_keys, Purpose.ACTION_NOISE, frames, actions)
    noisy, noisy_time = _mix(actions, noise, ids, given, grid)
    target = jnp.where(_spread(given, actions), 0.0, (noise - actions) * mask)
    entry = jnp.where(given, grid.clean_index, ids)
    return _Noised((noisy * mask, actions), (noisy_time, jnp.zeros_like(noisy_time)), target, *_levels(entry, grid))


def _by_frame(function: Callable[..., Any], draw_keys: jax.Array, *frames: jax.Array, flow: FlowConfig) -> Any:
    """A function of keys [...] and frames [..., T] for keys and frames that are one of each."""
    return jax.tree.map(lambda ids: ids[..., 0], function(draw_keys, *(frame[..., None] for frame in frames), flow))


def _frame_noise(draw_keys: jax.Array, purpose: Purpose, frames: jax.Array, like: jax.Array) -> jax.Array:
    own = keys.frame_keys(keys.purpose_keys(draw_keys, purpose), frames[..., None])[..., 0]
    return keys.normal(own, like.shape[frames.ndim :])


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


def _levels(entry: jax.Array, grid: FlowSchedule) -> tuple[jax.Array, jax.Array]:
    """Noise level and training weight of grid entries."""
    return jnp.asarray(grid.sigmas)[entry], jnp.asarray(grid.weights)[entry]


def _stream(
    copies: tuple[jax.Array, jax.Array],
    times: tuple[jax.Array, jax.Array],
    target: jax.Array,
    sigma: jax.Array,
    weight: jax.Array,
) -> NoisedStream:
    """Frames [R, S, frames, ...] with their copies stacked."""
    return NoisedStream(jnp.stack(copies, axis=2), jnp.stack(times, axis=2), target, sigma, weight)
