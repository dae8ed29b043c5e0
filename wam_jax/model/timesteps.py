"""From a frame's timestep to its embedding and its six modulation vectors."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from wam_jax.model.config import ModelConfig
from wam_jax.model.layers import Mlp, linear

MAX_PERIOD = 10000.0


def sinusoid(timesteps: jax.Array, size: int, *, config: ModelConfig) -> jax.Array:
    """Cosines, then sines, of timesteps [...] in [0, num_timesteps] (not divided): wide dtype [..., size].

    Frequencies are `exp(-ln(10000) k / (size / 2))`, built in float64 and rounded once.
    """
    half = size // 2
    frequencies = np.exp(-np.log(MAX_PERIOD) * np.arange(half) / half)
    angles = timesteps.astype(config.wide_dtype)[..., None] * jnp.asarray(frequencies, config.wide_dtype)
    return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)


class TimeEmbedding(nnx.Module):
    """Sinusoid, two-layer SiLU perceptron, and the linear layer that makes six modulation vectors of it."""

    def __init__(self, config: ModelConfig, width: int, *, rngs: nnx.Rngs) -> None:
        self.config = config
        self.mlp = Mlp(config, (config.freq_dim, width, width), activation=jax.nn.silu, rngs=rngs)
        self.modulation = linear(config, width, 6 * width, rngs=rngs)

    def __call__(self, timesteps: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Timesteps [R, frames] to the raw embedding [R, frames, width] and the vectors [R, frames, 6, width]."""
        embedding = self.mlp(sinusoid(timesteps, self.config.freq_dim, config=self.config))
        vectors = self.modulation(jax.nn.silu(embedding))
        return embedding, vectors.reshape(*embedding.shape[:-1], 6, embedding.shape[-1])
