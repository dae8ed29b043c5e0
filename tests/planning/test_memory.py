"""A plan for the CPU of this process against the run itself."""

import jax
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from wam_jax.planning.abstract import AbstractRun, abstract_run
from wam_jax.planning.memory import Memory, device_bytes
from wam_jax.planning.topology import Topology, planned_mesh
from wam_jax.training.mesh import make_mesh, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.run import make_policy
from wam_jax.training.state import initialise

SIZES = {"parameters": 100, "optimizer": 200, "average": 0, "gradients": 100, "batches": 10}


@pytest.fixture(scope="module")
def planned(config, store) -> AbstractRun:
    with planned_mesh(Topology("cpu", 1), (1, 1)) as mesh:
        return abstract_run(config, store, mesh)


@pytest.fixture(scope="module")
def live(config, store, planned):
    """State, accumulator and batch of the run itself."""
    optimizer = make_optimizer(config.training.optimizer, num_steps=config.training.num_steps)
    state = initialise(planned.state, make_policy(config, store), optimizer, seed=0)
    batch = planned.data.step_maker()(0).batches[0]
    return state, planned.programs.zeros(), put_rows(make_mesh((1, 1)), batch)


def live_bytes(tree) -> int:
    return sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(tree))


def test_planned_parts_are_the_bytes_of_live_arrays(plan, live):
    state, total, batch = live
    assert plan.memory.parameters == live_bytes(state.params)
    assert plan.memory.optimizer == live_bytes(state.opt_state)
    assert plan.memory.gradients == live_bytes(total)
    assert plan.memory.batches == 2 * live_bytes(batch)


def test_planned_programs_have_the_sizes_of_live_ones(plan, planned, live):
    state, total, batch = live
    programs = planned.programs
    pairs = [
        (plan.gradients[0], programs.gradient.lower(state.params, total, batch)),
        (plan.update, programs.update.lower(state, total)),
    ]
    for program, lowered in pairs:
        sizes = lowered.compile().memory_analysis()
        assert program.arguments == sizes.argument_size_in_bytes
        assert program.outputs == sizes.output_size_in_bytes
        assert program.temporaries == sizes.temp_size_in_bytes


def test_a_part_is_counted_once_on_each_device_that_has_it():
    mesh = AbstractMesh((2, 4), ("data", "fsdp"))
    split, whole = NamedSharding(mesh, PartitionSpec(None, "fsdp")), NamedSharding(mesh, PartitionSpec())
    tree = [
        jax.ShapeDtypeStruct((3, 8), "float32", sharding=split),
        jax.ShapeDtypeStruct((5,), "bfloat16", sharding=whole),
    ]
    assert device_bytes(tree) == 3 * 2 * 4 + 5 * 2


@pytest.mark.parametrize(("gradient", "update", "peak"), [(50, 20, 460), (5, 70, 470)])
def test_the_peak_is_the_fuller_of_two_moments(gradient, update, peak):
    memory = Memory(**SIZES, gradient_temporaries=gradient, update_temporaries=update, saved_activations=0, usable=465)
    assert memory.peak == peak
    assert memory.spare == 465 - peak
