"""The one table of cases that every backend passes, and how a backend's answer is judged against float64."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.kernels import masks, oracle
from wam_jax.sequence.programs import PROGRAMS
from wam_kernels import TileLists, build_tile_lists, range_attention
from wam_kernels.backend import Backend

TOLERANCE = {"float32": 1e-6, "bfloat16": 4e-3}


class Visibility(NamedTuple):
    """`int32[rows, queries, R, 2]` and `bool[rows, keys]` or None."""

    ranges: np.ndarray
    key_valid: np.ndarray | None = None


class Case(NamedTuple):
    """One line of the table.

    Attributes:
        name: what it is about.
        keys: key tokens; the queries follow from the ranges.
        visibility: makes the mask from a generator.
        tile: query and key tile that tile-list backends use.
        head_dim: size of a head.
        heads: heads.
        light: whether the slow interpreter runs it by default.
    """

    name: str
    keys: int
    visibility: Callable[[np.random.Generator], Visibility]
    tile: tuple[int, int] = (32, 32)
    head_dim: int = 32
    heads: int = 1
    light: bool = False


def _random(rows: int, queries: int, keys: int, most: int) -> Callable[[np.random.Generator], Visibility]:
    return lambda rng: Visibility(masks.random_ranges(rng, rows, queries, keys, most))


def _with_invalid(make: Callable[[np.random.Generator], Visibility], keys: int) -> Callable[..., Visibility]:
    def visibility(rng: np.random.Generator) -> Visibility:
        ranges, _ = make(rng)
        valid = rng.random((len(ranges), keys)) < 0.8
        valid[:, :32] = True  # a full tile among them
        valid[:, 32:64] = False  # and a tile without a valid key
        return Visibility(ranges, valid)

    return visibility


def _fixed(make: Callable[..., np.ndarray], *args: object) -> Callable[[np.random.Generator], Visibility]:
    return lambda _: Visibility(make(*args))


def _law(program: str) -> Callable[[np.random.Generator], Visibility]:
    return lambda rng: Visibility(*masks.law(rng, program, 288, 6))


_CLEAN_AND_NOISY = _fixed(masks.clean_and_noisy, 4, 32, 1)

CASES = [
    Case("0 to 6 ranges, lengths off every multiple", 90, _random(2, 77, 90, 6), heads=2, light=True),
    Case("asymmetric mask with full tiles", 256, _CLEAN_AND_NOISY, light=True),
    Case("invalid keys inside ranges", 256, _with_invalid(_CLEAN_AND_NOISY, 256)),
    Case("rows without keys, keys without rows", 150, _fixed(masks.holes, 150, 150)),
    Case("single-key rows", 70, lambda rng: Visibility(masks.single_keys(rng, 100, 70))),
    Case("two samples in a tile, a tail", 224, _fixed(masks.segments, [75, 50, 80], 224), (64, 32)),
    Case("cross-attention to few keys", 20, _random(1, 150, 20, 3), (64, 32)),
    Case("few queries, many keys", 300, _random(1, 10, 300, 4), (32, 128)),
    Case("heads of 64", 200, _random(1, 130, 200, 2), (64, 64), head_dim=64),
    Case("heads of 96", 140, _random(1, 100, 140, 5), (32, 64), head_dim=96),
    Case("heads of 128, largest tiles", 256, _with_invalid(_CLEAN_AND_NOISY, 256), (128, 128), head_dim=128),
    *(Case(f"law of {program}", 288, _law(program), (32, 64)) for program in PROGRAMS),
]


class Inputs(NamedTuple):
    """Operands in the dtype under test, and cotangents of the output and of lse."""

    q: jax.Array
    k: jax.Array
    v: jax.Array
    do: jax.Array
    dlse: jax.Array


def inputs(case: Case, seen: np.ndarray, dtype: str, rng: np.random.Generator) -> Inputs:
    """Random operands; `dlse` is 0 where a query sees no key, since lse is -inf there."""
    rows, queries, keys = seen.shape
    draw = lambda *shape: jnp.asarray(rng.standard_normal(shape), dtype)  # noqa: E731
    q, do = (draw(rows, queries, case.heads, case.head_dim) for _ in range(2))
    k, v = (draw(rows, keys, case.heads, case.head_dim) for _ in range(2))
    dlse = rng.standard_normal((rows, case.heads, queries)) * seen.any(2)[:, None]
    return Inputs(q, k, v, do, jnp.asarray(dlse, jnp.float32))


@functools.partial(jax.jit, static_argnames="backend")
def answer(
    inputs: Inputs,
    ranges: jax.Array,
    key_valid: jax.Array | None,
    tiles: tuple[TileLists, ...] | None,
    *,
    backend: Backend,
) -> tuple[jax.Array, ...]:
    """A backend's output, lse, dq, dk and dv."""

    def forward(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        return range_attention(
            q, k, v, ranges, key_valid=key_valid, tiles=tiles, implementation=backend, return_lse=True
        )

    (out, lse), pull_back = jax.vjp(forward, inputs.q, inputs.k, inputs.v)
    return out, lse, *pull_back((inputs.do, inputs.dlse))


def errors(case: Case, dtype: str, backend: Backend) -> dict[str, float]:
    """Runs a case and judges it: the error of each result, in units of what is allowed.

    Error norm over max(norm of the reference, norm of the upstream x scale). Infinite where a row without keys, or a
    key without rows, is not exactly zero, where lse is not exactly -inf there, or where another result is not finite.
    """
    rng = np.random.default_rng(sum(map(ord, case.name)))
    visibility = case.visibility(rng)
    seen = oracle.visible(visibility.ranges, case.keys, visibility.key_valid)
    given = inputs(case, seen, dtype, rng)
    exact = oracle.answer(*map(_float64, given[:3]), seen, *map(_float64, given[3:]))
    got = oracle.Answer(*map(_float64, answer(given, *visibility, _tiles(case, visibility, backend), backend=backend)))
    upstream = np.linalg.norm(_float64(given.do)) * case.head_dim**-0.5
    judged = {name: _relative(getattr(got, name), getattr(exact, name), upstream) for name in ("out", "dq", "dk", "dv")}
    judged = {name: error / TOLERANCE[dtype] for name, error in judged.items()}
    judged["lse"] = _relative_lse(got.lse, exact.lse) / TOLERANCE["float32"]
    return judged | {"zeros": 0.0 if _zeros_are_exact(got, seen) else np.inf}


def _tiles(case: Case, visibility: Visibility, backend: Backend) -> tuple[TileLists, ...] | None:
    """Lists as long as all tiles, so that cases of one shape share a compilation."""

    def lists(size: tuple[int, int]) -> TileLists:
        capacity = math.prod(
            -(-n // tile) for n, tile in zip((visibility.ranges.shape[1], case.keys), size, strict=True)
        )
        return build_tile_lists(
            visibility.ranges,
            case.keys,
            query_tile=size[0],
            key_tile=size[1],
            key_valid=visibility.key_valid,
            capacity=capacity,
        )

    return tuple(lists(size) for size in backend.tile_sizes()) or None


def _relative(got: np.ndarray, exact: np.ndarray, upstream: float) -> float:
    if not np.isfinite(got).all():
        return np.inf
    return float(np.linalg.norm(got - exact) / max(np.linalg.norm(exact), upstream))


def _relative_lse(got: np.ndarray, exact: np.ndarray) -> float:
    some = np.isfinite(exact)
    if not (np.isneginf(got) == ~some).all():
        return np.inf
    return float(np.linalg.norm(got[some] - exact[some]) / max(np.linalg.norm(exact[some]), 1.0))


def _zeros_are_exact(got: oracle.Answer, seen: np.ndarray) -> bool:
    no_key, no_query = ~seen.any(2), ~seen.any(1)
    return not any(x.any() for x in (got.out[no_key], got.dq[no_key], got.dk[no_query], got.dv[no_query]))


def _float64(x: jax.Array) -> np.ndarray:
    return np.asarray(x, np.float64)
