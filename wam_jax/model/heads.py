"""The output heads: a modulated norm and one linear layer, on tokens of any leading axes."""

import jax
from flax import nnx

from wam_jax.model.config import ModelConfig
from wam_jax.model.layers import linear
from wam_jax.model.modulation import ModulationTable, modulated_norm


class ModulatedHead(nnx.Module):
    """`Linear(LN(x) * (1 + scale) + shift)` with shift and scale from a table plus the frame's vectors.

    The video head is given the raw time embedding, one vector for both; the action head two of the modulation vectors.
    """

    def __init__(self, config: ModelConfig, width: int, token_dim: int, *, rngs: nnx.Rngs) -> None:
        self.config = config
        self.modulation = ModulationTable(config, 2, width, rngs=rngs)
        self.projection = linear(config, width, token_dim, rngs=rngs)

    def __call__(self, hidden: jax.Array, vectors: jax.Array) -> jax.Array:
        """Hidden [..., tokens, width] and vectors [..., 1 or 2, width] to the wide dtype [..., tokens, token_dim].

        Shift and scale are formed in the compute dtype, then applied to a norm in the wide one.
        """
        shift, scale = self.modulation(vectors, dtype=self.config.dtype)
        normed = modulated_norm(hidden.astype(self.config.dtype), shift, scale, self.config)
        return self.projection(normed).astype(self.config.wide_dtype)
