"""Any token-wise segment of a network, one fixed tile of tokens after the other.

`tokenwise` runs a function of (parameters, tile of tokens) through `wam_kernels.invariant.loop`. The results of a tile
are the same bits whatever else is in the arrays and wherever it lies. Gradients of parameters are summed in float32,
tile after tile; a tile whose upstream gradient is zero is not visited, so it leaves the sum as it is, bit by bit, and
what it holds (NaN too) does not matter. A sample that owns its tiles has one gradient, alone and in company.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from wam_kernels.backend import accumulator, pad_axis
from wam_kernels.invariant.derivative import TileDerivative, completed, floating
from wam_kernels.invariant.loop import map_tiles, tile_loop

DEFAULT_TILE = 128
"""Tokens a tile, where the caller does not say."""


def tokenwise(function: Callable[..., Any], params: Any, *token_arrays: Any, tile: int = DEFAULT_TILE) -> Any:
    """`function(params, *token_arrays)` for a function that treats every token by itself, in tiles of fixed size.

    Works under `jit`, in a scan over layers and under `jax.checkpoint`. What the backward pass needs is kept as JAX
    would keep it; `jax.checkpoint(function)` keeps a tile's operands only, which is faster on a CPU. Bits are promised
    among calls of one kind: with and without a gradient are two programs. On several devices use `sharded_tokenwise`.

    Args:
        function: from the parameters and arrays `[tile, ...]` to arrays `[tile, ...]` (pytrees on both sides). It may
            mix values within a tile; that the tile is the unit of what is guaranteed. It closes over no traced array:
            what all tiles share goes through `params`.
        params: arrays that all tiles share. Floating-point leaves are differentiated.
        *token_arrays: arrays (or pytrees of them) `[rows, tokens, ...]`, alike in their first two axes. A "token" may
            be any unit, such as a frame of tokens. Floating-point leaves are differentiated.
        tile: tokens a tile. The tokens of a row are filled up with zeros to a multiple of it.

    Returns:
        What `function` returns, its leaves `[rows, tokens, ...]`.

    Raises:
        ValueError: if the first two axes of the arrays differ, or a result does not lead with `tile`.
    """
    rows, tokens = _rows_and_tokens(token_arrays, tile)
    tiles = jax.tree.map(lambda x: _cut(jnp.asarray(x), tile), token_arrays)
    out = _run(function, jax.tree.map(jnp.asarray, params), tiles)
    if wrong := [leaf.shape[1:] for leaf in jax.tree.leaves(out) if leaf.shape[1:2] != (tile,)]:
        raise ValueError(f"the function returned a result of shape {wrong[0]}; wanted [{tile}, ...] for a tile of it")
    return jax.tree.map(lambda x: _joined(x, rows, tokens), out)


def sharded_tokenwise(
    function: Callable[..., Any],
    params: Any,
    *token_arrays: Any,
    mesh: Mesh,
    row_axes: tuple[str, ...],
    tile: int = DEFAULT_TILE,
) -> Any:
    """`tokenwise` with rows spread over the mesh axes `row_axes`, each device looping over its own.

    Parameters are gathered on every device; their gradients are summed over the devices after the last tile.
    """
    rows = PartitionSpec(row_axes)
    local = functools.partial(tokenwise, function, tile=tile)
    specs = (PartitionSpec(), *[rows] * len(token_arrays))
    return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=rows, check_vma=False)(params, *token_arrays)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _run(function: Callable[..., Any], params: Any, tiles: Any) -> Any:
    return map_tiles(lambda tile: function(params, *tile), tiles)


def _forward(function: Callable[..., Any], params: Any, tiles: Any) -> tuple[Any, Any]:
    derivative = TileDerivative.of(function, params, _one(tiles))
    out, kept = map_tiles(lambda tile: derivative.forward(params, tile), tiles)
    return out, (params, tiles, kept)


def _backward(function: Callable[..., Any], saved: Any, upstream: Any) -> tuple[Any, Any]:
    params, tiles, kept = saved
    derivative = TileDerivative.of(function, params, _one(tiles))
    shared = derivative.shared(params, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), _one(tiles)))

    def visit(sums: list[jax.Array], operands: Any) -> tuple[list[jax.Array], list[jax.Array]]:
        tile, kept, upstream = operands

        def add() -> tuple[list[jax.Array], list[jax.Array]]:
            of_params, *of_tile = derivative.backward(shared, tile, kept, derivative.cotangent(upstream))
            parts = zip(sums, floating(of_params), strict=True)
            return [total + part.astype(total.dtype) for total, part in parts], floating(of_tile)

        def skip() -> tuple[list[jax.Array], list[jax.Array]]:
            return sums, [jnp.zeros_like(leaf) for leaf in floating(tile)]

        return lax.cond(_any_set(upstream), add, skip)

    zeros = [jnp.zeros(leaf.shape, accumulator(leaf.dtype)) for leaf in floating(params)]
    sums, of_tiles = tile_loop(visit, zeros, (tiles, kept, floating(upstream)))
    narrowed = [total.astype(leaf.dtype) for total, leaf in zip(sums, floating(params), strict=True)]
    return completed(narrowed, params), completed(of_tiles, tiles)


_run.defvjp(_forward, _backward)


def _any_set(leaves: list[jax.Array]) -> jax.Array:
    """Whether any value is not zero (NaN is not)."""
    return functools.reduce(jnp.logical_or, [(leaf != 0).any() for leaf in leaves], jnp.bool_(False))


def _one(tiles: Any) -> Any:
    """The shapes and dtypes of one tile."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), tiles)


def _cut(x: jax.Array, tile: int) -> jax.Array:
    """`[rows, tokens, ...]` to `[rows * tiles, tile, ...]`."""
    x = pad_axis(x, 1, tile)
    return x.reshape(-1, tile, *x.shape[2:])


def _joined(x: jax.Array, rows: int, tokens: int) -> jax.Array:
    """`[rows * tiles, tile, ...]` to `[rows, tokens, ...]`."""
    return x.reshape(rows, -1, *x.shape[2:])[:, :tokens]


def _rows_and_tokens(arrays: Any, tile: int) -> tuple[int, int]:
    if tile < 1:
        raise ValueError(f"tile = {tile}; wanted a positive number of tokens")
    leading = {jnp.shape(leaf)[:2] for leaf in jax.tree.leaves(arrays)}
    match list(leading):
        case [(rows, tokens)]:
            return rows, tokens
    raise ValueError(f"token arrays lead with {sorted(leading)}; wanted one [rows, tokens] for all of them")
