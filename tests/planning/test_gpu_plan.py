"""A plan for GPUs that are not there. Needs the compiler's wheels: `.ci/aot` runs it where they are."""

import importlib.util
import os

import pytest

from wam_jax.planning.changes import changed
from wam_jax.planning.planner import make_plan
from wam_jax.planning.topology import Topology, prepare_for

READY = importlib.util.find_spec("jax_plugins") is not None and os.environ.get("XLA_FLAGS") == ""

pytestmark = [
    pytest.mark.aot,
    pytest.mark.skipif(not READY, reason="run by .ci/aot, in an environment of its own"),
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def gpu_plan(config, store):
    topology = Topology("h100", 4, hosts=2)
    prepare_for(topology)
    split = changed(config, {"trainer.mesh": (2, 2), "backbone.compute_dtype": "bfloat16", "backbone.remat": "block"})
    return make_plan(split, store, topology, rungs="ends", usable=2**40, progress=print)


def test_weights_go_over_fsdp_and_gradients_once_over_data(gpu_plan):
    sent = {(one.kind, one.axes): one for one in gpu_plan.collectives}
    assert sent["all-gather", "fsdp"].calls > 0
    assert sent["reduce-scatter", "fsdp"].calls > 0
    assert sent["all-reduce", "data"].sent >= gpu_plan.memory.gradients * 0.9
    assert not any(kind == "all-to-all" for kind, _ in sent)


def test_the_kernels_of_the_target_are_reported_and_spill_nothing(gpu_plan):
    kernels = gpu_plan.gradients[0].kernels
    assert {name.rsplit("_", 1)[0] for name in kernels} == {f"range_attention_{k}" for k in ("forward", "dq", "dkv")}
    assert all(cost.registers > 0 and cost.shared_memory > 0 for cost in kernels.values())
    assert not any(cost.spilled_bytes for cost in kernels.values())


def test_parts_of_the_state_are_those_of_one_device(gpu_plan):
    whole = 4 * gpu_plan.parameters["total"]
    assert whole / 2 <= gpu_plan.memory.parameters < whole
    assert gpu_plan.memory.gradient_temporaries > 0
