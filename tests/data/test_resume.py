"""Resuming at any step of 200, in any mode, goes on with exactly the bytes of the run that was never stopped.

The steps of all modes are made together and told by a digest of all their arrays, so that one pool of workers, which
takes seconds to start, serves every mode.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from tests.support.runs import tiny_config
from tests.support.stores import write_tiny_store
from wam_jax.data.batching.planner import StepPlan
from wam_jax.data.loader import Step, TrainData
from wam_jax.data.pipeline import prepared
from wam_jax.data.storage.store import open_store

STEPS, RANKS = 200, 2
LENGTHS = (3, 9, 2, 5, 7, 2, 4, 6, 8, 3, 2, 5, 4, 7, 6, 2, 3, 3)
BUDGET = 9 * 2 * (1 + 2)
"""Tokens of the longest episode, so that packs hold one to a few."""

REPLACEMENT = {"sample_order_mode": "replacement"}
ROUTES = (("real_demo", "joint", 2.0), ("counterfactual_dynamics", "video_conditioned_action", 1.0))


def budget(packer: str, **fields: Any) -> dict[str, Any]:
    return {"batching": {"mode": "packed", "max_tokens": BUDGET, "packer": packer, **fields}}


MODES: dict[str, dict[str, Any]] = {
    "strict": {"batching": {"mode": "strict"}, "data": {"train_batch_size": 1}},
    "padded": {"batching": {"mode": "padded", "pad_to_multiple_of": 4}},
    "bucket": {"batching": {"mode": "bucket", "bucket_pool_size": 5}},
    "packed": {"batching": {"mode": "packed"}},
    "packed in order": {"batching": {"mode": "packed", "balance_ranks": False}},
    "in_order": budget("in_order"),
    "first_fit": budget("first_fit"),
    "best_fit": budget("best_fit"),
    "best_fit by rank": budget("best_fit", balance_ranks=False),
    "by weight": {
        "batching": {"mode": "packed"},
        "construction": REPLACEMENT | {"replacement_weights": "length_and_task"},
    },
    "routed": {
        "batching": {"mode": "packed"},
        "construction": REPLACEMENT,
        "routing": {"routes": ROUTES, "counterfactual_sources": ("branch",)},
        "policy": {"program": "generalist_joint_denoising", "use_condition_latents": False},
    },
}


def digest(made: Step | StepPlan) -> str:
    """Of every array of a step or a plan, shapes and types included."""
    arrays = made.draws.columns() if isinstance(made, StepPlan) else made.batches
    found = hashlib.sha256()
    for leaf in map(np.asarray, jax.tree.leaves(arrays)):
        found.update(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes())
    return found.hexdigest()


@dataclass
class EveryMode:
    """The digests of a step in all modes."""

    makers: dict[str, Callable[[int], Any]]

    def __call__(self, step: int) -> dict[str, str]:
        return {mode: digest(make(step)) for mode, make in self.makers.items()}


Digests = list[dict[str, str]]
Fresh = Callable[[], EveryMode]


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Callable[[], dict[str, TrainData]]:
    """Opens the data of every mode anew."""
    path = tmp_path_factory.mktemp("resume") / "store"
    splits = ["train"] * (len(LENGTHS) - 2) + ["val"] * 2
    store = open_store(write_tiny_store(path, LENGTHS, splits=splits, sources=("lab", "lab", "branch")))
    training = {"num_steps": STEPS, "gradient_accumulation_steps": 2}
    rooms: dict[str, Any] = {"validation": {"num_draws": 1}, "training": training}
    configs = {mode: tiny_config(**(rooms | more)) for mode, more in MODES.items()}
    return lambda: {mode: TrainData(config, store, rows=range(RANKS)) for mode, config in configs.items()}


@pytest.fixture(scope="module")
def plans(opened) -> Fresh:
    return lambda: EveryMode({mode: data.planner.plan for mode, data in opened().items()})


@pytest.fixture(scope="module")
def batches(opened) -> Fresh:
    return lambda: EveryMode({mode: data.step_maker() for mode, data in opened().items()})


@pytest.fixture(scope="module")
def all_plans(plans) -> Digests:
    return resumed(plans(), 0, STEPS)


@pytest.fixture(scope="module")
def all_batches(batches) -> Digests:
    return resumed(batches(), 0, STEPS)


def resumed(make: EveryMode, start: int, count: int, *, num_workers: int = 0) -> Digests:
    with closing(prepared(make, range(start, STEPS), num_workers=num_workers, prefetch=2)) as steps:
        return list(itertools.islice(steps, count))


def assert_resumes(make: EveryMode, whole: Digests, starts: Iterable[int], *, num_workers: int = 0) -> None:
    for start in starts:
        wanted = whole[start : start + 2]
        assert resumed(make, start, len(wanted), num_workers=num_workers) == wanted, start


def test_every_step_of_every_mode_has_a_plan_of_its_own(all_plans):
    for mode in MODES:
        assert len({step[mode] for step in all_plans}) == STEPS, mode


def test_plans_go_on_at_every_step_as_if_never_stopped(plans, all_plans):
    assert_resumes(plans(), all_plans, reversed(range(STEPS)))


@pytest.mark.parametrize("start", [67, STEPS - 3])
def test_resumed_plans_go_on_to_the_end(plans, all_plans, start):
    assert resumed(plans(), start, STEPS) == all_plans[start:]


def test_batches_go_on_at_each_of_the_first_steps_as_if_never_stopped(batches):
    assert_resumes(batches(), resumed(batches(), 0, 10), range(9))


def test_workers_go_on_as_threads_do(batches):
    assert resumed(batches(), 33, 4, num_workers=2) == resumed(batches(), 33, 4)


@pytest.mark.slow
def test_batches_go_on_at_every_step_as_if_never_stopped(batches, all_batches):
    assert_resumes(batches(), all_batches, reversed(range(STEPS)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=pytest.mark.long if first else ()) for first in range(0, STEPS, 20)]
)
def test_workers_go_on_at_every_step_as_if_never_stopped(batches, all_batches, first):
    make = batches()
    assert_resumes(make, all_batches, [first], num_workers=2)
    assert_resumes(make, all_batches, range(first + 1, first + 20), num_workers=1)
