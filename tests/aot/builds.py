"""The three kernels of a backend, compiled alone for a GPU that need not be there."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from wam_kernels.backend import Mask, Problem
from wam_kernels.operands import Backward
from wam_kernels.pallas_mosaic import PallasMosaic
from wam_kernels.pallas_triton import PallasTriton
from wam_kernels.resources import Resources, kernel_resources
from wam_kernels.target import current_target
from wam_kernels.tiles import TileList, TileLists

TOKENS, HEADS = 32_768, 24


def spec(mesh: Mesh, shape: tuple[int, ...], dtype: str) -> Any:
    """What stands in for an array of this shape on every device of the mesh."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, PartitionSpec()))


def mask(mesh: Mesh, sizes: tuple[tuple[int, int], ...], ranges: int, *, valid: bool) -> Mask:
    """A mask of `TOKENS` queries and keys, a quarter of its tiles active."""

    def lists(size: tuple[int, int]) -> TileLists:
        lines, columns = TOKENS // size[0], TOKENS // size[1]
        across = spec(mesh, (1, lines * columns // 4), "int32")
        by_query = TileList(across, spec(mesh, (1, lines, 3), "int32"))
        return TileLists(by_query, TileList(across, spec(mesh, (1, columns, 3), "int32")), *size)

    bits = spec(mesh, (1, TOKENS), "bool") if valid else None
    return Mask(spec(mesh, (1, ranges, 2, TOKENS), "int32"), bits, tuple(map(lists, sizes)))


def resources(
    mesh: Mesh,
    backend: PallasTriton | PallasMosaic,
    kernel: str,
    head_dim: int,
    dtype: str,
    ranges: int,
    *,
    valid: bool,
) -> Resources:
    """What one kernel (`forward`, `dq` or `dkv`) costs with the launches of the table."""
    problem = Problem(1, TOKENS, TOKENS, HEADS, head_dim, jnp.dtype(dtype), ranges)
    backend = backend.resolve(problem, current_target(), ())
    seen = mask(mesh, backend.tile_sizes(), ranges, valid=valid)
    x = spec(mesh, (1, TOKENS, HEADS, head_dim), dtype)
    row = spec(mesh, (1, HEADS, TOKENS), "float32")
    if kernel == "forward":
        found = kernel_resources(backend.forward, x, x, x, seen)
    else:
        found = kernel_resources(getattr(backend, kernel), Backward(x, x, x, x, row, row), seen)
    (cost,) = [cost for name, cost in found.items() if name.startswith("range_attention")]
    return cost
