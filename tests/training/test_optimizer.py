"""AdamW against the formula, its learning rate against drawings of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wam_jax.config.schema import OptimizerConfig
from wam_jax.training.optimizer import adamw, decay_mask, learning_rate_schedule, moving_average


def rates(config: OptimizerConfig, count: int, *, num_steps: int) -> np.ndarray:
    schedule = learning_rate_schedule(config, num_steps=num_steps)
    return np.array([np.asarray(schedule(step)) for step in range(count)])


def test_the_first_update_of_a_warmup_already_moves() -> None:
    config = OptimizerConfig(learning_rate=0.8, warmup_steps=4)
    np.testing.assert_allclose(rates(config, 6, num_steps=10), [0.2, 0.4, 0.6, 0.8, 0.8, 0.8], rtol=1e-6)


def test_a_line_falls_to_the_final_rate() -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule="linear", warmup_steps=2, final_learning_rate=0.2)
    np.testing.assert_allclose(rates(config, 7, num_steps=6), [0.5, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2], rtol=1e-6)


def test_half_a_cosine_falls_to_the_final_rate() -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule="cosine", final_learning_rate=0.5)
    expected = 0.5 + 0.5 * 0.5 * (1 + np.cos(np.pi * np.arange(5) / 4))
    np.testing.assert_allclose(rates(config, 5, num_steps=4), expected, rtol=1e-6)


def test_a_warmup_may_last_the_whole_run() -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule="cosine", warmup_steps=2)
    np.testing.assert_allclose(rates(config, 2, num_steps=2), [0.5, 1.0])


def test_only_kernels_decay_also_where_biases_are_stacked() -> None:
    params = {"blocks": {"kernel": jnp.ones((2, 3, 3)), "bias": jnp.ones((2, 3)), "scale": jnp.ones((2, 3))}}
    params["table"] = {"table": jnp.ones((2, 3))}
    assert jax.tree.leaves(decay_mask(params)) == [False, True, False, False]


@pytest.mark.parametrize("max_grad_norm", [None, 0.5])
def test_two_updates_follow_the_formula(max_grad_norm: float | None) -> None:
    config = OptimizerConfig(beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.1, max_grad_norm=max_grad_norm)
    transform, params = adamw(config), {"kernel": jnp.array([2.0, -1.0])}
    state, first, second = transform.init(params), np.zeros(2), np.zeros(2)
    for count, gradient in enumerate((np.array([0.3, -0.6]), np.array([1.2, 0.1])), start=1):
        direction, state = transform.update({"kernel": jnp.asarray(gradient, jnp.float32)}, state, params)
        clipped = gradient * min(1, (max_grad_norm or np.inf) / np.linalg.norm(gradient))
        first, second = 0.8 * first + 0.2 * clipped, 0.9 * second + 0.1 * clipped**2
        adam = (first / (1 - 0.8**count)) / (np.sqrt(second / (1 - 0.9**count)) + 1e-3)
        np.testing.assert_allclose(*jax.tree.leaves(direction), adam + 0.1 * np.asarray(params["kernel"]), rtol=1e-5)


def test_a_moving_average_moves_by_what_the_decay_leaves() -> None:
    average = moving_average({"a": jnp.array([1.0])}, {"a": jnp.array([3.0])}, decay=0.75)
    np.testing.assert_allclose(average["a"], [1.5])
