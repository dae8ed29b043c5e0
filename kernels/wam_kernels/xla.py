"""Range attention over listed tiles in plain XLA: the CPU's backend, and correct on any other platform.

Forward: for each tile of queries an online softmax over its listed key tiles. Backward: one pass over the same lists
that recomputes each tile's probabilities once and adds to dq, dk and dv together (five products a tile instead of the
seven of separate dq and dk/dv passes). Everything is computed in float32, or float64 for float64 inputs.

Heads lead inside (`[heads, tokens, head_dim]`): a tile's products are then contiguous batched matmuls. Tiles are
visited one after the other, in list order, with shapes that do not depend on the row's length, so that a tile-aligned
sample gets the same bits whatever else is in its row.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import lax

from wam_kernels.backend import Mask, Problem, TileSize, accumulator, pad_axis
from wam_kernels.target import Target
from wam_kernels.tiles import TileList
from wam_kernels.vjp import LEAST_PEAK, LOG2E, MASKED, Upstream, attend_with_kernels

_TILE = 256
_SMALLEST_TILE = 16


@dataclasses.dataclass(frozen=True)
class Xla:
    """The backend. The tile size is that of the caller's lists, else 256, or less where there are fewer tokens.

    Attributes:
        query_tile: queries a tile; None until resolved.
        key_tile: keys a tile; None until resolved.
    """

    query_tile: int | None = None
    key_tile: int | None = None
    name: ClassVar[str] = "xla"

    def refusal(self, problem: Problem, target: Target) -> str | None:
        """Never refuses."""
        del problem, target

    def resolve(self, problem: Problem, target: Target, given: tuple[TileSize, ...]) -> Self:
        """Takes the first size given, else its own, else a size that fits the problem."""
        del target
        queries, keys = given[0] if given else (_fitting(problem.query_tokens), _fitting(problem.key_tokens))
        return dataclasses.replace(self, query_tile=self.query_tile or queries, key_tile=self.key_tile or keys)

    def tile_sizes(self) -> tuple[TileSize, ...]:
        """The one size in use."""
        return (self._size(),)

    def attend(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """Output and natural lse."""
        return attend_with_kernels(self, q, k, v, mask)

    def forward(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """Output and base-2 lse."""
        row = functools.partial(_forward_row, size=self._size())
        out, lse2 = lax.map(row, self._rows(q, k, v, mask))
        tokens = q.shape[1]
        return out.swapaxes(1, 2)[:, :tokens].astype(q.dtype), lse2[:, :, :tokens]

    def backward(
        self,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        mask: Mask,
        upstream: Upstream,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """dq, dk and dv. Delta is formed tile by tile: over whole rows its bits would depend on their length."""
        query_tile, _ = self._size()
        laid_out = Upstream(
            out=pad_axis(upstream.out.swapaxes(1, 2), 2, query_tile),
            do=pad_axis(upstream.do.swapaxes(1, 2), 2, query_tile),
            lse2=pad_axis(upstream.lse2, 2, query_tile, jnp.inf),
            dlse=pad_axis(upstream.dlse, 2, query_tile),
        )
        row = functools.partial(_backward_row, size=self._size())
        grads = lax.map(lambda operands: row(*operands), (self._rows(q, k, v, mask), laid_out))
        dq, dk, dv = (
            grad.swapaxes(1, 2)[:, : like.shape[1]].astype(like.dtype)
            for grad, like in zip(grads, (q, k, v), strict=True)
        )
        return dq, dk, dv

    def _size(self) -> TileSize:
        if self.query_tile is None or self.key_tile is None:
            raise ValueError("the tile size of this Xla backend has not been resolved")
        return self.query_tile, self.key_tile

    def _rows(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> "_Row":
        query_tile, key_tile = self._size()
        return _Row(
            q=pad_axis(q.swapaxes(1, 2), 2, query_tile),
            k=pad_axis(k.swapaxes(1, 2), 2, key_tile),
            v=pad_axis(v.swapaxes(1, 2), 2, key_tile),
            ranges=pad_axis(mask.ranges, 3, query_tile),
            key_valid=None if mask.key_valid is None else pad_axis(mask.key_valid, 1, key_tile),
            tiles=mask.lists(self._size()).by_query,
        )


def _fitting(tokens: int) -> int:
    return min(_TILE, max(_SMALLEST_TILE, 1 << (tokens - 1).bit_length()))


class _Row(NamedTuple):
    """One row's operands (or all rows', a leading axis more), padded to whole tiles."""

    q: jax.Array  # [heads, queries, head_dim]
    k: jax.Array  # [heads, keys, head_dim]
    v: jax.Array
    ranges: jax.Array  # [R, 2, queries]
    key_valid: jax.Array | None  # [keys]
    tiles: TileList

    def widened(self) -> "_Row":
        """With q, k and v in the dtype of the sums. One row at a time, so that only one row's copy exists."""
        wide = accumulator(self.q.dtype)
        return self._replace(q=self.q.astype(wide), k=self.k.astype(wide), v=self.v.astype(wide))


