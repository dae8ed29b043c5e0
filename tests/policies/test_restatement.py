"""The product against the restatement: real draws from a store, batched in a row, each compared with itself alone.

The restatement runs one sample in float64 with dense masks and none of the product's rows, ranges or permutations. The
product's parameters are random, so that nothing is compared at zero.
"""

import jax
import jax.numpy as jnp
import pytest

from tests.support.networks import SMALL_NETWORK, UNEQUAL_EXPERTS, policy_for, random_params
from tests.support.oracle import check_restated
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import open_store


def _config(tmp_path):
    return tiny_config(
        data={"store": str(tmp_path / "store"), "train_batch_size": 3},
        construction={"mode": "uniform_segment", "max_segment_frames": 5, "chunk_size": 3, "window_size": 6},
        policy={"proprio_context_mode": "per_chunk_additive", "use_condition_latents": False, **UNEQUAL_EXPERTS},
        backbone=SMALL_NETWORK,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Configuration, store, parameters, data, and the losses and the gradient of one weighting of a batch's samples."""
    path = tmp_path_factory.mktemp("restatement")
    write_tiny_store(path / "store", lengths=(7, 5, 9, 8, 6), height=2, width=4)
    config, store = _config(path), open_store(path / "store")
    data = TrainData(config, store, rows=range(1))
    policy = policy_for(config, store)

    def weighted(params, batch, weights):
        losses = policy.forward_train_batch(params, batch)
        return jnp.vdot(losses["loss"][0], weights), losses

    return config, store, random_params(policy), data, jax.jit(jax.value_and_grad(weighted, has_aux=True))


@pytest.mark.parametrize("step", [0, 1])
def test_losses_and_gradients_of_each_sample(run, step):
    config, store, params, data, evaluate = run
    batch, draws = next(iter(data.steps(step))).batches[0], data.planner.plan(step).draws
    for slot in range(3):
        (_, found), gradient = evaluate(params, batch, jnp.eye(3)[slot])
        losses = {name: value[0, slot] for name, value in found.items()}
        check_restated(losses, gradient, params, config, store, draws[0, 0, slot])
