"""Token-wise work on the frames of rows: at once, or tile by tile where results must not depend on the row.

What a matrix product or a norm makes of a token depends, in its last bits, on how many tokens there are. In
batch-invariant networks every token-wise segment runs as a loop over tiles of `ModelConfig.tile` tokens
(`wam_kernels.invariant.tokenwise`), which takes that choice from the compiler. Samples begin at tiles there, so a
sample has the same bits in every row.
"""

import math
from collections.abc import Callable
from typing import Any

import jax

from wam_jax.model.config import ModelConfig
from wam_kernels.invariant import tokenwise


def frames_of_tile(tile: int, tokens: int) -> int:
    """The fewest frames of so many tokens that fill whole tiles."""
    return tile // math.gcd(tile, tokens)


def frame_tiles(config: ModelConfig) -> tuple[int | None, int | None]:
    """Frames of the video and of the actions that are worked on together; None for all."""
    if config.tile is None or not config.batch_invariant:
        return None, None
    return frames_of_tile(config.tile, config.tokens_per_frame), frames_of_tile(config.tile, config.actions_per_frame)


def framewise(function: Callable[..., Any], params: Any, *arrays: Any, tokens: int, config: ModelConfig) -> Any:
    """`function(params, *arrays)` for a function that treats every frame by itself.

    Args:
        function: from parameters and arrays `[..., frames, ...]` to arrays alike; it closes over no traced array.
        params: modules or arrays that all frames share.
        arrays: pytrees of arrays [R, frames, ...]; the function may see them without R and with fewer frames.
        tokens: of a frame.
        config: whether and how it is cut into tiles.
    """
    if config.tile is None or not config.batch_invariant:
        return function(params, *arrays)
    return in_tiles(function, params, *arrays, tile=frames_of_tile(config.tile, tokens))


def in_tiles(function: Callable[..., Any], params: Any, *arrays: Any, tile: int) -> Any:
    """The same in tiles of so many frames; parameters that the function does not read take no part."""
    leaves, structure = jax.tree.flatten(params)

    def of_leaves(leaves: list[Any], *arrays: Any) -> Any:
        return function(jax.tree.unflatten(structure, leaves), *arrays)

    read = _read(of_leaves, leaves, arrays, tile)

    def of_read(given: list[Any], *arrays: Any) -> Any:
        rest = iter(given)
        return of_leaves([next(rest) if own else None for own in read], *arrays)

    return tokenwise(of_read, [leaf for leaf, own in zip(leaves, read, strict=True) if own], *arrays, tile=tile)


def _read(function: Callable[..., Any], leaves: list[Any], arrays: Any, tile: int) -> list[bool]:
    """Which leaves a function of (leaves, one tile) reads."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((tile, *x.shape[2:]), x.dtype), arrays)
    jaxpr = jax.make_jaxpr(function)(leaves, *one).jaxpr
    atoms = {id(atom) for equation in jaxpr.eqns for atom in equation.invars} | {id(atom) for atom in jaxpr.outvars}
    return [id(var) in atoms for var in jaxpr.invars[: len(leaves)]]
