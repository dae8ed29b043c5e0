"""Range attention over a dense mask, in plain jnp: the slow form that is right by inspection.

    s_ij = <q_i, k_j> / sqrt(head_dim)              where query i sees key j
    p_ij = exp(s_ij - lse_i),   lse_i = log sum_j exp(s_ij)
    o_i  = sum_j p_ij v_j                           0 where a query sees no key

Scores, softmax and sums are in float32, or in float64 for float64 inputs. Gradients are JAX's own derivative of these
lines, so that they owe nothing to the backward passes they are compared with. Memory grows with
rows x heads x queries x keys.
"""

import jax
import jax.numpy as jnp

from wam_kernels.ranges import Array, Ranges, ranges_by_query

_MASKED = -1e30


def visible_pairs(ranges: Ranges, key_tokens: int, key_valid: Array | None = None) -> jax.Array:
    """`bool[rows, query_tokens, key_tokens]`: may this query attend this key?"""
    bounds = ranges_by_query(ranges)[:, :, None]
    position = jnp.arange(key_tokens)[:, None]
    inside = ((bounds[..., 0] <= position) & (position < bounds[..., 1])).any(-1)
    return inside if key_valid is None else inside & jnp.asarray(key_valid)[:, None, :]


def attend(
    q: jax.Array, k: jax.Array, v: jax.Array, ranges: Ranges, key_valid: Array | None
) -> tuple[jax.Array, jax.Array]:
    """Output `[rows, query_tokens, heads, head_dim]` and natural `lse[rows, heads, query_tokens]` (-inf: no key)."""
    out_dtype, dtype = q.dtype, accumulator(q.dtype)
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    visible = visible_pairs(ranges, k.shape[1], key_valid)[:, None]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, precision="highest") * q.shape[-1] ** -0.5
    scores = jnp.where(visible, scores, _MASKED)
    peak = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
    weights = jnp.where(visible, jnp.exp(scores - peak), 0.0)
    total = weights.sum(-1, keepdims=True)
    seen = total > 0
    total = jnp.where(seen, total, 1.0)
    out = jnp.einsum("bhqk,bkhd->bqhd", weights / total, v, precision="highest")
    lse = jnp.where(seen, jnp.log(total) + peak, -jnp.inf)
    return out.astype(out_dtype), lse[..., 0]


def accumulator(dtype: jnp.dtype) -> jnp.dtype:
    """The dtype of scores and sums: float64 for float64 inputs, float32 for all others."""
    return jnp.promote_types(dtype, jnp.float32)
