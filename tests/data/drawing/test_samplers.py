"""Samplers: random access equals reading in order, and every law of order they promise."""

import pickle

import numpy as np
import pytest

from wam_jax.data.drawing.samplers import Replacement, RoutedReplacement, ShuffledEpochs, Stretch, stretches, sweep
from wam_jax.keys import Phase

ENDS, SHARES = np.array([6, 10, 23]), np.array([0.6, 0.3, 0.1])


def routed(group: int, *, seed: int = 3) -> RoutedReplacement:
    return RoutedReplacement(seed, Phase.TRAIN, ENDS, SHARES, group)


SAMPLERS = [ShuffledEpochs(3, Phase.TRAIN, 23), Replacement(3, Phase.TRAIN, 23), routed(1), routed(4)]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_any_stretch_equals_reading_in_order(sampler):
    for epoch in (0, 5, 1):
        whole = sampler.items(epoch, 0, 23)
        for start, count in ((0, 1), (7, 9), (22, 1), (4, 0)):
            np.testing.assert_array_equal(sampler.items(epoch, start, count), whole[start : start + count])


def test_shuffled_epochs_take_every_item_once_in_orders_of_their_own():
    sampler = ShuffledEpochs(0, Phase.TRAIN, 50)
    orders = [sampler.items(epoch, 0, 50) for epoch in range(3)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert not np.array_equal(orders[0], orders[1])
    np.testing.assert_array_equal(sampler.items(0, 0, 50), orders[0])


@pytest.mark.parametrize("other", [ShuffledEpochs(1, Phase.TRAIN, 50), ShuffledEpochs(0, Phase.VALIDATION, 50)])
def test_seed_and_phase_change_the_order(other):
    assert not np.array_equal(other.items(0, 0, 50), ShuffledEpochs(0, Phase.TRAIN, 50).items(0, 0, 50))


def test_orders_are_not_pickled():
    sampler = ShuffledEpochs(0, Phase.TRAIN, 5000)
    order = sampler.items(2, 0, 5000)
    assert len(pickle.dumps(sampler)) < 1000
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(sampler)).items(2, 0, 5000), order)


def test_replacement_is_even_and_repeats():
    items = Replacement(0, Phase.TRAIN, 4).items(0, 0, 8000)
    counts = np.bincount(items, minlength=4)
    assert np.all(np.abs(counts - 2000) < 4 * np.sqrt(2000))
    assert not np.array_equal(items[:4000], items[4000:])


@pytest.mark.parametrize("group", [1, 3])
def test_routes_come_by_their_shares_and_their_items_evenly(group):
    count = 9000
    items = routed(group).items(0, 0, count)
    route = np.searchsorted(ENDS, items, side="right")
    np.testing.assert_array_equal(route, routed(group).routes(0, 0, count))
    for number, share in enumerate(SHARES):
        bound = 4 * np.sqrt(count * group * share * (1 - share))
        assert abs((route == number).sum() - count * share) < bound
    first = np.bincount(items[route == 0], minlength=6)
    assert np.all(np.abs(first - first.sum() / 6) < 4 * np.sqrt(first.sum() / 6))


def test_positions_of_one_group_share_their_route_but_not_their_item():
    routes, items = routed(5).routes(2, 0, 600).reshape(-1, 5), routed(5).items(2, 0, 600).reshape(-1, 5)
    assert (routes == routes[:, :1]).all()
    assert len(set(routes[:, 0])) == 3
    assert (items != items[:, :1]).any()


def test_one_route_draws_what_replacement_draws():
    single = RoutedReplacement(3, Phase.TRAIN, np.array([23]), np.array([1.0]), 4)
    np.testing.assert_array_equal(single.items(1, 5, 50), Replacement(3, Phase.TRAIN, 23).items(1, 5, 50))


@pytest.mark.parametrize(("size", "count", "wanted"), [(7, 3, [0, 2, 4]), (3, 7, [0, 0, 0, 1, 1, 2, 2])])
def test_a_sweep_is_spread_evenly(size, count, wanted):
    assert sweep(np.array([size]), np.array([1.0]), count).tolist() == wanted


@pytest.mark.parametrize(
    ("count", "wanted"), [(10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]), (3, [0, 3, 6]), (2, [0, 6]), (1, [0])]
)
def test_a_sweep_gives_every_route_its_share_in_whole_numbers(count, wanted):
    assert sweep(ENDS, SHARES, count).tolist() == wanted


def test_stretches_follow_one_another_across_epochs():
    assert stretches(5, 0, 8) == []
    assert stretches(5, 12, 8) == [Stretch(0, 5, 3), Stretch(1, 0, 8), Stretch(2, 0, 1)]
