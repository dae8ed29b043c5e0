"""Drawing by weight: each kind has the frequencies it promises, at any position alone, of a million episodes too."""

import time
from typing import Any

import numpy as np
import pytest

from tests.data.indexes import make_index, make_law
from tests.support.runs import tiny_config
from wam_jax.data.drawing.samplers import RoutedReplacement, RowWeights, WeightedReplacement
from wam_jax.data.drawing.weights import row_weights
from wam_jax.errors import InputError
from wam_jax.keys import Phase

FRAMES = np.array([4, 8, 2, 6, 10])
TASKS = np.array(["push", "reach", "push", "open", "reach"])
SOURCES = ["lab", "lab", "branch", "branch", "lab"]
INDEX = make_index(FRAMES.tolist(), tasks=TASKS.tolist(), sources=SOURCES)
CUT = {"mode": "uniform_segment", "min_segment_frames": 3, "max_segment_frames": 5, "randomize_segment_length": True}
COUNT = 20_000


def weighted(kind: str, *, task_weights: tuple[tuple[str, float], ...] = (), **rooms: Any) -> tuple[Any, RowWeights]:
    own = {"sample_order_mode": "replacement", "replacement_weights": kind, "task_weights": task_weights}
    construction = rooms.pop("construction", {}) | own
    routing = rooms.pop("routing", {"counterfactual_sources": ()})
    config = tiny_config(construction=construction, routing=routing, **rooms)
    law = make_law(config, INDEX)
    weights = row_weights(law, INDEX, config.data.sample_construction)
    assert weights is not None
    return law, weights


def drawn_rows(law: Any, weights: RowWeights) -> np.ndarray:
    items = WeightedReplacement(0, Phase.TRAIN, weights).items(0, 0, COUNT)
    return np.searchsorted(law.space.ends, items, side="right")


def assert_frequencies(values: np.ndarray, shares: np.ndarray) -> None:
    """Every share within four standard deviations of a binomial count."""
    count = len(values)
    found = np.bincount(values, minlength=len(shares))
    assert len(found) == len(shares)
    assert np.all(np.abs(found - count * shares) <= 4 * np.sqrt(count * shares * (1 - shares)))


@pytest.mark.parametrize(
    ("kind", "shares"),
    [
        ("length", FRAMES / 30),
        ("task", np.array([1 / 6, 1 / 6, 1 / 6, 1 / 3, 1 / 6])),
        ("length_and_task", np.array([4 / 18, 8 / 54, 2 / 18, 1 / 3, 10 / 54])),
    ],
)
def test_whole_episodes_come_by_their_weight(kind, shares):
    assert_frequencies(drawn_rows(*weighted(kind)), shares)


def test_tasks_share_as_they_are_told_to():
    rows = drawn_rows(*weighted("task", task_weights=(("open", 5.0), ("push", 2.0))))
    _, task = np.unique(TASKS, return_inverse=True)
    assert_frequencies(task[rows], np.array([5, 2, 1]) / 8)


def test_segments_weigh_the_frames_they_have_on_average():
    law, weights = weighted("length", construction=CUT)
    np.testing.assert_allclose(law.space.mean_frames(), [3.5, 4, 2, 4, 4])
    items = np.array([2, 6, 1, 4, 8])
    assert_frequencies(drawn_rows(law, weights), items * law.space.mean_frames() / (7 + 24 + 2 + 16 + 32))


def test_the_items_of_a_row_come_evenly():
    law, weights = weighted("task", construction=CUT)
    items = WeightedReplacement(0, Phase.TRAIN, weights).items(0, 0, COUNT)
    row = np.searchsorted(law.space.ends, items, side="right")
    assert_frequencies(items[row == 4] - law.space.ends[3], np.full(8, 1 / 8))


def test_routes_weigh_their_own_samples():
    """Lab episodes are 0, 1 and 4, branches 2 and 3; every route has its share, every task a like share of a route."""
    routes = (("real_demo", "joint", 3.0), ("counterfactual_dynamics", "action_conditioned_video", 1.0))
    routing = {"routes": routes, "counterfactual_sources": ("branch",)}
    law, weights = weighted("length_and_task", routing=routing, policy={"program": "generalist_joint_denoising"})
    sampler = RoutedReplacement(0, Phase.TRAIN, law.route_ends, law.shares, 1, weights)
    items = sampler.items(0, 0, COUNT)
    episodes = law.space.episodes[np.searchsorted(law.space.ends, items, side="right")]
    np.testing.assert_array_equal(np.searchsorted(law.route_ends, items, side="right"), sampler.routes(0, 0, COUNT))
    assert_frequencies(episodes, np.array([3 / 8, 3 / 8 * 8 / 18, 1 / 8, 1 / 8, 3 / 8 * 10 / 18]))


def test_any_stretch_equals_reading_in_order_and_epochs_differ():
    sampler = WeightedReplacement(3, Phase.TRAIN, weighted("length", construction=CUT)[1])
    whole = sampler.items(2, 0, 50)
    for start, count in ((0, 1), (7, 9), (49, 1), (4, 0)):
        np.testing.assert_array_equal(sampler.items(2, start, count), whole[start : start + count])
    assert not np.array_equal(sampler.items(1, 0, 50), whole)


def test_rounding_never_leaves_the_rows_that_are_asked_for():
    """Words of only ones are the largest number below 1; edges far from 0 leave no room below the next row."""
    weights = RowWeights(np.array([1, 2, 3]), np.array([0.0, 1e16, 1e16 + 2, 1e16 + 4]))
    words = np.full((1, 4), 2**64 - 1, np.uint64)
    assert weights.items(words, 1, 2).tolist() == [1]
    assert weights.items(words, 0, 3).tolist() == [2]


def test_even_weights_are_no_weights():
    config = tiny_config(construction={"sample_order_mode": "replacement"})
    assert row_weights(make_law(config, INDEX), INDEX, config.data.sample_construction) is None


def test_a_task_that_no_episode_has_is_named_with_those_there_are():
    match = r"task_weights = 'pull': no training episode is of this task; tasks: open, push, reach$"
    with pytest.raises(InputError, match=match):
        weighted("task", task_weights=(("push", 1.0), ("pull", 2.0)))


def test_an_update_of_a_million_episodes_is_drawn_in_milliseconds():
    rng = np.random.default_rng(0)
    items, mass = rng.integers(1, 100, 1_000_000), rng.random(1_000_000)
    weights = RowWeights(np.cumsum(items), np.concatenate([[0], np.cumsum(mass)]))
    sampler, begun = WeightedReplacement(0, Phase.TRAIN, weights), time.perf_counter()
    for step in range(20):
        sampler.items(0, step * 4096, 4096)
    assert (time.perf_counter() - begun) / 20 < 0.1
