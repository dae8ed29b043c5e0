"""The parts every other part is made of: linear layers of the model's dtypes, the two-layer perceptron, LayerNorm.

Kernels are `[in, out]` and drawn from a truncated normal of standard deviation 1 / sqrt(in), biases are zero; nothing
but the encoders of proprioception starts at zero (the output heads do not).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from wam_jax.model.config import ModelConfig


def linear(config: ModelConfig, in_features: int, out_features: int, *, rngs: nnx.Rngs) -> nnx.Linear:
    """A linear layer with bias that computes in `config.dtype` whatever dtype it is given."""
    return nnx.Linear(in_features, out_features, dtype=config.dtype, param_dtype=config.param_dtype, rngs=rngs)


def zero_linear(config: ModelConfig, in_features: int, out_features: int, *, rngs: nnx.Rngs) -> nnx.Linear:
    """A linear layer that gives zeros until it is trained."""
    return nnx.Linear(
        in_features,
        out_features,
        dtype=config.dtype,
        param_dtype=config.param_dtype,
        kernel_init=nnx.initializers.zeros,
        rngs=rngs,
    )


def gelu(x: jax.Array) -> jax.Array:
    """GELU in its tanh form."""
    return jax.nn.gelu(x, approximate=True)


class Mlp(nnx.Module):
    """Linear, activation, Linear."""

    def __init__(
        self,
        config: ModelConfig,
        features: tuple[int, int, int],
        *,
        activation: Callable[[jax.Array], jax.Array],
        rngs: nnx.Rngs,
    ) -> None:
        """Args: features: sizes of the input, the hidden layer and the output."""
        self.hidden = linear(config, features[0], features[1], rngs=rngs)
        self.output = linear(config, features[1], features[2], rngs=rngs)
        self.activation = activation

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., in] to [..., out]."""
        return self.output(self.activation(self.hidden(x)))


def layer_norm(x: jax.Array, config: ModelConfig) -> jax.Array:
    """LayerNorm without parameters over the last axis, in and to `config.wide_dtype`.

    The variance is the mean of squared deviations; the difference of moments, which libraries default to, loses digits.
    """
    wide = x.astype(config.wide_dtype)
    return jax.nn.standardize(wide, variance=jnp.var(wide, axis=-1, keepdims=True), epsilon=config.eps)


def affine_layer_norm(config: ModelConfig, width: int, *, rngs: nnx.Rngs) -> nnx.LayerNorm:
    """LayerNorm with scale and bias, in and to `config.wide_dtype`."""
    return nnx.LayerNorm(
        width,
        epsilon=config.eps,
        dtype=config.wide_dtype,
        param_dtype=config.param_dtype,
        use_fast_variance=False,
        rngs=rngs,
    )
