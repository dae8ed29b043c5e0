"""Work on frames by themselves, and sums over frames: at once, or so that bits do not depend on how many there are."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from wam_kernels.invariant import tokenwise


def per_frame[Result](function: Callable[..., Result], *arrays: Any, tile: int | None) -> Result:
    """`function(*arrays)` for a function that treats every frame by itself.

    Args:
        function: from arrays `[..., frames, ...]` to arrays alike; it closes over no traced array.
        arrays: pytrees of arrays that lead alike, frames last: [R, frames, ...] or [R, S, frames, ...], the first of
            which has no more axes. The function may see them without the axes before frames, and with fewer frames.
        tile: frames that are worked on together, or None for all of them.
    """
    if tile is None:
        return function(*arrays)
    leading = jax.tree.leaves(arrays)[0].shape
    flat = jax.tree.map(lambda x: x.reshape(-1, leading[-1], *x.shape[len(leading) :]), arrays)
    found = tokenwise(lambda _, *own: function(*own), (), *flat, tile=tile)
    return jax.tree.map(lambda x: x.reshape(*leading, *x.shape[2:]), found)


def sum_over_frames(terms: jax.Array, *, tile: int | None) -> jax.Array:
    """[R, frames] to [R]; with tiles one frame after the other, so that zeros behind the last change nothing."""
    if tile is None:
        return terms.sum(-1)
    first = jnp.zeros(terms.shape[:1], terms.dtype)
    return jax.lax.scan(lambda total, term: (total + term, None), first, terms.T)[0]
