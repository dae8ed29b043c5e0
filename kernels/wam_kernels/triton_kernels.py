"""The bodies of the Triton kernels: forward, dQ and dK/dV of one tile of queries or keys, for one head of one row.

Each walks its line of the tile lists, partial tiles with the mask, then full tiles without it. K and V (or Q and dO)
are read straight from global memory at the listed tiles. Scores live in base 2, so that one multiplication by `scale2
= log2(e) / sqrt(head_dim)` serves both the scaling and `exp2`.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from wam_kernels.operands import MaskOperands
from wam_kernels.vjp import LEAST_PEAK, LOG2E, MASKED

type Ref = Any
"""A Pallas reference, which has no public type."""

type Carry = tuple[jax.Array, ...]


def forward_kernel(
    mask: MaskOperands,
    q_ref: Ref,
    k_ref: Ref,
    v_ref: Ref,
    o_ref: Ref,
    lse_ref: Ref,
    *,
    size: tuple[int, int],
    scale2: float,
) -> None:
    """Output and base-2 lse (+inf: no key) of a tile of queries, by online softmax."""
    query_tile, key_tile = size
    line = pl.program_id(0)
    q = q_ref[...]
    ends = _range_ends(mask, line * query_tile, query_tile, across=False)

    def visit(at: jax.Array, carry: Carry, *, masked: bool) -> Carry:
        acc, peak, total = carry
        start = mask.across[at] * key_tile
        keys = pl.ds(start, key_tile)
        scores = _dot(q, k_ref[keys, :], (1, 1)) * scale2
        if masked:
            scores = jnp.where(_visible(ends, mask, start, key_tile, across=True), scores, MASKED)
        new_peak = jnp.maximum(peak, scores.max(1))
        p = jnp.exp2(scores - new_peak[:, None])
        shrink = jnp.exp2(peak - new_peak)
        v = v_ref[keys, :]
        acc = acc * shrink[:, None] + _dot(p.astype(v.dtype), v, (1, 0))
        return acc, new_peak, total * shrink + p.sum(1)

    zero = jnp.zeros((query_tile,), jnp.float32)
    acc, peak, total = _visit_line(mask, line, visit, (jnp.zeros(q.shape, jnp.float32), zero + LEAST_PEAK, zero))
    seen = total > 0
    total = jnp.where(seen, total, 1.0)
    o_ref[...] = (acc / total[:, None]).astype(o_ref.dtype)
    lse_ref[...] = jnp.where(seen, peak + jnp.log2(total), jnp.inf)


def dq_kernel(
    mask: MaskOperands,
    q_ref: Ref,
    k_ref: Ref,
    v_ref: Ref,
    do_ref: Ref,
    lse_ref: Ref,
    delta_ref: Ref,
    dq_ref: Ref,
    *,
    size: tuple[int, int],
    scale2: float,
) -> None:
    """dQ of a tile of queries."""
    query_tile, key_tile = size
    line = pl.program_id(0)
    q, do, lse2, delta = q_ref[...], do_ref[...], lse_ref[...], delta_ref[...]
    ends = _range_ends(mask, line * query_tile, query_tile, across=False)

    def visit(at: jax.Array, carry: Carry, *, masked: bool) -> Carry:
        start = mask.across[at] * key_tile
        keys = pl.ds(start, key_tile)
        k = k_ref[keys, :]
        scores = _dot(q, k, (1, 1)) * scale2
        if masked:
            scores = jnp.where(_visible(ends, mask, start, key_tile, across=True), scores, MASKED)
        p = jnp.exp2(scores - lse2[:, None])
        ds = p * (_dot(do, v_ref[keys, :], (1, 1)) - delta[:, None])
        return (carry[0] + _dot(ds.astype(k.dtype), k, (1, 0)),)

    (dq,) = _visit_line(mask, line, visit, (jnp.zeros(q.shape, jnp.float32),))
    dq_ref[...] = (dq * (scale2 / LOG2E)).astype(dq_ref.dtype)


def dkv_kernel(
    mask: MaskOperands,
    q_ref: Ref,
    k_ref: Ref,
    v_ref: Ref,
    do_ref: Ref,
    lse_ref: Ref,
    delta_ref: Ref,
    dk_ref: Ref,
    dv_ref: Ref,
    *,
    size: tuple[int, int],
    scale2: float,
) -> None:
    """dK and dV of a tile of keys. Scores are held transposed: keys down, queries across."""
    query_tile, key_tile = size
    line = pl.program_id(0)
    k, v = k_ref[...], v_ref[...]

    def visit(at: jax.Array, carry: Carry, *, masked: bool) -> Carry:
        dk, dv = carry
        start = mask.across[at] * query_tile
        queries = pl.ds(start, query_tile)
        q, do = q_ref[queries, :], do_ref[queries, :]
        scores = _dot(k, q, (1, 1)) * scale2
        if masked:
            ends = _range_ends(mask, start, query_tile, across=True)
            scores = jnp.where(_visible(ends, mask, line * key_tile, key_tile, across=False), scores, MASKED)
        p = jnp.exp2(scores - lse_ref[queries][None, :])
        dv = dv + _dot(p.astype(do.dtype), do, (1, 0))
        ds = p * (_dot(v, do, (1, 1)) - delta_ref[queries][None, :])
        return dk + _dot(ds.astype(q.dtype), q, (1, 0)), dv

    zero = jnp.zeros(k.shape, jnp.float32)
    dk, dv = _visit_line(mask, line, visit, (zero, zero))
    dk_ref[...] = (dk * (scale2 / LOG2E)).astype(dk_ref.dtype)
    dv_ref[...] = dv.astype(dv_ref.dtype)


def _visit_line(mask: MaskOperands, line: jax.Array, visit: Callable[..., Carry], carry: Carry) -> Carry:
    """Visits the line's partial tiles, then its full ones."""
    start, full, end = (mask.bounds[line, i] for i in range(3))
    carry = lax.fori_loop(start, full, functools.partial(visit, masked=True), carry)
    return lax.fori_loop(full, end, functools.partial(visit, masked=False), carry)


def _range_ends(mask: MaskOperands, start: jax.Array, size: int, *, across: bool) -> list[tuple[jax.Array, jax.Array]]:
    """First and last of each range of a tile of queries, laid along the columns (`across`) or down the lines."""
    queries = pl.ds(start, size)
    count = mask.ranges.shape[0]
    return [
        (_lay(mask.ranges[r, 0, queries], across=across), _lay(mask.ranges[r, 1, queries], across=across))
        for r in range(count)
    ]


def _visible(
    ends: list[tuple[jax.Array, jax.Array]], mask: MaskOperands, start: jax.Array, size: int, *, across: bool
) -> jax.Array:
    """Which pairs of a tile are visible; its keys begin at `start` and lie along the columns (`across`) or down."""
    position = _lay(start + jnp.arange(size, dtype=jnp.int32), across=across)
    inside = functools.reduce(jnp.logical_or, [(first <= position) & (position < last) for first, last in ends])
    if mask.key_valid is None:
        return inside
    return inside & (_lay(mask.key_valid[pl.ds(start, size)], across=across) != 0)


def _lay(x: jax.Array, *, across: bool) -> jax.Array:
    return x[None, :] if across else x[:, None]


def _dot(a: jax.Array, b: jax.Array, contract: tuple[int, int]) -> jax.Array:
    """A product summed in float32. Float32 operands are multiplied as such, never rounded to tf32."""
    precision = lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
    dims = (((contract[0],), (contract[1],)), ((), ()))
    return lax.dot_general(a, b, dims, precision=precision, preferred_element_type=jnp.float32)
