"""Launches of the invariant kernels: functions of the target, the dtype and a row's own size, never of how many rows.

Provenance: the largest tiles that spill nothing when compiled ahead of time (jax 0.12.0.1, ptxas 12.9.86). No GPU has
measured them. Float32 is multiplied without tensor cores; its launches are there to be right, not fast.
"""

from typing import NamedTuple

import jax.numpy as jnp

_AMPERE, _HOPPER = (8, 0), (9, 0)


class ProductLaunch(NamedTuple):
    """A product's launch.

    Attributes:
        rows: rows of a result tile.
        columns: columns of a result tile.
        inner: how much of the contracted axis a step takes: terms are added in this order, step after step.
        warps: warps a block.
        stages: pipeline stages.
    """

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int


class RowLaunch(NamedTuple):
    """A launch over whole rows.

    Attributes:
        rows: rows a block.
        columns: columns of a block, a power of two no less than a row's width.
        warps: warps a block.
    """

    rows: int
    columns: int
    warps: int


_PRODUCT = {
    (_HOPPER, "bfloat16"): ProductLaunch(128, 128, 64, 8, 3),
    (_AMPERE, "bfloat16"): ProductLaunch(128, 128, 32, 8, 2),
    (_HOPPER, "float32"): ProductLaunch(64, 64, 32, 8, 2),
    (_AMPERE, "float32"): ProductLaunch(64, 64, 32, 8, 2),
}

WIDEST = 16_384
"""Columns of the widest row that a block holds."""

_ELEMENTS = 4096
"""Elements of a block of rows, unless a single row has more."""

SUM_ROWS, SUM_COLUMNS, SUM_WARPS = 64, 64, 4
"""A step of a sum over rows, and what one block sums."""


def product_launch(capability: tuple[int, int] | None, dtype: jnp.dtype) -> ProductLaunch:
    """For float32 or bfloat16. A capability between two that were compiled for takes the lower one's launch."""
    base = _HOPPER if capability is not None and capability >= _HOPPER else _AMPERE
    return _PRODUCT[base, jnp.dtype(dtype).name]


def row_launch(width: int) -> RowLaunch:
    """For rows of a width."""
    columns = max(32, 1 << (width - 1).bit_length())
    return RowLaunch(max(1, min(32, _ELEMENTS // columns)), columns, 4 if columns <= 4096 else 8)
