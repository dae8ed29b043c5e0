"""How a timestep steers the blocks and heads: shift, scale and gate vectors, one set a frame.

A learned table `[count, width]` plus the frame's vectors from the time embedding gives `count` vectors a frame. They
stay per frame, `[..., frames, 1, width]`, and broadcast over the frame's tokens where they are used, so that no array
of six vectors a token ever exists. LayerNorm, modulation and gated additions are in the wide dtype and rounded once.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from wam_jax.model.config import DType, ModelConfig
from wam_jax.model.layers import layer_norm


class ModulationTable(nnx.Module):
    """A learned table of `count` vectors, drawn from a normal of standard deviation 1 / sqrt(width)."""

    def __init__(self, config: ModelConfig, count: int, width: int, *, rngs: nnx.Rngs) -> None:
        draw = jax.random.normal(rngs.params(), (count, width), jnp.float32) * width**-0.5
        self.table = nnx.Param(draw.astype(config.param_dtype))

    def __call__(self, vectors: jax.Array, *, dtype: DType) -> tuple[jax.Array, ...]:
        """Adds the frames' vectors [..., frames, count or 1, width]; gives `count` arrays [..., frames, 1, width]."""
        total = self.table[...].astype(dtype) + vectors.astype(dtype)
        return tuple(jnp.split(total, total.shape[-2], axis=-2))


def modulated_norm(x: jax.Array, shift: jax.Array, scale: jax.Array, config: ModelConfig) -> jax.Array:
    """`LN(x) * (1 + scale) + shift` for x [..., frames, tokens, width], in the wide dtype, returned in x's dtype."""
    shift, scale = shift.astype(config.wide_dtype), scale.astype(config.wide_dtype)
    return (layer_norm(x, config) * (1 + scale) + shift).astype(x.dtype)


def gated_residual(x: jax.Array, update: jax.Array, gate: jax.Array) -> jax.Array:
    """`x + update * gate` in the gate's dtype (the wide one), returned in x's dtype."""
    return (x.astype(gate.dtype) + update.astype(gate.dtype) * gate).astype(x.dtype)
