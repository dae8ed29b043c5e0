"""Range attention over rows that are spread over devices.

Under plain `jit` the partitioner cannot look into a kernel (or a loop over tiles): it gathers every row, and every
device computes all of them. `shard_map` gives each device its own rows and no collective.
"""

from typing import Literal, overload

import jax
from jax.sharding import Mesh, PartitionSpec

from wam_kernels.api import Implementation, Tiles, range_attention
from wam_kernels.ranges import Array, Ranges


@overload
def sharded_range_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    ranges: Ranges,
    *,
    mesh: Mesh,
    row_axes: tuple[str, ...],
    key_valid: Array | None = ...,
    tiles: Tiles | None = ...,
    implementation: Implementation | None = ...,
    return_lse: Literal[False] = ...,
) -> jax.Array: ...
@overload
def sharded_range_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    ranges: Ranges,
    *,
    mesh: Mesh,
    row_axes: tuple[str, ...],
    key_valid: Array | None = ...,
    tiles: Tiles | None = ...,
    implementation: Implementation | None = ...,
    return_lse: Literal[True],
) -> tuple[jax.Array, jax.Array]: ...
def sharded_range_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    ranges: Ranges,
    *,
    mesh: Mesh,
    row_axes: tuple[str, ...],
    key_valid: Array | None = None,
    tiles: Tiles | None = None,
    implementation: Implementation | None = None,
    return_lse: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """`wam_kernels.range_attention` with rows spread over the mesh axes `row_axes`, each device computing its own.

    Every array leads with rows, the tile lists too, and the number of rows is a multiple of the devices on `row_axes`.
    The kernel is chosen for the devices of `mesh`. Other arguments, results and errors as `range_attention`.
    """
    rows = PartitionSpec(row_axes)

    def local(
        q: jax.Array, k: jax.Array, v: jax.Array, ranges: Ranges, key_valid: Array | None, tiles: Tiles | None
    ) -> tuple[jax.Array, jax.Array]:
        return range_attention(
            q, k, v, ranges, key_valid=key_valid, tiles=tiles, implementation=implementation, return_lse=True
        )

    # Pallas calls do not say how their outputs vary over the mesh, so that cannot be checked.
    spread = jax.shard_map(local, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False)
    out, lse = spread(q, k, v, ranges, key_valid, tiles)
    return (out, lse) if return_lse else out
