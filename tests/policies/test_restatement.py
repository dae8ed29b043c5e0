"""The product against the restatement: real draws from a store, batched in a row, each compared with itself alone.

The restatement runs one sample in float64 with dense masks and none of the product's rows, ranges or permutations. The
product's parameters are moved off their initial values first, so that nothing is compared at zero.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.restatement.losses import gradients, predict
from tests.support.oracle import architecture, restated_params, restated_sample
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.loader import TrainData
from wam_jax.data.store import open_store
from wam_jax.model import model_config
from wam_jax.policies.dual_expert import DualExpertPolicy, policy_from_config

LOSSES = {
    "loss": "joint_loss",
    "video_loss": "video_diffusion_loss",
    "action_loss": "action_diffusion_loss",
    "latent_mse": "latent_mse",
    "action_mse": "action_mse",
}
TOLERANCE = 3e-5


def _config(tmp_path):
    return tiny_config(
        data={"store": str(tmp_path / "store"), "train_batch_size": 3},
        construction={"mode": "uniform_segment", "max_segment_frames": 5, "chunk_size": 3, "window_size": 6},
        policy={
            "proprio_context_mode": "per_chunk_additive",
            "use_condition_latents": False,
            "action_hidden_size": 12,
            "action_ffn_dim": 20,
            "action_expert_init_mode": "random",
        },
        backbone={"hidden_size": 16, "num_layers": 2, "num_heads": 2, "head_dim": 8, "ffn_dim": 24, "freq_dim": 8},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Store, configuration, policy, moved parameters, one batch and its draws."""
    path = tmp_path_factory.mktemp("restatement")
    write_tiny_store(path / "store", lengths=(7, 5, 9, 8, 6), height=2, width=4)
    config, store = _config(path), open_store(path / "store")
    data = TrainData(config, store, rows=range(1))
    dims = store.manifest.dims
    model = model_config(
        config,
        action_dim=dims.action_dim,
        state_dim=dims.state_dim,
        text_dim=dims.text_dim,
        latent_height=dims.height,
        latent_width=dims.width,
        actions_per_frame=store.manifest.actions_per_frame,
    )
    policy = policy_from_config(config, model)
    return config, store, policy, moved(policy), data


def moved(policy: DualExpertPolicy):
    """Initial parameters plus noise, so that no bias, table or encoder is zero."""
    params = jax.jit(policy.init)(jax.random.key(0))
    leaves, tree = jax.tree.flatten(params)
    noise = [
        0.1 * jax.random.normal(key, leaf.shape)
        for key, leaf in zip(jax.random.split(jax.random.key(1), len(leaves)), leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, [leaf + extra for leaf, extra in zip(leaves, noise, strict=True)])


def relative_error(found: np.ndarray, expected: np.ndarray, floor: float) -> float:
    """Frobenius norm of the difference over that of the expected array, or the floor where that is larger."""
    return float(np.linalg.norm(found - expected) / max(np.linalg.norm(expected), floor))


def test_losses_and_metrics_of_each_sample(run):
    config, store, policy, params, data = run
    for step in range(2):
        batch, draws = next(iter(data.steps(step))).batches[0], data.planner.plan(step).draws
        found = jax.jit(policy.forward_train_batch)(params, batch)
        for slot in range(3):
            sample = restated_sample(config, store, draws[0, 0, slot])
            _, _, expected = predict(restated_params(params), sample, architecture(config))
            for ours, theirs in LOSSES.items():
                assert found[ours][0, slot] == pytest.approx(expected[theirs], rel=TOLERANCE), (step, slot, ours)


def test_gradients_of_each_sample(run):
    config, store, policy, params, data = run
    batch, draws = next(iter(data.steps(0))).batches[0], data.planner.plan(0).draws
    gradient = jax.jit(jax.grad(lambda p, weights: jnp.vdot(policy.forward_train_batch(p, batch)["loss"][0], weights)))
    for slot in range(3):
        sample = restated_sample(config, store, draws[0, 0, slot])
        expected = gradients(restated_params(params), sample, architecture(config))
        found = restated_params(gradient(params, jnp.eye(3)[slot]))
        floor = 1e-6 * np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(expected)))
        errors = jax.tree.map(lambda a, b, floor=floor: relative_error(a, b, floor), found, expected)
        worst = max(jax.tree.leaves_with_path(errors), key=lambda item: item[1])
        assert worst[1] < TOLERANCE, (slot, worst)
