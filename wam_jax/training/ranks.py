"""Work that each rank does by itself: on its own rows, with its own part of every split parameter.

Functions of (params, batch) are run in `jax.shard_map` over both axes of the mesh. Inside, a batch has the rows of one
rank and a split parameter is a part (`wam_jax.model.shards`), so that no partitioner decides what moves: the compiled
program has the collectives that are written down, and no others.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from wam_jax.data.transport import RowBatch
from wam_jax.policies.base import Params
from wam_jax.training.mesh import AXES, FSDP

type Own[Result] = Callable[[Params, RowBatch], Result]


def on_each_rank[Result](function: Own[Result], abstract: Params, *, out_specs: Any) -> Own[Result]:
    """A function of the whole parameters and batch that runs `function` on every rank.

    Args:
        function: of a rank's parameters and rows.
        abstract: the whole parameters, for their shardings.
        out_specs: how the ranks' results make up the whole.
    """
    specs = jax.tree.map(lambda leaf: leaf.sharding.spec, abstract)
    mesh = jax.tree.leaves(abstract)[0].sharding.mesh

    def spread(params: Params, batch: RowBatch) -> Result:
        rows = jax.tree.map(lambda array: PartitionSpec(AXES) if array.ndim else PartitionSpec(), batch)
        # Kernels do not say how their results vary over the mesh, so that cannot be checked.
        run = jax.shard_map(function, mesh=mesh, in_specs=(specs, rows), out_specs=out_specs, check_vma=False)
        return run(params, batch)

    return spread


def sum_whole_gradients(gradients: Params, abstract: Params) -> Params:
    """A rank's gradients, those of parameters that no axis splits summed over "fsdp" in float32, as split ones are."""
    alone = jax.lax.axis_size(FSDP) == 1

    def summed(gradient: jax.Array, leaf: Any) -> jax.Array:
        exact = gradient.astype(jnp.float32)
        return exact if alone or FSDP in leaf.sharding.spec else jax.lax.psum(exact, FSDP)

    return jax.tree.map(summed, gradients, abstract)


def stacked(tree: Any) -> Any:
    """Every array with a leading axis of one, for results of several ranks to be stacked along."""
    return jax.tree.map(lambda array: array[None], tree)
