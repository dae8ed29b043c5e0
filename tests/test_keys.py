"""The law of randomness: random access, independence of purposes, uniformity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wam_jax import keys
from wam_jax.keys import Phase, Purpose


def _words(start: int, count: int, *, purpose: Purpose = Purpose.ITEM, epoch: int = 0, seed: int = 1) -> np.ndarray:
    return keys.draw_words(seed, Phase.TRAIN, epoch, purpose, start, count)


def test_any_stretch_of_positions_is_part_of_the_whole():
    whole = _words(0, 50)
    for start in (0, 1, 17, 49):
        np.testing.assert_array_equal(_words(start, 50 - start), whole[start:])


@pytest.mark.parametrize("change", [{"purpose": Purpose.ROUTE}, {"epoch": 1}, {"seed": 2}])
def test_another_purpose_epoch_or_seed_is_another_stream(change):
    assert (_words(0, 100) != _words(0, 100, **change)).all()


def test_uniform_numbers_fill_the_unit_interval():
    numbers = keys.uniform(_words(0, 20000)[:, 0])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    np.testing.assert_allclose(np.histogram(numbers, 10, (0, 1))[0] / 2000, 1, atol=0.1)


def test_integers_take_bounds_a_draw():
    low, high = np.array([0, 5, 7]), np.array([1, 9, 8])
    found = keys.integers(_words(0, 3000)[:, :3], low, high)
    assert (found >= low).all()
    assert (found < high).all()
    assert set(found[:, 1]) == {5, 6, 7, 8}


def test_a_permutation_holds_every_item_once_and_changes_by_epoch():
    first, second = (keys.epoch_permutation(3, Phase.TRAIN, epoch, 100) for epoch in (0, 1))
    np.testing.assert_array_equal(np.sort(first), np.arange(100))
    assert (first != second).any()


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_would_lose_bits_is_refused(seed):
    with pytest.raises(ValueError, match="seed must be in"):
        keys.check_seed(seed)


def test_device_keys_fold_phase_epoch_position_purpose_and_frame_in_turn():
    draw = jnp.array([[[1, 2, 3]]], jnp.uint32)
    found = keys.frame_keys(
        keys.purpose_keys(keys.draw_keys(jnp.uint32(9), draw), Purpose.VIDEO_NOISE), jnp.array([[[4]]])
    )
    expected = jax.random.key(9)
    for part in (1, 2, 3, int(Purpose.VIDEO_NOISE), 5):
        expected = jax.random.fold_in(expected, part)
    assert jax.random.key_data(found).ravel().tolist() == jax.random.key_data(expected).tolist()
