"""A plan for the CPU of this process against the run itself."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from wam_jax.config import Config, load
from wam_jax.data.storage.store import Store, open_store
from wam_jax.planning.memory import Memory, device_bytes
from wam_jax.planning.planner import Plan, make_plan
from wam_jax.planning.topology import Topology
from wam_jax.training.mesh import make_mesh, put_rows
from wam_jax.training.optimizer import make_optimizer
from wam_jax.training.programs import Programs
from wam_jax.training.run import compiled_programs, make_policy, open_data
from wam_jax.training.state import TrainState, abstract_state, initialise

SIZES = {"parameters": 100, "optimizer": 200, "average": 0, "gradients": 100, "batches": 10}
QUICKSTART = Path(__file__).parents[2] / "configs/quickstart.py"


class Live(NamedTuple):
    """What a run has on the device before its first update."""

    programs: Programs
    state: TrainState
    total: Any
    batch: Any


def start(config: Config, store: Store) -> Live:
    """Made as training makes it; the batch is one of the largest rung."""
    mesh = make_mesh((1, 1))
    data, policy = open_data(config, store, mesh), make_policy(config, store)
    optimizer = make_optimizer(config.training.optimizer, num_steps=config.training.num_steps)
    abstract = abstract_state(mesh, policy, optimizer)
    programs = compiled_programs(policy, optimizer, abstract, data)
    state = initialise(abstract, policy, optimizer, seed=0)
    return Live(programs, state, programs.zeros(), put_rows(mesh, data.empty_batches()[-1]))


def check_programs(plan: Plan, live: Live) -> None:
    """Arguments, outputs and temporaries of the compiled programs are equal, byte by byte."""
    update: Any = live.programs.update
    pairs = [
        (plan.gradients[-1], live.programs.gradient.lower(live.state.params, live.total, live.batch)),
        (plan.update, update.lower(live.state, live.total)),
    ]
    for program, lowered in pairs:
        sizes: Any = lowered.compile().memory_analysis()
        assert program.arguments == sizes.argument_size_in_bytes
        assert program.outputs == sizes.output_size_in_bytes
        assert program.temporaries == sizes.temp_size_in_bytes


def live_bytes(tree: Any) -> int:
    return sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(tree))


@pytest.fixture(scope="module")
def live(config, store) -> Live:
    return start(config, store)


def test_planned_parts_are_the_bytes_of_live_arrays(plan, live):
    assert plan.memory.parameters == live_bytes(live.state.params)
    assert plan.memory.optimizer == live_bytes(live.state.opt_state)
    assert plan.memory.gradients == live_bytes(live.total)
    assert plan.memory.batches == 2 * live_bytes(live.batch)


def test_planned_programs_have_the_sizes_of_live_ones(plan, live):
    check_programs(plan, live)


@pytest.mark.slow
def test_so_have_those_of_the_quick_start():
    config = load(str(QUICKSTART)).config
    store = open_store(config.data.store)
    plan = make_plan(config, store, Topology("cpu", 1), rungs="largest", usable=2**40, progress=print)
    check_programs(plan, start(config, store))


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
