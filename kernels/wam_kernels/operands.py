"""Operands as the GPU kernels want them: whole tiles of tokens, a head size that is a power of two, integers for
bits."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from wam_kernels.backend import Mask, pad_axis
from wam_kernels.launch import Launch
from wam_kernels.ranges import Array
from wam_kernels.tiles import TileList

LEAST_HEAD_DIM, MOST_HEAD_DIM = 32, 128


class MaskOperands(NamedTuple):
    """Visibility as Triton's kernels read it (each of them one row of it).

    Attributes:
        across: `int32[rows, capacity]`, the flat list.
        bounds: `int32[rows, lines, 3]`.
        ranges: `int32[rows, R, 2, queries]`.
        key_valid: `int32[rows, keys]`, or None.
    """

    across: Array
    bounds: Array
    ranges: Array
    key_valid: Array | None


class HiddenMask(NamedTuple):
    """The same for Mosaic's kernels, by what is not seen.

    Attributes:
        across: `int32[rows, capacity]`, the flat list.
        bounds: `int32[rows, lines, 3]`.
        hidden: `int32[rows, R + 1, 2, queries]`, the stretches of keys that a query does not see.
        key_valid: `int32[rows, keys]`.
    """

    across: Array
    bounds: Array
    hidden: Array
    key_valid: Array


class Backward(NamedTuple):
    """The operands of the backward kernels: `[rows, tokens, heads, head_dim]`; `lse2`, `delta` `[rows, heads,
    queries]`."""

    q: jax.Array
    k: jax.Array
    v: jax.Array
    do: jax.Array
    lse2: jax.Array
    delta: jax.Array

    def filled(self, launch: Launch) -> "Backward":
        """In whole tiles. A filled-up query has lse +inf: its probabilities are 0."""
        return Backward(
            fill(self.q, launch.query_tile),
            fill(self.k, launch.key_tile),
            fill(self.v, launch.key_tile),
            fill(self.do.astype(self.q.dtype), launch.query_tile),
            pad_axis(self.lse2, 2, launch.query_tile, jnp.inf),
            pad_axis(self.delta, 2, launch.query_tile),
        )


def filled_head_dim(head_dim: int) -> int:
    """The head size in memory: 32, 64 or 128."""
    return max(LEAST_HEAD_DIM, 1 << (head_dim - 1).bit_length())


def fill(x: jax.Array, tile: int) -> jax.Array:
    """Pads tokens to whole tiles, and the head size."""
    return pad_axis(pad_axis(x, 1, tile), 3, filled_head_dim(x.shape[3]))


def cut(x: jax.Array, like: jax.Array) -> jax.Array:
    """Undoes `fill`."""
    return x[:, : like.shape[1], :, : like.shape[3]]


def mask_operands(mask: Mask, launch: Launch, tiles: TileList) -> MaskOperands:
    """The mask for one kernel, which reads `tiles`. A filled-up query sees nothing."""
    valid = None if mask.key_valid is None else pad_axis(mask.key_valid.astype(jnp.int32), 1, launch.key_tile)
    ranges = pad_axis(mask.ranges, 3, launch.query_tile)
    return MaskOperands(jnp.asarray(tiles.across), jnp.asarray(tiles.bounds), ranges, valid)


def hidden_mask(mask: Mask, launch: Launch, tiles: TileList, keys: int) -> HiddenMask:
    """The mask for one of Mosaic's kernels, with a valid bit for each of the (filled-up) keys.

    Without the bits ptxas would spill a register in dK/dV; only partial tiles read them.
    """
    seen = mask_operands(mask, launch, tiles)
    valid = seen.key_valid
    if valid is None:
        valid = jnp.ones((seen.bounds.shape[0], keys), jnp.int32)
    return HiddenMask(seen.across, seen.bounds, hidden_stretches(seen.ranges), valid)


def hidden_stretches(ranges: jax.Array) -> jax.Array:
    """The complement of `int32[rows, R, 2, queries]`: the R + 1 stretches of keys that a query does not see."""
    first, last = ranges[:, :, 0], ranges[:, :, 1]
    reached = jax.lax.cummax(jnp.where(first < last, last, 0), axis=1)
    before = jnp.pad(reached[:, :-1], ((0, 0), (1, 0), (0, 0)))
    gap_ends = jnp.where(first < last, first, before)
    end = jnp.iinfo(jnp.int32).max
    starts = jnp.concatenate([before, reached[:, -1:]], axis=1)
    return jnp.stack([starts, jnp.pad(gap_ends, ((0, 0), (0, 1), (0, 0)), constant_values=end)], axis=2)
