"""One compiled body for every tile: a loop whose body and trip count the compiler cannot tailor to the number of tiles.

XLA compiles for shapes, and a row's bits follow from what it compiles. Three of its choices depend on how many tiles
there are, and each is taken away here:

- a loop that runs once is unrolled into the code around it, and fused with it: the trip count passes through an
  optimisation barrier, so that it is no constant while loops are simplified;
- a slice that takes a whole array vanishes, and what is computed from it becomes invariant: there are never fewer than
  two tiles in memory (a tile that only fills up is not visited);
- slices and updates of the long arrays fuse with the arithmetic: barriers stand around the body, so that it sees
  operands of a tile's shape and nothing else.

What remains is one body for tiles of one shape, run from the first tile to the last. `tests/kernels/invariant` compares
compiled bodies as well as bits.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

LEAST_TILES = 2
"""Tiles in memory, at least."""


def tile_loop[Carry, Tile, Result](
    body: Callable[[Carry, Tile], tuple[Carry, Result]], carry: Carry, tiles: Tile
) -> tuple[Carry, Result]:
    """`lax.scan` over tiles, with bits that do not depend on their number.

    Not differentiable: callers supply the derivative.

    Args:
        body: (carry, one tile) to (carry, results of the tile); pytrees. It closes over what all tiles share.
        carry: what goes from tile to tile.
        tiles: arrays that lead with one number of tiles, which may be 0 or 1.

    Returns:
        The last carry, and the results stacked along a leading axis of tiles.
    """
    (count,) = {leaf.shape[0] for leaf in jax.tree.leaves(tiles)}
    kept = jax.tree.map(_at_least_two, tiles)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), kept)
    _, result = jax.eval_shape(body, carry, one)
    results = jax.tree.map(lambda leaf: jnp.zeros((max(count, LEAST_TILES), *leaf.shape), leaf.dtype), result)

    def visit(i: jax.Array, state: tuple[Carry, Result]) -> tuple[Carry, Result]:
        carry, results = state
        tile = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, i, keepdims=False), kept)
        carry, result = lax.optimization_barrier(body(carry, lax.optimization_barrier(tile)))
        put = lambda whole, part: lax.dynamic_update_index_in_dim(whole, part, i, 0)  # noqa: E731
        return carry, jax.tree.map(put, results, result)

    carry, results = lax.fori_loop(0, lax.optimization_barrier(jnp.int32(count)), visit, (carry, results))
    return carry, jax.tree.map(lambda leaf: leaf[:count], results)


def map_tiles[Tile, Result](function: Callable[[Tile], Result], tiles: Tile) -> Result:
    """`tile_loop` without a carry."""
    return tile_loop(lambda _, tile: ((), function(tile)), (), tiles)[1]


def _at_least_two(x: jax.Array) -> jax.Array:
    missing = LEAST_TILES - x.shape[0]
    return jnp.pad(x, [(0, missing), *[(0, 0)] * (x.ndim - 1)]) if missing > 0 else x
