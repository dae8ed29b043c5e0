"""Which keys a query sees, as half-open ranges of key positions, and the two forms they travel in.

A query row attends the keys inside its R ranges `[start, end)`. The ranges of a row are ascending and disjoint; a
range with `start >= end` is empty and may stand anywhere, so rows with fewer ranges are filled up with `(0, 0)`. Three
queries over eight keys, R = 2:

    keys      0 1 2 3 4 5 6 7
    query 0   # # . . . # # .     (0, 2) (5, 7)
    query 1   . . # # # . . .     (2, 5) (0, 0)
    query 2   . . . . . . . .     (0, 0) (0, 0)    a row with no key: output 0, gradient 0

The *dense form* gives each query its ranges: `int32[rows, query_tokens, R, 2]`. The *run form*, `KeyRanges`, gives them
once for each run of queries that see the same keys. NumPy arrays and JAX arrays are both accepted everywhere.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

type Array = Any
"""A NumPy or JAX array (traced or not); which one decides where the work happens."""


class KeyRanges(NamedTuple):
    """Ranges a run, and the run of every query.

    Attributes:
        run_ranges: `int32[rows, runs, R, 2]`, for each run its ascending, disjoint, half-open ranges of key positions.
        run_of_query: `int32[rows, query_tokens]`, the run that a query belongs to; -1 for a query that sees no key.
    """

    run_ranges: Array
    run_of_query: Array


type Ranges = KeyRanges | Array
"""The run form, or the dense form `int32[rows, query_tokens, R, 2]`."""


def ranges_shape(ranges: Ranges) -> tuple[int, int, int]:
    """The numbers of rows, queries and ranges a query (R)."""
    if isinstance(ranges, KeyRanges):
        return (*ranges.run_of_query.shape, ranges.run_ranges.shape[2])
    return ranges.shape[:3]


def ranges_by_query(ranges: Ranges) -> jax.Array:
    """The dense form of either form, `int32[rows, query_tokens, R, 2]`. A query of run -1 gets `(0, 0)` R times."""
    if not isinstance(ranges, KeyRanges):
        return jnp.asarray(ranges)
    run_ranges, run = jnp.asarray(ranges.run_ranges), jnp.asarray(ranges.run_of_query)
    taken = jax.vmap(lambda table, index: table[index])(run_ranges, jnp.maximum(run, 0))
    return jnp.where((run >= 0)[..., None, None], taken, 0)


def check_ranges(ranges: Ranges, *, rows: int, query_tokens: int) -> None:
    """Refuses ranges whose dtype or shape does not fit `rows` and `query_tokens`.

    Values are not looked at (they may be traced); `wam_kernels.tiles` checks them on the host.

    Raises:
        TypeError: if an array is not int32.
        ValueError: if a shape does not fit.
    """
    if isinstance(ranges, KeyRanges):
        table, run = ranges
        _check_int32("ranges.run_ranges", table)
        _check_int32("ranges.run_of_query", run)
        if run.shape != (rows, query_tokens):
            raise ValueError(
                f"ranges.run_of_query has shape {run.shape}; [rows, query_tokens] is {(rows, query_tokens)}"
            )
        if len(table.shape) != 4 or table.shape[0] != rows or min(table.shape[1:3]) < 1 or table.shape[3] != 2:
            raise ValueError(f"ranges.run_ranges has shape {table.shape}; wanted [rows={rows}, runs >= 1, R >= 1, 2]")
        return
    _check_int32("ranges", ranges)
    shape = ranges.shape
    if len(shape) != 4 or shape[:2] != (rows, query_tokens) or shape[2] < 1 or shape[3] != 2:
        raise ValueError(f"ranges has shape {shape}; wanted [rows={rows}, query_tokens={query_tokens}, R >= 1, 2]")


def _check_int32(name: str, array: Array) -> None:
    if not hasattr(array, "dtype") or array.dtype != jnp.int32:
        raise TypeError(f"{name} has dtype {getattr(array, 'dtype', type(array).__name__)}; wanted int32")