def _forward_row(row: _Row, size: TileSize) -> tuple[jax.Array, jax.Array]:
    """Output `[heads, queries, head_dim]` and base-2 lse `[heads, queries]`."""
    row = row.widened()
    heads, queries, head_dim = row.q.shape
    query_tile, key_tile = size
    scale = head_dim**-0.5 * LOG2E
    dtype = row.q.dtype

    def line(i: jax.Array) -> tuple[jax.Array, jax.Array]:
        q = _cut(row.q, i, query_tile) * scale

        def visit(at: jax.Array, carry: tuple[jax.Array, ...], *, masked: bool) -> tuple[jax.Array, ...]:
            acc, peak, total = carry
            j = row.tiles.across[at]
            scores = _product("hqd,hkd->hqk", q, _cut(row.k, j, key_tile))
            if masked:
                scores = jnp.where(_visible(row, i, j, size), scores, MASKED)
            new_peak = jnp.maximum(peak, scores.max(-1))
            p = jnp.exp2(scores - new_peak[..., None])
            shrink = jnp.exp2(peak - new_peak)
            acc = acc * shrink[..., None] + _product("hqk,hkd->hqd", p, _cut(row.v, j, key_tile))
            return acc, new_peak, total * shrink + p.sum(-1)

        start = (
            jnp.zeros((heads, query_tile, head_dim), dtype),
            jnp.full((heads, query_tile), LEAST_PEAK, dtype),
            jnp.zeros((heads, query_tile), dtype),
        )
        acc, peak, total = _visit_line(row.tiles, i, visit, start)
        seen = total > 0
        total = jnp.where(seen, total, 1.0)
        return acc / total[..., None], jnp.where(seen, peak + jnp.log2(total), jnp.inf)

    out, lse2 = lax.map(line, jnp.arange(queries // query_tile))
    return jnp.moveaxis(out, 0, 1).reshape(row.q.shape), jnp.moveaxis(lse2, 0, 1).reshape(heads, queries)


def _backward_row(row: _Row, upstream: Upstream, size: TileSize) -> tuple[jax.Array, jax.Array, jax.Array]:
    """dq, dk and dv, laid out like q, k and v; of `upstream`, `out` and `do` are `[heads, queries, head_dim]`."""
    row = row.widened()
    query_tile, key_tile = size
    scale = row.q.shape[-1] ** -0.5

    def line(i: jax.Array, grads: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        q = _cut(row.q, i, query_tile) * (scale * LOG2E)
        do, out = (_cut(x, i, query_tile).astype(q.dtype) for x in (upstream.do, upstream.out))
        lse2, dlse = (_cut(x, i, query_tile)[..., None] for x in (upstream.lse2, upstream.dlse))
        delta = _product("hqd,hqd->hq", out, do)[..., None] - dlse

        def visit(at: jax.Array, carry: tuple[jax.Array, ...], *, masked: bool) -> tuple[jax.Array, ...]:
            dq, dk, dv = carry
            j = row.tiles.across[at]
            k, v = _cut(row.k, j, key_tile), _cut(row.v, j, key_tile)
            scores = _product("hqd,hkd->hqk", q, k)
            if masked:
                scores = jnp.where(_visible(row, i, j, size), scores, MASKED)
            p = jnp.exp2(scores - lse2)
            ds = p * (_product("hqd,hkd->hqk", do, v) - delta)
            dk = _add(dk, j, _product("hqk,hqd->hkd", ds, q))
            dv = _add(dv, j, _product("hqk,hqd->hkd", p, do))
            return dq + _product("hqk,hkd->hqd", ds, k), dk, dv

        dq, dk, dv = grads
        own, dk, dv = _visit_line(row.tiles, i, visit, (jnp.zeros_like(q), dk, dv))
        return lax.dynamic_update_slice_in_dim(dq, own * scale, i * query_tile, 1), dk, dv

    start = (jnp.zeros_like(row.q), jnp.zeros_like(row.k), jnp.zeros_like(row.v))
    dq, dk, dv = lax.fori_loop(0, row.q.shape[1] // query_tile, line, start)
    return dq, dk / LOG2E, dv  # q carried the factor of base 2 into dk


def _visit_line(
    tiles: TileList, i: jax.Array, visit: Callable[..., tuple[jax.Array, ...]], carry: tuple[jax.Array, ...]
) -> tuple[jax.Array, ...]:
    """Visits line i's partial tiles, then its full ones."""
    start, full, end = tiles.bounds[i]
    carry = lax.fori_loop(start, full, functools.partial(visit, masked=True), carry)
    return lax.fori_loop(full, end, functools.partial(visit, masked=False), carry)


def _visible(row: _Row, i: jax.Array, j: jax.Array, size: TileSize) -> jax.Array:
    """`bool[query_tile, key_tile]` of tile (i, j)."""
    bounds = _cut(row.ranges, i, size[0], axis=2)[..., None]
    position = j * size[1] + jnp.arange(size[1])
    inside = functools.reduce(jnp.logical_or, [(first <= position) & (position < last) for first, last in bounds])
    return inside if row.key_valid is None else inside & _cut(row.key_valid, j, size[1], axis=0)


def _cut(x: jax.Array, tile: jax.Array, size: int, axis: int = 1) -> jax.Array:
    return lax.dynamic_slice_in_dim(x, tile * size, size, axis)


def _add(x: jax.Array, tile: jax.Array, part: jax.Array) -> jax.Array:
    size = part.shape[1]
    return lax.dynamic_update_slice_in_dim(x, _cut(x, tile, size) + part, tile * size, 1)


def _product(subscripts: str, a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum(subscripts, a, b, precision="highest")
