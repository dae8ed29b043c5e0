"""Parts are recognised by their shape, gathered in the compute dtype, and their gradients reduced in float32."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from tests.model.rows import TINY, random_params, random_row, tiny
from tests.model.tracing import equations
from wam_jax.model import merge
from wam_jax.model.shards import AXIS, part_axis, whole_array

MESH = AbstractMesh((1, 4), ("data", AXIS), axis_types=(AxisType.Auto,) * 2)
BF16 = jnp.dtype("bfloat16")


def on_a_rank(function: Any, argument: Any, *, specs: Any) -> list[Any]:
    """All equations of a function that is traced as one of four ranks."""
    traced = jax.shard_map(function, mesh=MESH, in_specs=(specs,), out_specs=specs, check_vma=False)
    return list(equations(jax.make_jaxpr(traced)(argument).jaxpr))


def named(found: list[Any], name: str) -> list[Any]:
    return [equation for equation in found if equation.primitive.name == name]


@pytest.mark.parametrize(("part", "axis"), [((8, 4), None), ((2, 4), -2), ((8, 1), -1)])
def test_a_part_is_known_by_its_shape(part: tuple[int, ...], axis: int | None) -> None:
    seen: list[int | None] = []
    on_a_rank(lambda x: (seen.append(part_axis(part, (8, 4))), x)[1], jnp.zeros(4), specs=P(AXIS))
    assert seen == [axis]


@pytest.mark.parametrize("part", [(4, 4), (2, 1), (2, 4, 1), (8,)])
def test_what_is_no_part_is_refused(part: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="is no part of"):
        on_a_rank(lambda x: (part_axis(part, (8, 4)), x)[1], jnp.zeros(4), specs=P(AXIS))
    with pytest.raises(ValueError, match=r"is no part of"):
        part_axis((2, 4), (8, 4))  # Outside, there are no parts.


def test_a_kernel_is_gathered_narrow_and_its_gradient_reduced_wide() -> None:
    def own(part: jax.Array) -> jax.Array:
        return jax.grad(lambda p: whole_array(p, (8, 4), BF16).astype(jnp.float32).sum())(part)

    found = on_a_rank(own, jnp.zeros((8, 4)), specs=P(AXIS))
    (gathered,), (reduced,) = named(found, "all_gather"), named(found, "reduce_scatter")
    assert (gathered.outvars[0].aval.dtype, gathered.outvars[0].aval.shape) == (BF16, (8, 4))
    assert (reduced.invars[0].aval.dtype, reduced.outvars[0].aval.shape) == (jnp.float32, (2, 4))


@pytest.mark.parametrize("remat", ["none", "block", "save_attention"])
def test_no_layer_keeps_the_kernels_it_gathered(remat: str) -> None:
    """The kernels of the stacks are gathered in the forward scan, and once more in the backward one."""
    config, row, params = tiny(remat=remat), random_row(TINY), random_params(TINY)
    whole = set()

    def spec(path: Any, leaf: Any) -> P:
        keys = [key.key for key in path]
        if "blocks" not in keys or keys[-1] != "kernel":
            return P()
        whole.add(leaf.shape)
        return P(None, None, AXIS)

    def own(params: Any) -> Any:
        return jax.grad(lambda p: merge(config, p)(row).video.astype(jnp.float32).sum())(params)

    specs = jax.tree.map_with_path(spec, params)
    found = on_a_rank(own, params, specs=specs)
    kernels = sum(AXIS in leaf for leaf in jax.tree.leaves(specs, is_leaf=lambda leaf: isinstance(leaf, P)))
    assert kernels < len(named(found, "all_gather")) <= 2 * kernels
    assert not whole & {tuple(out.aval.shape) for scan in named(found, "scan") for out in scan.outvars}
