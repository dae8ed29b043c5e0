"""What a backend is: the problem it is asked about, the mask it is given, and the refusal it answers with."""

from typing import NamedTuple, Protocol, Self

import jax
import jax.numpy as jnp

from wam_kernels.ranges import Array, Ranges, ranges_by_query
from wam_kernels.target import Target
from wam_kernels.tiles import TileLists

type TileSize = tuple[int, int]
"""`(query_tile, key_tile)`."""


class UnsupportedError(NotImplementedError):
    """A backend that was named cannot compute this problem on this device; the message says why."""


class Problem(NamedTuple):
    """The static facts of one call: what a backend accepts or refuses, and what its tile sizes follow from."""

    rows: int
    query_tokens: int
    key_tokens: int
    heads: int
    head_dim: int
    dtype: jnp.dtype
    ranges: int


class Mask(NamedTuple):
    """Visibility as the kernels read it.

    Attributes:
        ranges: `int32[rows, R, 2, query_tokens]`, so that a tile of queries loads contiguous starts and ends.
        key_valid: `bool[rows, key_tokens]`, or None where every key is valid.
        tiles: lists, one for each distinct tile size that the backend uses.
    """

    ranges: jax.Array
    key_valid: jax.Array | None
    tiles: tuple[TileLists, ...]

    def lists(self, size: TileSize) -> TileLists:
        """The lists of one tile size."""
        return next(lists for lists in self.tiles if lists.size == size)


class Backend(Protocol):
    """One way to compute range attention. Instances are frozen: they are static arguments under jit."""

    @property
    def name(self) -> str:
        """What `implementation=` calls it."""
        ...

    def refusal(self, problem: Problem, target: Target) -> str | None:
        """Why this problem cannot be computed on this target, or None if it can."""
        ...

    def resolve(self, problem: Problem, target: Target, given: tuple[TileSize, ...]) -> Self:
        """The same backend with every tile size settled; `given` are the sizes the caller has lists for, if any."""
        ...

    def tile_sizes(self) -> tuple[TileSize, ...]:
        """The distinct tile sizes whose lists a resolved backend reads."""
        ...

    def attend(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """Output and natural lse, as `wam_kernels.reference.Reference.attend`; differentiable in q, k and v."""
        ...


def accumulator(dtype: jnp.dtype) -> jnp.dtype:
    """The dtype of scores and sums: float64 for float64 inputs, float32 for all others."""
    return jnp.promote_types(dtype, jnp.float32)


def field_major(ranges: Ranges) -> jax.Array:
    """Either form of ranges as `int32[rows, R, 2, query_tokens]`."""
    return jnp.moveaxis(ranges_by_query(ranges), 1, 3)


def pad_axis(x: Array, axis: int, multiple: int, value: float = 0) -> Array:
    """Fills an axis up to a multiple with `value`; no copy where it is one already."""
    missing = -x.shape[axis] % multiple
    if not missing:
        return x
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, missing)
    return jnp.pad(x, widths, constant_values=value)
