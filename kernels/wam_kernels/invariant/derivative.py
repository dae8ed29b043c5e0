"""The derivative of one tile, cut in two: what the forward pass keeps of a tile, and the backward pass that reads it.

JAX decides what a function's derivative needs. Of those values some are the tile's own operands, some depend on the
parameters alone (such as a rounded copy of a weight), and only the rest is worth keeping for each tile.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core


class _Place(NamedTuple):
    """Where a value that the derivative needs is found: in which list, and where there."""

    source: str  # "operands", "shared" or "kept"
    index: int


@dataclasses.dataclass(frozen=True)
class TileDerivative:
    """A function of (parameters, tile) with its derivative.

    Attributes:
        traced: from the leaves of parameters and tile to those of the result, then the values the derivative needs.
        results: how many leaves the result has.
        result_tree: the structure of the result.
        pullback_tree: the structure that turns the values into the derivative.
        places: where each value is found.
    """

    traced: core.ClosedJaxpr
    results: int
    result_tree: Any
    pullback_tree: Any
    places: tuple[_Place, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], params: Any, tile: Any) -> Self:
        """Traces `function(params, *tile)`; of both only shapes and dtypes are read."""
        trees = {}

        def flat(params: Any, tile: Any) -> list[jax.Array]:
            result, pullback = jax.vjp(function, params, *tile)
            leaves, trees["result"] = jax.tree.flatten(result)
            values, trees["pullback"] = jax.tree.flatten(pullback)
            trees["results"] = len(leaves)
            return [*leaves, *values]

        traced = jax.make_jaxpr(flat)(params, tile)
        first = len(jax.tree.leaves(params))
        places = _places(traced.jaxpr, first, trees["results"])
        return cls(traced, trees["results"], trees["result"], trees["pullback"], places)

    def forward(self, params: Any, tile: Any) -> tuple[Any, list[jax.Array]]:
        """The result, and what to keep of the tile."""
        values = self._evaluate(params, tile)
        kept = {place.index: value for place, value in self._located(values) if place.source == "kept"}
        return jax.tree.unflatten(self.result_tree, values[: self.results]), [kept[i] for i in sorted(kept)]

    def shared(self, params: Any, tile: Any) -> list[jax.Array]:
        """The values that depend on the parameters alone. Of the tile only shapes matter."""
        values = self._evaluate(params, tile)
        return [value for place, value in self._located(values) if place.source == "shared"]

    def backward(self, shared: list[jax.Array], tile: Any, kept: list[jax.Array], upstream: Any) -> tuple[Any, ...]:
        """The gradients of the parameters, and of each array of the tile."""
        found = {"operands": jax.tree.leaves(tile), "shared": shared, "kept": kept}
        values = [found[place.source][place.index] for place in self.places]
        return jax.tree.unflatten(self.pullback_tree, values)(upstream)

    def cotangent(self, upstream: list[jax.Array]) -> Any:
        """A cotangent of the result from its floating-point leaves."""
        avals = self.traced.out_avals[: self.results]
        return completed(upstream, jax.tree.unflatten(self.result_tree, avals))

    def _evaluate(self, params: Any, tile: Any) -> list[jax.Array]:
        return core.jaxpr_as_fun(self.traced)(*jax.tree.leaves((params, tile)))

    def _located(self, values: list[jax.Array]) -> list[tuple[_Place, jax.Array]]:
        return list(zip(self.places, values[self.results :], strict=True))


def _places(jaxpr: core.Jaxpr, first: int, results: int) -> tuple[_Place, ...]:
    """Where the outputs after the `results` are found; inputs from `first` on are the tile's."""
    own = _depending(jaxpr, [i >= first for i in range(len(jaxpr.invars))])
    operands = {var: i for i, var in enumerate(jaxpr.invars[first:])}
    kept: dict[Any, int] = {}
    places, shared = [], 0
    for var, depends in zip(jaxpr.outvars[results:], own[results:], strict=True):
        if not depends:
            places.append(_Place("shared", shared))
            shared += 1
        elif var in operands:
            places.append(_Place("operands", operands[var]))
        else:
            places.append(_Place("kept", kept.setdefault(var, len(kept))))
    return tuple(places)


def _depending(jaxpr: core.Jaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Which outputs depend on the inputs that are marked."""
    marked = {var for var, depends in zip(jaxpr.invars, inputs, strict=True) if depends}
    is_marked = lambda atom: not isinstance(atom, core.Literal) and atom in marked  # noqa: E731
    for eqn in jaxpr.eqns:
        depends = [is_marked(atom) for atom in eqn.invars]
        inner = eqn.params.get("jaxpr") if eqn.primitive.name == "jit" else None
        outputs = _depending(inner.jaxpr, depends) if inner is not None else [any(depends)] * len(eqn.outvars)
        marked.update(var for var, out in zip(eqn.outvars, outputs, strict=True) if out)
    return [is_marked(atom) for atom in jaxpr.outvars]


def floating(tree: Any) -> list[jax.Array]:
    """The leaves of a floating-point dtype."""
    return [leaf for leaf in jax.tree.leaves(tree) if _is_floating(leaf)]


def completed(leaves: Sequence[jax.Array], like: Any) -> Any:
    """A cotangent for `like`: its floating-point leaves from `leaves`, nothing (float0) for all others."""
    given = iter(leaves)
    return jax.tree.map(lambda x: next(given) if _is_floating(x) else np.zeros(x.shape, jax.dtypes.float0), like)


def _is_floating(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)
