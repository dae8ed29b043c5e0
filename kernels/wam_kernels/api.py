"""`range_attention`: one entry, its checks, and the choice of who computes it.

Every backend computes the same function (`wam_kernels.reference` states it) and differs in speed and in what it
accepts. A backend that was asked for by name and cannot do what it is given refuses with the reason.
"""

from typing import Literal, overload

import jax
import jax.numpy as jnp

from wam_kernels import reference
from wam_kernels.ranges import Array, Ranges, check_ranges

type Implementation = Literal["reference"]

IMPLEMENTATIONS: tuple[Implementation, ...] = ("reference",)


@overload
def range_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    ranges: Ranges,
    *,
    key_valid: Array | None = ...,
    tiles: None = ...,
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
    tiles: None = ...,
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
    tiles: None = None,
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
        tiles: None.
        implementation: the backend's name, or None to let the chooser decide.
        return_lse: also return the logarithm of each row's sum of exponentials.

    Returns:
        The output, shaped and typed like q, exactly zero for a query that sees no key (and with zero gradient). With
        `return_lse` also `lse[rows, heads, query_tokens]`, natural logarithm, float32 (float64 for float64 inputs),
        -inf for a query that sees no key.

    Raises:
        TypeError: if a dtype is not the one named above.
        ValueError: if a shape does not fit, or `implementation` is not a known name.
    """
    q, k, v = (jnp.asarray(x) for x in (q, k, v))
    _check_arrays(q, k, v, key_valid)
    check_ranges(ranges, rows=q.shape[0], query_tokens=q.shape[1])
    if implementation not in (None, *IMPLEMENTATIONS):
        raise ValueError(f"implementation = {implementation!r}; known are {', '.join(IMPLEMENTATIONS)} and None")
    del tiles
    out, lse = reference.attend(q, k, v, ranges, key_valid)
    return (out, lse) if return_lse else out


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
