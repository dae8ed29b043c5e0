"""Range attention over a dense mask, in plain jnp: the slow form that is right by inspection.

    s_ij = <q_i, k_j> / sqrt(head_dim)              where query i sees key j
    p_ij = exp(s_ij - lse_i),   lse_i = log sum_j exp(s_ij)
    o_i  = sum_j p_ij v_j                           0 where a query sees no key

Scores, softmax and sums are in float32, or in float64 for float64 inputs. Gradients are JAX's own derivative of these
lines, so that they owe nothing to the backward passes they are compared with. Memory grows with
rows x heads x queries x keys.
"""

import dataclasses
from typing import ClassVar, Self

import jax
import jax.numpy as jnp

from wam_kernels.backend import Mask, Problem, TileSize, accumulator
from wam_kernels.target import Target
from wam_kernels.vjp import MASKED


@dataclasses.dataclass(frozen=True)
class Reference:
    """The backend: dense, without tiles."""

    name: ClassVar[str] = "reference"

    def refusal(self, problem: Problem, target: Target) -> str | None:
        """Never refuses."""
        del problem, target

    def resolve(self, problem: Problem, target: Target, given: tuple[TileSize, ...]) -> Self:
        """Has nothing to settle."""
        del problem, target, given
        return self

    def tile_sizes(self) -> tuple[TileSize, ...]:
        """None: it reads no lists."""
        return ()

    def attend(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """Output `[rows, query_tokens, heads, head_dim]`, natural `lse[rows, heads, query_tokens]` (-inf: no key)."""
        out_dtype, wide = q.dtype, accumulator(q.dtype)
        q, k, v = (x.astype(wide) for x in (q, k, v))
        visible = visible_pairs(mask, k.shape[1])[:, None]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, precision="highest") * q.shape[-1] ** -0.5
        scores = jnp.where(visible, scores, MASKED)
        peak = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
        weights = jnp.where(visible, jnp.exp(scores - peak), 0.0)
        total = weights.sum(-1, keepdims=True)
        seen = total > 0
        total = jnp.where(seen, total, 1.0)
        out = jnp.einsum("bhqk,bkhd->bqhd", weights / total, v, precision="highest")
        lse = jnp.where(seen, jnp.log(total) + peak, -jnp.inf)
        return out.astype(out_dtype), lse[..., 0]


def visible_pairs(mask: Mask, key_tokens: int) -> jax.Array:
    """`bool[rows, query_tokens, key_tokens]`: may this query attend this key?"""
    first, last = (mask.ranges[:, :, side, :, None] for side in range(2))
    position = jnp.arange(key_tokens)
    inside = ((first <= position) & (position < last)).any(1)
    return inside if mask.key_valid is None else inside & mask.key_valid[:, None, :]
