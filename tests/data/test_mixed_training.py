"""Several stores in one configuration: how often each is drawn from, what is held out, what is refused."""

from typing import Any

import numpy as np
import pytest

from tests.data.indexes import make_law
from tests.data.storage.test_mixture import write
from tests.support.runs import SEGMENTS_OF_3, tiny_config
from wam_jax.config.validate import validate
from wam_jax.data.drawing.samplers import WeightedReplacement
from wam_jax.data.drawing.weights import row_weights
from wam_jax.data.loader import TrainData
from wam_jax.data.storage.mixture import Mixture, open_data
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError
from wam_jax.keys import Phase

COUNT = 20_000
REPLACEMENT = {"sample_order_mode": "replacement"}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    root = tmp_path_factory.mktemp("stores")
    return write(root / "a", 3), write(root / "bb", 8, task="reach")


def configured(places, *, weights=(3.0, 1.0), construction=None, **rooms: Any):
    """A run on both stores, and its data."""
    first, *more = zip(map(str, places), weights, strict=True)
    data = {"store": first[0], "store_weight": first[1], "more_stores": tuple(more), **rooms.pop("data", {})}
    config = tiny_config(data=data, construction=SEGMENTS_OF_3 | REPLACEMENT | (construction or {}), **rooms)
    validate(config)
    store = open_data(config.data)
    return config, store, TrainData(config, store, rows=range(1))


def drawn(config, store: Mixture) -> np.ndarray:
    """Episodes of many draws from all of them."""
    law = make_law(config, store.index)
    weights = row_weights(law, store.index, config.data.sample_construction, mixture=store)
    assert weights is not None
    items = WeightedReplacement(0, Phase.TRAIN, weights).items(0, 0, COUNT)
    return law.space.episodes[np.searchsorted(law.space.ends, items, side="right")]


@pytest.mark.parametrize("weights", [(3.0, 1.0), (1.0, 1.0), (1.0, 9.0)])
@pytest.mark.parametrize("kind", ["uniform", "length", "task", "length_and_task"])
def test_stores_are_drawn_from_by_their_weights(places, weights, kind):
    config, store, _ = configured(places, weights=weights, construction={"replacement_weights": kind})
    share = np.mean(store.store_of[drawn(config, store)] == 0)
    wanted = weights[0] / sum(weights)
    assert abs(share - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / COUNT)


def test_within_a_store_nothing_changes(places):
    config, store, _ = configured(places, construction={"replacement_weights": "length"})
    episodes = drawn(config, store)
    counts = np.bincount(episodes[store.store_of[episodes] == 1] - 3, minlength=8)
    # Starts of segments of three in 3 to 10 frames.
    wanted = np.arange(1, 9) / np.arange(1, 9).sum()
    assert np.abs(counts / counts.sum() - wanted).max() < 0.03


def test_the_loader_draws_so(places):
    config, store, data = configured(places, weights=(1.0, 19.0))
    episodes = np.concatenate([data.planner.plan(step).draws.episode.ravel() for step in range(200)])
    assert abs(np.mean(store.store_of[episodes] == 0) - 0.05) < 0.05
    steps = data.steps()
    batch = next(steps).batches[0]
    steps.close()
    assert batch.samples.valid.sum() == config.data.train_batch_size


def test_both_stores_hold_out_their_own(places):
    *_, data = configured(places)
    assert set(data.validation_draws.episode.ravel()) - {-1} == {2, 10}


def test_weights_are_part_of_the_contract(places):
    one, same, other = (configured(places, weights=weights)[2].contract() for weights in ((3, 1), (3, 1), (1, 1)))
    assert one == same
    assert one != other


def test_one_store_is_itself(places):
    config = tiny_config(data={"store": str(places[0])})
    store = open_data(config.data)
    assert not isinstance(store, Mixture)
    assert store.fingerprint == open_store(places[0]).fingerprint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"construction": {"sample_order_mode": "epoch"}}, "sample_order_mode = 'epoch': .*use 'replacement'"),
        ({"weights": (1.0, 0.0)}, r"data\.more_stores = .*weights above 0"),
        ({"weights": (0.0, 1.0)}, r"data\.store_weight = 0\.0"),
        ({"data": {"more_stores": (), "store_weight": 2.0}}, r"data\.store_weight = 2\.0: weighs nothing"),
        ({"split": {"source": "task"}}, r"data\.split\.val_tasks = \(\): go together"),
        ({"split": {"val_episodes": ("a-0",)}}, r"data\.split\.val_episodes = .*go together"),
    ],
)
def test_rules(places, change, said):
    with pytest.raises(InputError, match=said):
        configured(places, **change)


def test_held_out_tasks_and_episodes(places):
    *_, data = configured(places, split={"source": "task", "val_tasks": ("push",)})
    assert set(data.validation_draws.episode.ravel()) - {-1} <= {0, 1, 2}
    *_, data = configured(places, split={"source": "list", "val_episodes": ("bb-3", "a-1")})
    assert set(data.validation_draws.episode.ravel()) - {-1} == {1, 6}
