"""The tile lists of `wam_kernels.tiles`, computed with jnp from ranges that may be traced.

For callers that have no lists from the host. The difference arrays are the same, a query at a time, followed by a sum
over the whole grid of tiles: O(queries x R + tiles^2), inside the compiled step. The flat lists are as long as there
are tiles, since their length must be known when the step is compiled. Ranges are taken to be ascending and disjoint:
nobody can check that here.
"""

import jax
import jax.numpy as jnp

from wam_kernels.ranges import Array, Ranges, ranges_by_query
from wam_kernels.tiles import TileList, TileLists


def trace_tile_lists(
    ranges: Ranges, key_tokens: int, *, query_tile: int, key_tile: int, key_valid: Array | None = None
) -> TileLists:
    """The lists of one tile size, as JAX arrays; arguments as `wam_kernels.tiles.build_tile_lists`.

    Compute them once for a step and pass them to every layer.
    """
    bounds = ranges_by_query(ranges)
    columns = -(-key_tokens // key_tile)
    pairs = jax.vmap(lambda row: _visible_pairs(row, columns, query_tile, key_tile))(bounds)
    active, full = pairs > 0, pairs == query_tile * key_tile
    if key_valid is not None:
        padded = jnp.pad(jnp.asarray(key_valid), ((0, 0), (0, columns * key_tile - key_tokens)))
        by_tile = padded.reshape(-1, 1, columns, key_tile)
        active, full = active & by_tile.any(-1), full & by_tile.all(-1)
    return TileLists(
        by_query=jax.vmap(_flat)(active, full),
        by_key=jax.vmap(lambda a, f: _flat(a.T, f.T))(active, full),
        query_tile=query_tile,
        key_tile=key_tile,
    )


def _visible_pairs(bounds: jax.Array, columns: int, query_tile: int, key_tile: int) -> jax.Array:
    """Visible pairs of each tile, `int32[lines, columns]`, of one row's `int32[queries, R, 2]`."""
    lines = -(-bounds.shape[0] // query_tile)
    first, last = bounds[..., 0], jnp.maximum(bounds[..., 0], bounds[..., 1])
    line = (jnp.arange(bounds.shape[0]) // query_tile)[:, None]
    steps = jnp.zeros((lines, columns + 2), jnp.int32)
    for edge, sign in ((first, 1), (last, -1)):
        column, inside = jnp.divmod(edge, key_tile)
        steps = steps.at[line, column].add(sign * (key_tile - inside)).at[line, column + 1].add(sign * inside)
    return jnp.cumsum(steps, axis=1)[:, :columns]


def _flat(active: jax.Array, full: jax.Array) -> TileList:
    """The flat list of one row's `bool[lines, columns]`."""
    lines, columns = active.shape
    kinds = jnp.stack([active & ~full, full], axis=1)
    across = jnp.nonzero(kinds.ravel(), size=active.size, fill_value=0)[0] % columns
    ends = jnp.cumsum(kinds.sum(-1, dtype=jnp.int32).ravel()).reshape(lines, 2)
    starts = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1, 1]])
    return TileList(across.astype(jnp.int32), jnp.concatenate([starts[:, None], ends], axis=1).astype(jnp.int32))
