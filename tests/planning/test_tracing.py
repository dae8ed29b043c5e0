"""Counts of traced programs against counts by hand."""

import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, PartitionSpec

from wam_jax.planning.tracing import matmul_flops, saved_bytes

X, W = jax.ShapeDtypeStruct((2, 3), "float32"), jax.ShapeDtypeStruct((5, 3, 3), "float32")
PRODUCT = 2 * 2 * 3 * 3


def network(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda carry, layer: (jnp.sin(carry @ layer), None), x, w)[0].sum()


def traced(function, *args):
    return jax.jit(function).trace(*args).jaxpr.jaxpr


def test_a_layer_counts_as_often_as_it_runs():
    assert matmul_flops(traced(network, X, W)) == 5 * PRODUCT


def test_the_backward_pass_has_two_products_for_one():
    assert matmul_flops(traced(jax.grad(network, (0, 1)), X, W)) == 3 * 5 * PRODUCT


def test_recomputation_counts():
    def recomputed(x: jax.Array, w: jax.Array) -> jax.Array:
        layer = jax.checkpoint(lambda carry, layer: (jnp.sin(carry @ layer), None), prevent_cse=False)
        return jax.lax.scan(layer, x, w)[0].sum()

    assert matmul_flops(traced(jax.grad(recomputed, (0, 1)), X, W)) == 4 * 5 * PRODUCT


def test_a_loop_over_data_is_left_out_and_of_two_branches_the_larger_counts():
    def looped(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, x[0, 0].astype(int), lambda _, carry: carry @ w[0], x)

    def branched(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.cond(x[0, 0] > 0, lambda: x @ w[0] @ w[1], lambda: x @ w[0])

    assert matmul_flops(traced(looped, X, W)) == 0
    assert matmul_flops(traced(branched, X, W)) == 2 * PRODUCT


POLICIES = jax.checkpoint_policies
OFFLOADED = POLICIES.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["input"],
    offload_src="device",
    offload_dst="pinned_host",
)


@pytest.mark.parametrize(
    ("keep", "expected"), [(POLICIES.nothing_saveable, 1), (POLICIES.dots_saveable, 2), (OFFLOADED, 0)]
)
def test_what_layers_keep_on_the_device_follows_the_policy(keep, expected):
    def recomputed(x: jax.Array, w: jax.Array) -> jax.Array:
        def layer(carry: jax.Array, kernel: jax.Array) -> tuple[jax.Array, None]:
            return jnp.sin(checkpoint_name(carry, "input") @ kernel), None

        return jax.lax.scan(jax.checkpoint(layer, policy=keep, prevent_cse=False), x, w)[0].sum()

    assert saved_bytes(traced(jax.grad(recomputed, (0, 1)), X, W)) == expected * 5 * 2 * 3 * 4


def test_inside_shard_map_counts_are_of_one_device():
    mesh = Mesh(jax.devices()[:1], ("rows",))
    rows, whole = PartitionSpec("rows"), PartitionSpec()
    spread = jax.shard_map(lambda x, w: network(x, w)[None], mesh=mesh, in_specs=(rows, whole), out_specs=rows)
    assert matmul_flops(traced(spread, X, W)) == 5 * PRODUCT
