"""Losses and metrics of one sample, each normalised by that sample alone. Squared errors are float32.

    L_v = sum(w m err^2) / (max(1, sum m) C H W)        over frames, m in {0, 1} a frame
    L_a = mean over slots of [ sum_d w m err^2 / max(1, sum_d m) ]        fully masked slots count as zeros
    loss = action weight * L_a + latent weight * L_v
    latent_mse, action_mse: the same errors between denoised estimate and data, without w;
    action_mse = sum(m err^2) / max(1, sum m)

Each is a sum over frames of what a frame contributes, divided once. Rows are a batch axis of independent samples:
nothing here sums over it. Entries outside the sample's own frames are replaced before they are squared, so that
whatever padding holds reaches neither a loss nor a gradient.
"""

import jax
import jax.numpy as jnp

type Terms = dict[str, jax.Array]
"""What each frame contributes, [..., frames]; or the sums over frames, [...]."""


def video_terms(velocity: jax.Array, target: jax.Array, weight: jax.Array, mask: jax.Array) -> jax.Array:
    """Of L_v times its number of frames: [..., frames, C, H, W] twice and [..., frames] twice to [..., frames]."""
    error = _masked_error(velocity, target, mask[..., None, None, None])
    return jnp.where(mask, weight * jnp.mean(jnp.square(error), axis=(-3, -2, -1)), 0.0)


def action_terms(velocity: jax.Array, target: jax.Array, weight: jax.Array, mask: jax.Array) -> jax.Array:
    """Of L_a times its number of slots: [..., frames, A, D] three times and weight [..., frames] to [..., frames]."""
    error = _masked_error(velocity, target, mask)
    by_slot = jnp.sum(mask * jnp.square(error), -1) / jnp.maximum(1.0, jnp.sum(mask, -1))
    return weight * jnp.sum(by_slot, -1)


def action_error_terms(denoised: jax.Array, actions: jax.Array, mask: jax.Array) -> jax.Array:
    """Squared errors of unmasked entries: [..., frames, A, D] three times to [..., frames]."""
    return jnp.sum(mask * jnp.square(_masked_error(denoised, actions, mask)), (-2, -1))


def losses_of(sums: Terms, *, latent_weight: float, action_weight: float) -> Terms:
    """The losses of samples from sums over their frames.

    Args:
        sums: `video`, `action`, `latent_error` and `action_error`, the terms above; `frames` and `entries`, those
            that are supervised; `slots`, all of the sample. With `zero_video` and `zero_action` also the losses of
            another prediction, by the names of the first with `zero_` in front.
        latent_weight: of L_v.
        action_weight: of L_a.
    """
    frames, slots = jnp.maximum(1.0, sums["frames"]), jnp.maximum(1.0, sums["slots"])
    losses = {
        "latent_mse": sums["latent_error"] / frames,
        "action_mse": sums["action_error"] / jnp.maximum(1.0, sums["entries"]),
    }
    for prefix in ("", "zero_") if "zero_video" in sums else ("",):
        video, action = sums[f"{prefix}video"] / frames, sums[f"{prefix}action"] / slots
        total = action_weight * action + latent_weight * video
        losses |= {f"{prefix}loss": total, f"{prefix}video_loss": video, f"{prefix}action_loss": action}
    return losses


def _masked_error(prediction: jax.Array, target: jax.Array, mask: jax.Array) -> jax.Array:
    """prediction - target where the mask is set, 0 elsewhere, whatever lies there; float32 (float64 in an oracle)."""
    wide = jnp.promote_types(prediction.dtype, jnp.float32)
    difference = prediction.astype(wide) - target.astype(wide)
    return jnp.where(mask > 0, difference, 0.0)
