"""Every program in every mode, packer, split and set of rungs, on samples of 2 to 70 frames and 0 to 64 text tokens.

The default run has the same comparison for short samples of one program (`test_batching_modes.py`). Programs are data,
so all of them run through the same compiled programs.
"""

from typing import Any

import jax
import numpy as np
import pytest

from tests.support.batched import Draw, Result, Runner, assert_equal
from tests.support.networks import SMALL_NETWORK, UNEQUAL_EXPERTS
from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.config.schema import Config, OptimizerConfig
from wam_jax.data.storage.store import Store, open_store
from wam_jax.sequence.programs import PROGRAMS
from wam_jax.training.optimizer import adamw

pytestmark = pytest.mark.slow
IN_CI = ("joint", "generalist_joint_denoising")
"""Programs that the continuous integration tries in every mode; the others take as long again each."""

LENGTHS = (70, 2, 33, 9, 17, 3, 51, 5, 26)
TEXTS = (64, 0, 16, 1, 33, 7, 64, 2, 5)
DRAWS = 8
LONGEST = 70 * 2 * 4  # tokens of the longest sample: two copies of one video token and two action slots, and its prefix
MODES: dict[str, dict[str, Any]] = {
    "strict": {"mode": "strict", "max_compiled_shapes": 4},
    "padded": {"mode": "padded"},
    "padded, four rungs": {"mode": "padded", "max_compiled_shapes": 4},
    "bucket": {"mode": "bucket", "bucket_pool_size": 8},
    "packed": {"mode": "packed"},
    "packed, four rungs": {"mode": "packed", "max_compiled_shapes": 4},
    "packed, in order": {"mode": "packed", "balance_ranks": False},
    "packed, aligned": {"mode": "packed", "tile_alignment": 64},
    "budget, best fit": {"mode": "packed", "max_tokens": LONGEST + 50},
    "budget, first fit": {"mode": "packed", "max_tokens": LONGEST + 50, "packer": "first_fit"},
    "budget, in order": {"mode": "packed", "max_tokens": LONGEST + 50, "packer": "in_order"},
}
SPLITS = [(1, 4), (4, 1), (2, 2)]
ROUTED = (("real_demo", "joint", 1.0), ("real_demo", "action_conditioned_video", 1.0))


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    rng = np.random.default_rng(0)
    texts = {i: {"text_context": rng.normal(size=(n, 4)).astype(np.float32)} for i, n in enumerate(TEXTS)}
    path = tmp_path_factory.mktemp("matrix") / "store"
    return open_store(write_tiny_store(path, (*LENGTHS, 4), splits=["train"] * len(LENGTHS) + ["val"], overrides=texts))


def _config(program: str, batching: dict[str, Any], *, microbatch: int = 2, accumulation: int = 2) -> Config:
    routed = program == "generalist_joint_denoising" and batching["mode"] != "bucket"
    if batching["mode"] == "strict":  # Which takes samples of unequal lengths one by one.
        microbatch, accumulation = 1, microbatch * accumulation
    return tiny_config(
        data={"train_batch_size": microbatch, "val_batch_size": 1},
        construction={"chunk_size": 5, "window_size": 64} | ({"sample_order_mode": "replacement"} if routed else {}),
        routing={"routes": ROUTED} if routed else {},
        batching={"max_compiled_shapes": 1, **batching},
        policy={"program": program, "proprio_context_mode": "per_chunk_additive", **UNEQUAL_EXPERTS},
        training={"gradient_accumulation_steps": accumulation},
        backbone=SMALL_NETWORK | {"max_text_tokens": 64},
    )


@pytest.fixture(scope="module")
def runner(store) -> Runner:
    return Runner(store, _config("joint", {"mode": "padded"}))


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in IN_CI else pytest.mark.long) for name in PROGRAMS],
)
def program(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def alone(runner, program) -> dict[Draw, Result]:
    return runner.results(_config(program, {"mode": "padded"}, microbatch=1, accumulation=4), draws=DRAWS)


@pytest.fixture(scope="module")
def unrouted_alone(runner, program, alone) -> dict[Draw, Result]:
    """Of the draws that buckets see, which take no routes."""
    if program != "generalist_joint_denoising":
        return alone
    return runner.results(_config(program, MODES["bucket"], microbatch=1, accumulation=4), draws=DRAWS)


@pytest.mark.parametrize("mode", MODES)
def test_no_mode_changes_a_loss_a_boundary_or_a_gradient(mode, runner, program, alone, unrouted_alone):
    expected = unrouted_alone if mode == "bucket" else alone
    assert_equal(runner.results(_config(program, MODES[mode]), draws=DRAWS), expected)


@pytest.mark.parametrize(("microbatch", "accumulation"), SPLITS)
def test_no_split_changes_a_loss_a_boundary_or_a_gradient(microbatch, accumulation, runner, program, alone):
    config = _config(program, {"mode": "packed"}, microbatch=microbatch, accumulation=accumulation)
    assert_equal(runner.results(config, draws=DRAWS), alone)


@pytest.mark.parametrize(
    "mode", ["strict", "padded", "bucket", "packed, four rungs", "packed, aligned", "budget, best fit"]
)
def test_one_update_is_the_same_in_every_mode(mode, runner, program, alone, unrouted_alone):
    wanted, mean = _update(unrouted_alone if mode == "bucket" else alone, runner.params)
    found, found_mean = _update(runner.results(_config(program, MODES[mode]), draws=DRAWS), runner.params)
    whole = np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(mean)))
    leaves = zip(*map(jax.tree.leaves, (found, wanted, found_mean, mean)), strict=True)
    for ours, theirs, our_gradient, gradient in leaves:
        if np.linalg.norm(gradient) < 1e-6 * whole:  # Zero but for rounding: the program does not train it.
            assert np.linalg.norm(our_gradient) < 2e-6 * whole
        else:
            # The first step of Adam is g / (|g| + eps): a gradient of rounding noise gives a step of noise.
            noise = (gradient != 0) & (np.abs(gradient) <= 1e-5 * np.abs(gradient).max())
            assert noise.mean() < 0.02
            assert np.linalg.norm((ours - theirs)[~noise]) <= 1e-4 * np.linalg.norm(theirs)


def _update(results: dict[Draw, Result], params: Any) -> tuple[Any, Any]:
    """What the optimizer adds to the parameters after one update of all draws, and the gradient it is of."""
    gradients = [result.gradient for _, result in sorted(results.items())]
    mean = jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *gradients)
    transform = adamw(OptimizerConfig(max_grad_norm=1.0))
    return jax.tree.map(np.asarray, transform.update(mean, transform.init(params), params)[0]), mean
