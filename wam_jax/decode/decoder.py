"""The per-sample decoder: heads, denoised estimates, losses and metrics of each sample by itself.

Samples of a row are decoded one after the other (`jax.lax.map` over the slots, never a vmap), each through the same
program at the static size of a slot, so that decoding cannot depend on neighbours. The row axis is a batch axis of
the same slot on different devices.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from wam_jax import tracing
from wam_jax.data.transport import SampleSlots
from wam_jax.decode.losses import Terms, action_error_terms, action_terms, losses_of, video_terms
from wam_jax.flow.frames import per_frame, sum_over_frames
from wam_jax.flow.noising import NoisedSamples, NoisedStream, dataset_frames
from wam_jax.sequence.objectives import FORWARD_DYNAMICS, INVERSE_DYNAMICS
from wam_jax.tracing import tag


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HiddenStream:
    """One stream of the samples after the heavy layers, noisy copy only, and what its head is conditioned on.

    Attributes:
        hidden: [R, S, frames, tokens, width].
        conditioning: [R, S, frames, ...], the head's modulation input.
    """

    hidden: jax.Array
    conditioning: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HiddenSamples:
    """Both streams."""

    video: HiddenStream
    action: HiddenStream


Head = Callable[[jax.Array, jax.Array], jax.Array]

type Velocities = tuple[jax.Array, jax.Array]
"""What is predicted: of the video float32[R, S, T, C, H, W], of the actions float32[R, S, F, A, D]."""


@dataclass(frozen=True)
class Decoder:
    """Decodes the samples of a row.

    Attributes:
        video_head: hidden [..., P, width], conditioning [...] to velocities [..., C, H, W].
        action_head: hidden [..., A, width], conditioning [...] to velocities [..., A, D].
        latent_loss_weight: weight of L_v; 0 switches the video terms off.
        action_loss_weight: weight of L_a.
        video_tile: frames of the video that are decoded together, or None for all (`wam_jax.flow.frames`).
        action_tile: the same of the actions.
    """

    video_head: Head
    action_head: Head
    latent_loss_weight: float = 1.0
    action_loss_weight: float = 1.0
    video_tile: int | None = None
    action_tile: int | None = None

    def decoded(
        self, hidden: HiddenSamples, noised: NoisedSamples, samples: SampleSlots, *, zero_prediction: bool = False
    ) -> tuple[dict[str, jax.Array], Velocities]:
        """Losses and metrics of every sample, float32[R, S] each, 0 for empty slots; and what the heads predict.

        Keys: loss, video_loss, action_loss, latent_mse, action_mse; with `zero_prediction` also zero_loss,
        zero_video_loss and zero_action_loss, the same losses of predicting a velocity of zero. What is predicted behind
        a sample's own frames means nothing.
        """
        xs = jax.tree.map(lambda array: jnp.moveaxis(array, 1, 0), (hidden, noised, _decoded_fields(samples)))
        outputs = tracing.mapped(lambda x: self._sample(*x, zero_prediction=zero_prediction), xs)
        losses, velocities = jax.tree.map(lambda array: jnp.moveaxis(array, 0, 1), outputs)
        return {name: tag(value, f"decode.{name}") for name, value in losses.items()}, velocities

    def denoised_video(self, hidden: HiddenSamples, noised: NoisedSamples) -> jax.Array:
        """Denoised estimates x_t - sigma v of the noisy video copies: float32[R, S, T, C, H, W]."""

        def one(x: tuple[HiddenStream, NoisedStream]) -> jax.Array:
            stream, noisy = x
            return _denoise(_noisy(noisy), self.video_head(stream.hidden, stream.conditioning))

        xs = jax.tree.map(lambda array: jnp.moveaxis(array, 1, 0), (hidden.video, noised.video))
        return jnp.moveaxis(jax.lax.map(one, xs), 0, 1)

    def _sample(
        self,
        hidden: HiddenSamples,
        noised: NoisedSamples,
        fields: dict[str, jax.Array],
        *,
        zero_prediction: bool,
    ) -> tuple[dict[str, jax.Array], Velocities]:
        """One slot of every row; arrays lack the slot axis."""
        video = self.video_head(hidden.video.hidden, hidden.video.conditioning)
        action = self.action_head(hidden.action.hidden, hidden.action.conditioning)
        video = tag(video, "decode.video_velocity", stream="video_samples")
        action = tag(action, "decode.action_velocity", stream="action_samples")
        of_video = functools.partial(_video_terms, zero_prediction=zero_prediction)
        of_action = functools.partial(_action_terms, zero_prediction=zero_prediction)
        video_inputs = (noised.video.weight, _noisy(noised.video), video, fields["video_latents"], fields["video_mask"])
        action_inputs = (noised.action.weight, _noisy(noised.action), action, fields["actions"], fields["action_mask"])
        terms = [
            (per_frame(of_video, *video_inputs, tile=self.video_tile), self.video_tile),
            (per_frame(of_action, *action_inputs, tile=self.action_tile), self.action_tile),
        ]
        sums = {name: sum_over_frames(term, tile=tile) for part, tile in terms for name, term in part.items()}
        sums["slots"] = fields["num_slots"].astype(jnp.float32)
        weights = {"latent_weight": self.latent_loss_weight, "action_weight": self.action_loss_weight}
        of_sums = functools.partial(losses_of, **weights)
        if self.video_tile is None:
            return of_sums(sums), (video, action)
        losses = per_frame(of_sums, jax.tree.map(lambda total: total[:, None], sums), tile=1)
        return jax.tree.map(lambda loss: loss[:, 0], losses), (video, action)


def _video_terms(
    weight: jax.Array,
    noised: NoisedStream,
    velocity: jax.Array,
    latents: jax.Array,
    mask: jax.Array,
    *,
    zero_prediction: bool,
) -> Terms:
    """What each frame contributes to the losses of the video; arrays are [..., frames, ...]."""
    terms = {
        "video": video_terms(velocity, noised.target, weight, mask),
        "latent_error": video_terms(_denoise(noised, velocity), latents, jnp.ones_like(weight), mask),
        "frames": mask.astype(jnp.float32),
    }
    if zero_prediction:
        terms["zero_video"] = video_terms(jnp.zeros_like(velocity), noised.target, weight, mask)
    return terms


def _action_terms(
    weight: jax.Array,
    noised: NoisedStream,
    velocity: jax.Array,
    actions: jax.Array,
    mask: jax.Array,
    *,
    zero_prediction: bool,
) -> Terms:
    """What each frame contributes to the losses of the actions; arrays are [..., frames, ...]."""
    terms = {
        "action": action_terms(velocity, noised.target, weight, mask),
        "action_error": action_error_terms(_denoise(noised, velocity), actions, mask),
        "entries": mask.sum((-2, -1)),
    }
    if zero_prediction:
        terms["zero_action"] = action_terms(jnp.zeros_like(velocity), noised.target, weight, mask)
    return terms


def _noisy(noised: NoisedStream) -> NoisedStream:
    """A stream [R, ...] without its clean copy, every array [R, frames, ...]."""
    noisy = functools.partial(jax.lax.index_in_dim, index=0, axis=1, keepdims=False)
    return dataclasses.replace(noised, copies=noisy(noised.copies), timesteps=noisy(noised.timesteps))


def _decoded_fields(samples: SampleSlots) -> dict[str, jax.Array]:
    """What decoding reads of the samples, with the masks of each sample's objective over its own frames only."""
    video_frames, action_frames = dataset_frames(samples)
    count = samples.num_frames[..., None]
    inverse = (samples.objective == INVERSE_DYNAMICS)[..., None]
    forward = (samples.objective == FORWARD_DYNAMICS)[..., None]
    own_action = (action_frames < count) & ~forward
    return {
        "video_latents": samples.video_latents,
        "video_mask": samples.video_loss_mask & (video_frames >= 0) & (video_frames < count) & ~inverse,
        "actions": samples.actions,
        "action_mask": jnp.where(own_action[..., None, None], samples.action_mask, 0.0),
        "num_slots": samples.num_frames * samples.actions.shape[3],
    }


def _denoise(noised: NoisedStream, velocity: jax.Array) -> jax.Array:
    """The estimate from a stream without its clean copy."""
    sigma = noised.sigma.reshape(noised.sigma.shape + (1,) * (velocity.ndim - noised.sigma.ndim))
    return noised.copies - sigma * velocity.astype(jnp.promote_types(velocity.dtype, jnp.float32))
