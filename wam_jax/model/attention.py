"""One expert's attention layer, and the one place that calls the range-attention kernel.

Queries and keys pass an RMS norm over the whole inner width, all heads jointly, before they are split into heads.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from wam_jax.model.config import ModelConfig
from wam_jax.model.layers import linear
from wam_kernels import KeyRanges, TileLists, range_attention


class Attention(nnx.Module):
    """The projections of an attention layer; the softmax itself may be shared with another expert."""

    def __init__(self, config: ModelConfig, width: int, *, rngs: nnx.Rngs) -> None:
        self.config = config
        inner = config.inner_width
        self.query = linear(config, width, inner, rngs=rngs)
        self.key = linear(config, width, inner, rngs=rngs)
        self.value = linear(config, width, inner, rngs=rngs)
        self.output = linear(config, inner, width, rngs=rngs)
        self.query_norm = _inner_norm(config, rngs=rngs)
        self.key_norm = _inner_norm(config, rngs=rngs)

    def queries(self, x: jax.Array) -> jax.Array:
        """[..., width] to [..., heads, head_dim]."""
        return self._heads(self.query_norm(self.query(x)))

    def keys(self, x: jax.Array) -> jax.Array:
        """[..., width] to [..., heads, head_dim]."""
        return self._heads(self.key_norm(self.key(x)))

    def values(self, x: jax.Array) -> jax.Array:
        """[..., width] to [..., heads, head_dim]."""
        return self._heads(self.value(x))

    def project(self, attended: jax.Array) -> jax.Array:
        """[..., heads, head_dim] to [..., width]."""
        return self.output(attended.reshape(*attended.shape[:-2], self.config.inner_width))

    def _heads(self, x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:-1], self.config.num_heads, self.config.head_dim)


def _inner_norm(config: ModelConfig, *, rngs: nnx.Rngs) -> nnx.RMSNorm:
    return nnx.RMSNorm(
        config.inner_width, epsilon=config.eps, dtype=config.dtype, param_dtype=config.param_dtype, rngs=rngs
    )


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """Which keys each token of the rows reads, the same in every layer.

    Attributes:
        ranges: key ranges by run.
        key_valid: bool[R, keys], keys that may be read at all, or None for all.
        tiles: lists of the tiles that the backend has to visit. None: a layer whose backend needs some lists them.
    """

    ranges: KeyRanges
    key_valid: jax.Array | None
    tiles: tuple[TileLists, ...]


def attend(q: jax.Array, k: jax.Array, v: jax.Array, visible: Visibility, config: ModelConfig) -> jax.Array:
    """Attention of tokens q over the keys that are visible to them: [R, tokens, heads, head_dim].

    A query that sees no key gets zeros, also where there are no keys at all.
    """
    if k.shape[1] == 0:
        return jnp.zeros_like(q)
    return range_attention(
        q,
        k,
        v,
        visible.ranges,
        key_valid=visible.key_valid,
        tiles=visible.tiles or None,
        implementation=_implementation(config),
    )


def _implementation(config: ModelConfig) -> Any:
    return None if config.attention == "auto" else config.attention
