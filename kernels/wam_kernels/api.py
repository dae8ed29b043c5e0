"""`range_attention`: one entry, its checks, and the choice of who computes it.

Every backend computes the same function (`wam_kernels.reference` states it) and differs in speed and in what it
accepts. A backend that was asked for by name and cannot do what it is given refuses with the reason.
"""

from typing import Literal, overload

import jax
import jax.numpy as jnp

from wam_kernels.backend import Backend, Mask, Problem, field_major
from wam_kernels.chooser import choose
from wam_kernels.ranges import Array, Ranges, check_ranges, ranges_shape
from wam_kernels.target import current_target
from wam_kernels.tiles import TileLists
from wam_kernels.traced_tiles import trace_tile_lists

type Implementation = Literal["reference", "xla", "pallas_triton", "pallas_mosaic", "tiled"] | Backend
"""A backend's name, a backend with settings of its own, or "tiled" for the best one that visits tiles."""

type Tiles = TileLists | tuple[TileLists, ...]
"""Lists of one tile size, or of several."""


@overload
def range_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    ranges: Ranges,
    *,
    key_valid: Array | None = ...,
    tiles: Tiles | None = ...,
    implementation: Implementation | None = ...,
    return_lse: Literal[False] = ...,
) -> jax.Array: ...
@overload
def range_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    ranges: Ranges,
    *,
    key_valid: Array | None = ...,
    tiles: Tiles | None = ...,
    implementation: Implementation | None = ...,
    return_lse: Literal[True],
) -> tuple[jax.Array, jax.Array]: ...
def range_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    ranges: Ranges,
    *,
    key_valid: Array | None = None,
    tiles: Tiles | None = None,
    implementation: Implementation | None = None,
    return_lse: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Softmax attention of every query over the keys inside its ranges.

    Args:
        q: `[rows, query_tokens, heads, head_dim]`, floating point.
        k: `[rows, key_tokens, heads, head_dim]`, of q's dtype.
        v: as k.
        ranges: `KeyRanges`, or `int32[rows, query_tokens, R, 2]`; ascending, disjoint and half-open for each query.
        key_valid: `bool[rows, key_tokens]`; a key whose bit is unset is seen by no query. None: all are valid.
        tiles: lists of the tile sizes that the backend reads, built from the same `ranges` and `key_valid` by
            `build_tile_lists` on the host or `trace_tile_lists` under jit. None: they are computed here, which costs
            O(query_tokens x R + tiles^2) in every call. Lists of other visibility give wrong results.
        implementation: the backend, or None to let the chooser decide.
        return_lse: also return the logarithm of each row's sum of exponentials.

    Returns:
        The output, shaped and typed like q, exactly zero for a query that sees no key (and with zero gradient). With
        `return_lse` also `lse[rows, heads, query_tokens]`, natural logarithm, float32 (float64 for float64 inputs),
        -inf for a query that sees no key.

    Raises:
        TypeError: if a dtype is not the one named above.
        ValueError: if a shape does not fit, `implementation` is not a known name, or `tiles` lacks a size.
        UnsupportedError: if the backend that was named cannot compute this problem on this device.
    """
    q, k, v = (jnp.asarray(x) for x in (q, k, v))
    _check_arrays(q, k, v, key_valid)
    check_ranges(ranges, rows=q.shape[0], query_tokens=q.shape[1])
    problem = Problem(q.shape[0], q.shape[1], k.shape[1], q.shape[2], q.shape[3], q.dtype, ranges_shape(ranges)[2])
    given = _as_tuple(tiles)
    backend = choose(implementation, problem, current_target(), tuple(lists.size for lists in given))
    lists = given or tuple(
        trace_tile_lists(ranges, k.shape[1], query_tile=size[0], key_tile=size[1], key_valid=key_valid)
        for size in backend.tile_sizes()
    )
    valid = None if key_valid is None else jnp.asarray(key_valid)
    out, lse = backend.attend(q, k, v, Mask(field_major(ranges), valid, lists))
    return (out, lse) if return_lse else out


def _as_tuple(tiles: Tiles | None) -> tuple[TileLists, ...]:
    if tiles is None:
        return ()
    return (tiles,) if isinstance(tiles, TileLists) else tuple(tiles)


def _check_arrays(q: jax.Array, k: jax.Array, v: jax.Array, key_valid: Array | None) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(f"{name} has dtype {x.dtype}; wanted a floating-point dtype")
        if x.ndim != 4 or 0 in x.shape:
            raise ValueError(f"{name} has shape {x.shape}; wanted [rows, tokens, heads, head_dim], none of them 0")
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k and v have dtypes {q.dtype}, {k.dtype} and {v.dtype}; wanted one dtype")
    if k.shape != v.shape or k.shape[:1] + k.shape[2:] != q.shape[:1] + q.shape[2:]:
        raise ValueError(
            f"q, k and v have shapes {q.shape}, {k.shape} and {v.shape}; wanted k and v alike, and rows, heads and "
            "head_dim as in q"
        )
    if key_valid is None:
        return
    if not hasattr(key_valid, "dtype") or key_valid.dtype != jnp.bool_:
        raise TypeError(f"key_valid has dtype {getattr(key_valid, 'dtype', type(key_valid).__name__)}; wanted bool")
    if key_valid.shape != k.shape[:2]:
        raise ValueError(f"key_valid has shape {key_valid.shape}; [rows, key_tokens] is {k.shape[:2]}")
