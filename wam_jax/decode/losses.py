"""Losses and metrics of one sample, each normalised by that sample alone. Squared errors are float32.

    L_v = sum(w m err^2) / (max(1, sum m) C H W)        over frames, m in {0, 1} a frame
    L_a = mean over slots of [ sum_d w m err^2 / max(1, sum_d m) ]        fully masked slots count as zeros
    loss = action weight * L_a + latent weight * L_v
    latent_mse, action_mse: the same errors between denoised estimate and data, without w;
    action_mse = sum(m err^2) / max(1, sum m)

Rows are a batch axis of independent samples: nothing here sums over it. Entries outside the sample's own frames are
replaced before they are squared, so that whatever padding holds reaches neither a loss nor a gradient.
"""

import jax
import jax.numpy as jnp


def masked_error(prediction: jax.Array, target: jax.Array, mask: jax.Array) -> jax.Array:
    """prediction - target where the mask is set, 0 elsewhere, whatever lies there; float32 (float64 in an oracle)."""
    wide = jnp.promote_types(prediction.dtype, jnp.float32)
    difference = prediction.astype(wide) - target.astype(wide)
    return jnp.where(mask > 0, difference, 0.0)


def video_loss(error: jax.Array, weight: jax.Array, mask: jax.Array) -> jax.Array:
    """L_v: error float32[R, T, C, H, W], weight float32[R, T], mask bool[R, T] to float32[R]."""
    per_frame = jnp.mean(jnp.square(error), axis=(-3, -2, -1))
    return jnp.sum(jnp.where(mask, weight * per_frame, 0.0), -1) / jnp.maximum(1.0, jnp.sum(mask, -1))


def action_loss(error: jax.Array, weight: jax.Array, mask: jax.Array, num_slots: jax.Array) -> jax.Array:
    """L_a: error and mask float32[R, F, A, D], weight float32[R, F], num_slots int32[R] to float32[R]."""
    total = jnp.sum(mask * jnp.square(error), -1) / jnp.maximum(1.0, jnp.sum(mask, -1))
    return jnp.sum(weight[..., None] * total, (-2, -1)) / jnp.maximum(1, num_slots)


def action_mse(error: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean squared error over the unmasked entries: float32[R, F, A, D] twice to float32[R]."""
    axes = (-3, -2, -1)
    return jnp.sum(mask * jnp.square(error), axes) / jnp.maximum(1.0, jnp.sum(mask, axes))
