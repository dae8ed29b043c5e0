"""The flow-matching grid against published values."""

import jax.numpy as jnp
import numpy as np
import pytest

from wam_jax.flow.schedule import FlowSchedule

VIDEO, ACTION = FlowSchedule(1000, 5.0), FlowSchedule(1000, 1.0)


@pytest.mark.parametrize(
    ("schedule", "index", "sigma"),
    [(VIDEO, 0, 1.0), (VIDEO, 500, 0.833333), (VIDEO, 999, 0.0049801), (ACTION, 999, 0.001)],
)
def test_noise_levels(schedule, index, sigma):
    assert schedule.sigmas[index] == pytest.approx(sigma, rel=1e-5)
    assert schedule.timesteps[index] == pytest.approx(1000 * sigma, rel=1e-5)


@pytest.mark.parametrize(
    ("schedule", "index", "weight"),
    [
        (VIDEO, 0, 0.0),
        (VIDEO, 1, 0.00128),
        (VIDEO, 250, 0.39795),
        (VIDEO, 500, 1.02486),
        (VIDEO, 750, 1.91404),
        (VIDEO, 833, 2.07640),
        (VIDEO, 999, 0.03188),
        (ACTION, 250, 1.10788),
        (ACTION, 500, 1.57960),
        (ACTION, 750, 1.10788),
        (ACTION, 999, 0.00487),
    ],
)
def test_training_weights(schedule, index, weight):
    assert schedule.weights[index] == pytest.approx(weight, abs=6e-6)


def test_mean_weight_is_one_and_its_peak_is_where_published():
    assert VIDEO.weights.mean() == pytest.approx(1, rel=1e-6)
    assert VIDEO.weights.argmax() == 833


def test_uniform_numbers_cover_the_grid_and_its_less_noisy_half():
    unit = jnp.linspace(0, 1 - 2**-24, 5001)
    assert VIDEO.indices(unit).min() == 0
    assert VIDEO.indices(unit).max() == 999
    assert VIDEO.indices(unit, 0.5).min() == 500


def test_timestep_zero_is_nearest_to_the_last_entry():
    assert abs(VIDEO.timesteps).argmin() == VIDEO.clean_index == 999


def test_every_entry_is_nearest_to_itself():
    np.testing.assert_array_equal(VIDEO.nearest_in(VIDEO), np.arange(1000))


def test_of_two_equally_near_noise_levels_the_first_is_taken():
    assert VIDEO.nearest_in(ACTION)[250] == 62
    assert VIDEO.sigmas[250] == pytest.approx(0.9375)
    assert ACTION.sigmas[62:64].tolist() == pytest.approx([0.938, 0.937])
