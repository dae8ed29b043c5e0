"""What the shipped recipes draw from the shipped data: branches only where a route asks for them, in either split."""

from pathlib import Path

import numpy as np
import pytest

from wam_jax.config import load
from wam_jax.data.drawing.draws import DrawTable, concatenate
from wam_jax.data.drawing.routing import active_routes
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.store import Store, open_store
from wam_jax.sequence import Objective

CONFIGS = Path(__file__).parents[2] / "configs"
REAL, BRANCH = {"metaworld"}, {"counterfactual_dynamics"}


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store("embedded:metaworld12")


def draws(name: str, store: Store, split: str) -> DrawTable:
    """The first 800 training draws of a recipe, or all its held-out ones."""
    data = TrainData(load(str(CONFIGS / f"{name}.py"), []).config, store, rows=range(1))
    plans = [data.planner.plan(step).draws for step in range(100)] if split == "train" else [data.validation_draws]
    drawn = concatenate([plan.reshape(-1) for plan in plans])
    drawn = drawn[drawn.present]
    assert set(store.index.splits[drawn.episode]) == {split}
    return drawn


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("name", ["quickstart", "bench"])
def test_without_routes_only_demonstrations_are_drawn(store, name, split):
    assert set(store.index.sources[draws(name, store, split).episode]) == REAL


@pytest.mark.parametrize("split", ["train", "val"])
def test_only_counterfactual_routes_draw_branches(store, split):
    drawn = draws("gjd", store, split)
    sources = [set(store.index.sources[drawn.episode[drawn.route == route]]) for route in range(5)]
    assert sources == [REAL] * 3 + [BRANCH] * 2


def test_the_generalist_recipe_has_the_shares_of_its_family():
    routes = active_routes(load(str(CONFIGS / "gjd.py"), []).config)
    assert [route.share for route in routes] == pytest.approx([0.6, 0.1, 0.1, 0.1, 0.1])
    _, forward, inverse = Objective
    assert [route.objective for route in routes] == [Objective.JOINT, forward, inverse, forward, inverse]


def test_a_drawn_branch_is_whole_and_its_first_frame_is_observed(store):
    drawn = draws("gjd", store, "train")
    branch = drawn[drawn.route >= 3]
    assert set(branch.segment_start) == {0}
    assert set(branch.num_frames) == {9}
    assert set(branch.singleton_frame) == {0}
    assert len(np.unique(branch.episode)) == 12
