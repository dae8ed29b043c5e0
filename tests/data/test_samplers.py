"""Samplers: random access equals reading in order, and every law of order they promise."""

import pickle

import numpy as np
import pytest

from wam_jax.data.samplers import Replacement, ShuffledEpochs, Stretch, Sweep, stretches
from wam_jax.keys import Phase

SAMPLERS = [ShuffledEpochs(3, Phase.TRAIN, 23), Replacement(3, Phase.TRAIN, 23), Sweep(7, 23)]


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


@pytest.mark.parametrize(("size", "count", "wanted"), [(7, 3, [0, 2, 4]), (3, 7, [0, 0, 0, 1, 1, 2, 2])])
def test_a_sweep_is_spread_evenly(size, count, wanted):
    assert Sweep(size, count).items(9, 0, count).tolist() == wanted


def test_stretches_follow_one_another_across_epochs():
    assert stretches(5, 0, 8) == []
    assert stretches(5, 12, 8) == [Stretch(0, 5, 3), Stretch(1, 0, 8), Stretch(2, 0, 1)]
