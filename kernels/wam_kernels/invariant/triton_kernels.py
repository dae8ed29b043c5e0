"""The bodies of the Triton kernels: products, sums over rows, and blocks of whole rows.

A block computes its part alone, in one order, so there are no atomics, and no block knows how many others there are.
Operands of products come in whole tiles; blocks of rows mask what lies behind the last row and the last column.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

from wam_kernels.invariant import formulas
from wam_kernels.invariant.formulas import Norm

type Ref = Any
"""A Pallas reference, which has no public type."""

WIDE = jnp.float32


def product_kernel(a_ref: Ref, b_ref: Ref, *rest: Ref, inner: int, contract_last: bool) -> None:
    """A tile of a b (`contract_last`: a b^T), plus the bias if `rest` holds one before the output."""
    *bias, out_ref = rest

    def step(i: jax.Array, total: jax.Array) -> jax.Array:
        at = pl.ds(i * inner, inner)
        b = b_ref[:, at] if contract_last else b_ref[at, :]
        return total + formulas.product(a_ref[:, at], b, (1, int(contract_last)))

    total = lax.fori_loop(0, a_ref.shape[1] // inner, step, jnp.zeros(out_ref.shape, WIDE))
    for ref in bias:
        total = total + ref[...].astype(WIDE)[None, :]
    out_ref[...] = total.astype(out_ref.dtype)


def weight_gradient_kernel(a_ref: Ref, upstream_ref: Ref, live_ref: Ref, out_ref: Ref, *, rows: int) -> None:
    """A tile of a^T u, summed over all rows in steps of `rows`; rows that are not live count as zero."""

    def step(i: jax.Array, total: jax.Array) -> jax.Array:
        at = pl.ds(i * rows, rows)
        # The mask is the load's: applied afterwards it would bring the operand into registers, and wgmma would wait.
        a = pltriton.load(a_ref.at[at, :], mask=(live_ref[at] != 0)[:, None], other=0.0)
        return total + formulas.product(a, upstream_ref[at, :], (0, 0))

    out_ref[...] = lax.fori_loop(0, a_ref.shape[0] // rows, step, jnp.zeros(out_ref.shape, WIDE))


def row_sum_kernel(x_ref: Ref, out_ref: Ref, *, rows: int) -> None:
    """The sum of some columns over all rows, in steps of `rows`."""

    def step(i: jax.Array, total: jax.Array) -> jax.Array:
        return total + x_ref[pl.ds(i * rows, rows), :].astype(WIDE).sum(0)

    out_ref[...] = lax.fori_loop(0, x_ref.shape[0] // rows, step, jnp.zeros(out_ref.shape, WIDE))


def normalise_kernel(x_ref: Ref, *rest: Ref, norm: Norm, total_rows: int, given: tuple[bool, bool]) -> None:
    """Normalised rows, times scale and plus bias where `given`."""
    *vectors, out_ref = rest
    block = _Block(x_ref, total_rows, norm.width)
    out, _ = formulas.normalise(block.load(x_ref), norm, block.columns)
    factors = iter(vectors)
    if given[0]:
        out = out * block.load_vector(next(factors))
    if given[1]:
        out = out + block.load_vector(next(factors))
    block.store(out_ref, out)


def normalise_gradient_kernel(x_ref: Ref, upstream_ref: Ref, *rest: Ref, norm: Norm, total_rows: int) -> None:
    """The gradient of rows, and this block's part of the scale's. `rest`: the scale, if there is one; two outputs."""
    *scale, out_ref, part_ref = rest
    block = _Block(x_ref, total_rows, norm.width)
    upstream = block.load(upstream_ref)
    normed, factor = formulas.normalise(block.load(x_ref), norm, block.columns)
    inner = upstream
    for ref in scale:
        inner = upstream * block.load_vector(ref)
    block.store(out_ref, formulas.normalise_gradient(inner, normed, factor, norm, block.columns))
    block.store_vector(part_ref, formulas.of_scale(upstream, normed).sum(0))


def log_softmax_kernel(x_ref: Ref, out_ref: Ref, *, width: int, total_rows: int) -> None:
    """log softmax of rows."""
    block = _Block(x_ref, total_rows, width)
    block.store(out_ref, formulas.log_softmax(block.load(x_ref), block.columns))


def log_softmax_gradient_kernel(x_ref: Ref, upstream_ref: Ref, out_ref: Ref, *, width: int, total_rows: int) -> None:
    """Its gradient."""
    block = _Block(x_ref, total_rows, width)
    out = formulas.log_softmax(block.load(x_ref), block.columns)
    block.store(out_ref, formulas.log_softmax_gradient(block.load(upstream_ref), out))


def mean_kernel(x_ref: Ref, out_ref: Ref, *, width: int, total_rows: int) -> None:
    """Means of rows."""
    block = _Block(x_ref, total_rows, width)
    means = formulas.mean(block.load(x_ref), width).sum(1)
    pltriton.store(out_ref, means.astype(out_ref.dtype), mask=block.rows)


class _Block:
    """Which rows and columns of a block exist, and access to them alone."""

    def __init__(self, ref: Ref, total_rows: int, width: int) -> None:
        rows, columns = ref.shape
        self.rows = pl.program_id(0) * rows + jnp.arange(rows, dtype=jnp.int32) < total_rows
        self.vector = jnp.arange(columns, dtype=jnp.int32) < width
        self.columns = self.vector[None, :]
        self._mask = self.rows[:, None] & self.columns

    def load(self, ref: Ref) -> jax.Array:
        """Rows, 0 where there are none."""
        return pltriton.load(ref, mask=self._mask, other=0.0).astype(WIDE)

    def load_vector(self, ref: Ref) -> jax.Array:
        """What all rows share, as `[1, columns]`."""
        return pltriton.load(ref, mask=self.vector, other=0.0).astype(WIDE)[None, :]

    def store(self, ref: Ref, x: jax.Array) -> None:
        """Writes rows."""
        pltriton.store(ref, x.astype(ref.dtype), mask=self._mask)

    def store_vector(self, ref: Ref, x: jax.Array) -> None:
        """Writes one row."""
        pltriton.store(ref, x, mask=self.vector)
