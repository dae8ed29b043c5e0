"""The derivative that all tile-list backends share.

With s the natural scores, p the probabilities and lse the natural logarithm of each row's sum, for cotangents `do` of
the output and `dlse` of lse:

    dv_j  = sum_i p_ij do_i
    ds_ij = p_ij (<do_i, v_j> - delta_i),    delta_i = <do_i, o_i> - dlse_i
    dq_i  = sum_j ds_ij k_j / sqrt(head_dim),    dk_j = sum_i ds_ij q_i / sqrt(head_dim)

Backends see the base-2 lse, with +inf for a row without keys: `2 ** (score - inf)` is zero, so such a row vanishes from
every sum.
"""

import functools
import math
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from wam_kernels.backend import Mask, accumulator

LOG2E = math.log2(math.e)
MASKED, LEAST_PEAK = -1e30, -5e29
"""The score of an invisible pair, and where an online softmax starts its running maximum.

Both are finite, so that a row without keys makes no NaN on its way to zero. With the maximum never below `LEAST_PEAK`
the probability of an invisible pair is `exp2(MASKED - LEAST_PEAK) = 0` in every row: masking the scores is enough.
"""


class Upstream(NamedTuple):
    """What the backward pass of a backend is handed beside its operands.

    Attributes:
        out: the output, `[rows, query_tokens, heads, head_dim]`.
        do: its cotangent.
        lse2: base-2 lse, `[rows, heads, query_tokens]`, +inf for a row without keys.
        dlse: the cotangent of the natural lse.
    """

    out: jax.Array
    do: jax.Array
    lse2: jax.Array
    dlse: jax.Array

    def delta(self) -> jax.Array:
        """`<do_i, o_i> - dlse_i`: `[rows, heads, query_tokens]`."""
        wide = accumulator(self.out.dtype)
        products = jnp.einsum("bqhd,bqhd->bhq", self.out.astype(wide), self.do.astype(wide), precision="highest")
        return products - self.dlse


class Kernels(Protocol):
    """Forward and backward of a backend, without the derivative rule around them. Hashable."""

    def forward(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """Output like q, and base-2 lse `[rows, heads, query_tokens]`, +inf for a row without keys."""
        ...

    def backward(
        self,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        mask: Mask,
        upstream: Upstream,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """dq, dk and dv, shaped and typed like q, k and v."""
        ...


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend_with_kernels(
    kernels: Kernels, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask
) -> tuple[jax.Array, jax.Array]:
    """Output and natural lse (-inf: no key).

    Residuals are named for remat policies: `range_attention_out`, `range_attention_lse`.
    """
    out, lse2 = kernels.forward(q, k, v, mask)
    return out, jnp.where(jnp.isposinf(lse2), -jnp.inf, lse2 / LOG2E)


type _Saved = tuple[jax.Array, jax.Array, jax.Array, Mask, jax.Array, jax.Array]


def _forward(
    kernels: Kernels, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask
) -> tuple[tuple[jax.Array, jax.Array], _Saved]:
    out, lse2 = kernels.forward(q, k, v, mask)
    out, lse2 = checkpoint_name(out, "range_attention_out"), checkpoint_name(lse2, "range_attention_lse")
    return (out, jnp.where(jnp.isposinf(lse2), -jnp.inf, lse2 / LOG2E)), (q, k, v, mask, out, lse2)


def _backward(
    kernels: Kernels, saved: _Saved, cotangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array, jax.Array, None]:
    q, k, v, mask, out, lse2 = saved
    do, dlse = cotangents
    return *kernels.backward(q, k, v, mask, Upstream(out, do, lse2, dlse)), None


attend_with_kernels.defvjp(_forward, _backward)
