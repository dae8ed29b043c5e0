"""The per-sample decoder: heads, denoised estimates, losses and metrics of each sample by itself.

Samples of a row are decoded one after the other (`jax.lax.map` over the slots, never a vmap), each through the same
program at the static size of a slot, so that decoding cannot depend on neighbours. The row axis is a batch axis of
the same slot on different devices.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from wam_jax import tracing
from wam_jax.data.transport import SampleSlots
from wam_jax.decode.losses import action_loss, action_mse, masked_error, video_loss
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
    """

    video_head: Head
    action_head: Head
    latent_loss_weight: float = 1.0
    action_loss_weight: float = 1.0

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
            return _denoise(noisy, self.video_head(stream.hidden, stream.conditioning))

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
        losses = self._weighted(video, action, noised, fields)
        frame_mask, action_mask = fields["video_mask"], fields["action_mask"]
        error = masked_error(_denoise(noised.video, video), fields["video_latents"], frame_mask[..., None, None, None])
        losses["latent_mse"] = video_loss(error, jnp.ones_like(noised.video.weight), frame_mask)
        error = masked_error(_denoise(noised.action, action), fields["actions"], action_mask)
        losses["action_mse"] = action_mse(error, action_mask)
        if zero_prediction:
            zero = self._weighted(jnp.zeros_like(video), jnp.zeros_like(action), noised, fields)
            losses |= {f"zero_{name}": value for name, value in zero.items()}
        return losses, (video, action)

    def _weighted(
        self, video: jax.Array, action: jax.Array, noised: NoisedSamples, fields: dict[str, jax.Array]
    ) -> dict[str, jax.Array]:
        frame_mask, mask = fields["video_mask"], fields["action_mask"]
        error = masked_error(video, noised.video.target, frame_mask[..., None, None, None])
        l_v = video_loss(error, noised.video.weight, frame_mask)
        error = masked_error(action, noised.action.target, mask)
        l_a = action_loss(error, noised.action.weight, mask, fields["num_slots"])
        total = self.action_loss_weight * l_a + self.latent_loss_weight * l_v
        return {"loss": total, "video_loss": l_v, "action_loss": l_a}


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
    noisy = jax.lax.index_in_dim(noised.copies, 0, axis=1, keepdims=False)
    sigma = noised.sigma.reshape(noised.sigma.shape + (1,) * (noisy.ndim - noised.sigma.ndim))
    return noisy - sigma * velocity.astype(jnp.float32)
