"""The estimate of alignment: exact where motion is known, silent where it says nothing."""

import numpy as np
import pytest

from tests.data.inspection.moving import UNITS, moving
from wam_jax.data.inspection.lag import MAX_LAG, LagEstimator
from wam_jax.data.storage.units import Units


def estimate(units=UNITS, **how):
    estimator = LagEstimator(units)
    for seed in range(6):
        estimator.add(moving(seed, **how))
    return estimator


@pytest.mark.parametrize(("late", "slow"), [(0, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 3), (1, 1)])
def test_states_tell_the_step(late, slow):
    found = estimate(late=late, slow=slow).states()
    assert found is not None
    assert found.steps == slow - late
    assert found.explained > 0.95


@pytest.mark.parametrize("late", [1, 2, 3])
def test_video_alone_tells_the_step_too(late):
    aligned, found = estimate(with_state=False).video(), estimate(with_state=False, late=late).video()
    assert aligned is not None
    assert found is not None
    assert found.steps == aligned.steps - late
    assert 0 <= aligned.steps <= 3


def test_still_robots_and_noise_say_nothing():
    assert estimate(still=True).states() is None
    estimator, rng = LagEstimator(UNITS), np.random.default_rng(0)
    for seed in range(20):
        arrays = moving(seed, frames=20)
        arrays["actions"] = rng.normal(size=arrays["actions"].shape).astype(np.float32)
        estimator.add(arrays)
    assert estimator.states() is None
    assert estimator.video() is None


def test_short_episodes_are_too_few_steps():
    estimator = LagEstimator(UNITS)
    estimator.add(moving(0, frames=6))
    assert (estimator.states(), estimator.video()) == (None, None)


@pytest.mark.parametrize("slots", [0, 3])
def test_slots_that_fill_no_step_are_left_alone(slots):
    assert estimate(Units(actions_per_frame=slots, temporal_stride=4)).states() is None


def test_the_search_has_an_end():
    found = estimate(slow=MAX_LAG).states()
    assert found is not None
    assert found.steps == MAX_LAG
