"""A number that changes when stored values do.

The checkpoint format notices truncated and missing files, but not flipped bits inside an array (measured). So the sum
of every array's bit patterns modulo 2**32 is kept beside it. Integer addition has no order: the sum is the same on
every mesh, and a single flipped bit always changes it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}


@jax.jit
def _sums(leaves: list[jax.Array]) -> list[jax.Array]:
    return [_sum(leaf) for leaf in leaves]


def _sum(leaf: jax.Array) -> jax.Array:
    bits = jax.lax.bitcast_convert_type(leaf, _UNSIGNED[leaf.dtype.itemsize])
    return jnp.sum(bits.astype(jnp.uint32), dtype=jnp.uint32)


def checksums(tree: Any) -> list[int]:
    """One number a leaf, in the order of `jax.tree.leaves`; waits for the values."""
    return [int(np.asarray(value)) for value in jax.device_get(_sums(jax.tree.leaves(tree)))]
