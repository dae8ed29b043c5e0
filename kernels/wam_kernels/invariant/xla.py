"""The operators as loops over fixed tiles of rows, in plain XLA: the CPU's backend, and defined on any platform."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax import lax

from wam_kernels.backend import accumulator, pad_axis
from wam_kernels.invariant import formulas
from wam_kernels.invariant.backend import Problem
from wam_kernels.invariant.formulas import Norm
from wam_kernels.invariant.loop import map_tiles, tile_loop
from wam_kernels.target import Target


@dataclasses.dataclass(frozen=True)
class TiledXla:
    """The backend.

    Attributes:
        rows: rows a tile.
    """

    rows: int = 128
    name: ClassVar[str] = "xla"

    def refusal(self, problem: Problem, target: Target) -> str | None:
        """Never refuses."""
        del problem, target

    def resolve(self, target: Target) -> Self:
        """Has nothing to settle."""
        del target
        return self

    def product(self, a: jax.Array, b: jax.Array, bias: jax.Array | None, *, contract_last: bool = False) -> jax.Array:
        """Every tile of rows with the whole of b; members of a batch one after the other."""
        if a.ndim == 3:
            member = lambda pair: self.product(*pair, None, contract_last=contract_last)  # noqa: E731
            return map_tiles(member, (a, b))
        wide = accumulator(a.dtype)

        def tile(a: jax.Array) -> jax.Array:
            out = formulas.product(a, b, (1, int(contract_last)))
            return (out if bias is None else out + bias.astype(wide)).astype(a.dtype)

        return self._by_tiles(tile, a)

    def weight_gradient(self, a: jax.Array, upstream: jax.Array) -> jax.Array:
        """One product a tile, added up in order."""
        if a.ndim == 3:
            return map_tiles(lambda pair: self.weight_gradient(*pair), (a, upstream))
        wide = accumulator(a.dtype)

        def part(a: jax.Array, upstream: jax.Array) -> jax.Array:
            a = jnp.where(formulas.live_rows(upstream)[:, None], a, jnp.zeros_like(a))
            return formulas.product(a, upstream, (0, 0))

        return self._ordered_sum(part, jax.ShapeDtypeStruct((a.shape[1], upstream.shape[1]), wide), a, upstream)

    def row_sum(self, x: jax.Array) -> jax.Array:
        """One sum a tile, added up in order."""
        wide = accumulator(x.dtype)
        return self._ordered_sum(lambda x: x.astype(wide).sum(0), jax.ShapeDtypeStruct(x.shape[1:], wide), x)

    def normalise(self, x: jax.Array, scale: jax.Array | None, bias: jax.Array | None, norm: Norm) -> jax.Array:
        """Every tile by itself."""
        wide = accumulator(x.dtype)

        def tile(x: jax.Array) -> jax.Array:
            out, _ = formulas.normalise(x.astype(wide), norm, None)
            out = out if scale is None else out * scale.astype(wide)
            return (out if bias is None else out + bias.astype(wide)).astype(x.dtype)

        return self._by_tiles(tile, x)

    def normalise_gradients(
        self, x: jax.Array, scale: jax.Array | None, norm: Norm, upstream: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """One pass: the tile's gradient, and its part of the scale's."""
        wide = accumulator(x.dtype)

        def visit(total: jax.Array, operands: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            x, upstream = (operand.astype(wide) for operand in operands)
            normed, factor = formulas.normalise(x, norm, None)
            inner = upstream if scale is None else upstream * scale.astype(wide)
            of_x = formulas.normalise_gradient(inner, normed, factor, norm, None)
            return total + formulas.of_scale(upstream, normed).sum(0), of_x.astype(operands[0].dtype)

        total, of_x = tile_loop(visit, jnp.zeros(x.shape[1:], wide), (self._tiles(x), self._tiles(upstream)))
        return _rows(of_x, x.shape[0]), total

    def log_softmax(self, x: jax.Array) -> jax.Array:
        """Every tile by itself."""
        wide = accumulator(x.dtype)
        return self._by_tiles(lambda x: formulas.log_softmax(x.astype(wide), None).astype(x.dtype), x)

    def log_softmax_gradient(self, x: jax.Array, upstream: jax.Array) -> jax.Array:
        """Every tile by itself."""
        wide = accumulator(x.dtype)

        def tile(x: jax.Array, upstream: jax.Array) -> jax.Array:
            out = formulas.log_softmax(x.astype(wide), None)
            return formulas.log_softmax_gradient(upstream.astype(wide), out).astype(x.dtype)

        return self._by_tiles(tile, x, upstream)

    def mean(self, x: jax.Array) -> jax.Array:
        """Every tile by itself."""
        wide = accumulator(x.dtype)
        return self._by_tiles(lambda x: formulas.mean(x.astype(wide), x.shape[1])[:, 0].astype(x.dtype), x)

    def _by_tiles(self, function: Callable[..., jax.Array], *rows: jax.Array) -> jax.Array:
        """`function` over tiles of arrays `[rows, ...]`."""
        out = map_tiles(lambda tile: function(*tile), tuple(self._tiles(x) for x in rows))
        return _rows(out, rows[0].shape[0])

    def _ordered_sum(self, part: Callable[..., jax.Array], like: Any, *rows: jax.Array) -> jax.Array:
        """The sum of the tiles' parts, in order. A tile whose last array (what comes from upstream) is 0 adds none."""

        def visit(total: jax.Array, tile: tuple[jax.Array, ...]) -> tuple[jax.Array, tuple[()]]:
            return lax.cond((tile[-1] != 0).any(), lambda: total + part(*tile), lambda: total), ()

        return tile_loop(visit, jnp.zeros(like.shape, like.dtype), tuple(self._tiles(x) for x in rows))[0]

    def _tiles(self, x: jax.Array) -> jax.Array:
        """`[rows, ...]` to `[tiles, rows of a tile, ...]`, filled up with zeros."""
        x = pad_axis(x, 0, self.rows)
        return x.reshape(-1, self.rows, *x.shape[1:])


def _rows(tiles: jax.Array, rows: int) -> jax.Array:
    return tiles.reshape(-1, *tiles.shape[2:])[:rows]
