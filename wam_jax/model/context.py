"""The text keys of a row before either expert projects them: `[text | proprio tokens | mode tokens]`."""

import jax
import jax.numpy as jnp
from flax import nnx

from wam_jax.model.config import ModelConfig
from wam_jax.model.inputs import RowTokens
from wam_jax.model.layers import zero_linear
from wam_jax.model.segments import framewise
from wam_jax.sequence.objectives import Objective

MODE_STD = 0.02


class ModeTokens(nnx.Module):
    """A learned vector for each objective, drawn from a normal of standard deviation 0.02."""

    def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs) -> None:
        draw = jax.random.normal(rngs.params(), (len(Objective), config.text_dim), jnp.float32) * MODE_STD
        self.table = nnx.Param(draw.astype(config.param_dtype))

    def __call__(self, objective: jax.Array) -> jax.Array:
        """int32[R, S] to [R, S, text_dim]."""
        return self.table[...][objective]


class TextContext(nnx.Module):
    """Puts the raw text keys together; holds the encoders that the configuration asks for."""

    def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs) -> None:
        self.config = config
        encodes = config.proprio == "text_context_token"
        self.proprio_encoder = zero_linear(config, config.state_dim, config.text_dim, rngs=rngs) if encodes else None
        self.mode = ModeTokens(config, rngs=rngs) if config.mode_token else None

    def __call__(self, tokens: RowTokens) -> jax.Array:
        """The row's raw text keys, [R, K, text_dim] in the compute dtype."""
        parts = [tokens.text]
        if self.proprio_encoder is not None and tokens.proprio_keys is not None:
            encoder = self.proprio_encoder
            parts.append(
                framewise(lambda encoder, x: encoder(x), encoder, tokens.proprio_keys, tokens=1, config=self.config)
            )
        if self.mode is not None:
            parts.append(_spread(self.mode(tokens.objective), self.config.tile or 1))
        return jnp.concatenate([part.astype(self.config.dtype) for part in parts], axis=1)


def _spread(keys: jax.Array, stride: int) -> jax.Array:
    """[R, S, width] to [R, S * stride, width], each key followed by zeros up to the next multiple."""
    rows, slots, width = keys.shape
    return jnp.pad(keys[:, :, None], [(0, 0), (0, 0), (0, stride - 1), (0, 0)]).reshape(rows, slots * stride, width)
