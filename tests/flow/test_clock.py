"""Clocks: what the two streams share, and what a draw's timesteps depend on."""

import jax.numpy as jnp
import numpy as np
import pytest

from wam_jax import keys
from wam_jax.flow.clock import Clock, FlowConfig, condition_indices, condition_is_noised, frame_indices
from wam_jax.flow.schedule import FlowSchedule


def _flow(clock: Clock = "independent", **fields) -> FlowConfig:
    return FlowConfig(FlowSchedule(1000, 5.0), FlowSchedule(1000, 1.0), clock=clock, **fields)


def _draws(count: int = 3) -> jnp.ndarray:
    draw = np.stack([np.zeros(count), np.ones(count), np.arange(count)], -1).astype(np.uint32)[None]
    return keys.draw_keys(jnp.uint32(7), jnp.asarray(draw))


def _frames(count: int, *, prefix: int = 0, draws: int = 3) -> jnp.ndarray:
    return jnp.broadcast_to(jnp.arange(count) - prefix, (1, draws, count))


def test_independent_streams_draw_differently():
    video, action = frame_indices(_draws(), _frames(8), _frames(8), _flow())
    assert (video != action).mean() > 0.9


@pytest.mark.parametrize("clock", ["match_index", "shared_video_schedule"])
def test_one_draw_gives_both_streams_the_same_index(clock):
    video, action = frame_indices(_draws(), _frames(9, prefix=1), _frames(8), _flow(clock))
    np.testing.assert_array_equal(video[..., 1:], action)


def test_match_sigma_takes_the_nearest_noise_level():
    flow = _flow("match_sigma")
    video, action = frame_indices(_draws(), _frames(8), _frames(8), flow)
    np.testing.assert_allclose(flow.action.sigmas[action], flow.video.sigmas[video], atol=5.1e-4)


def test_only_the_shared_schedule_moves_actions_to_the_video_grid():
    assert _flow("shared_video_schedule").action_grid.shift == 5.0
    assert _flow("match_index").action_grid.shift == 1.0


def test_a_prefix_or_a_longer_slot_moves_no_other_frame():
    short, _ = frame_indices(_draws(), _frames(5), _frames(5), _flow())
    long, _ = frame_indices(_draws(), _frames(9, prefix=1), _frames(9), _flow())
    np.testing.assert_array_equal(long[..., 1:6], short)


def test_a_draw_has_its_timesteps_whatever_its_slot():
    all_three, _ = frame_indices(_draws(), _frames(5), _frames(5), _flow())
    last, _ = frame_indices(_draws()[:, 2:], _frames(5, draws=1), _frames(5, draws=1), _flow())
    np.testing.assert_array_equal(all_three[:, 2:], last)


def test_noised_conditions_come_from_the_less_noisy_half():
    assert condition_indices(_draws(), _frames(50), _flow()).min() >= 500


@pytest.mark.parametrize(("probability", "share"), [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5)])
def test_conditions_are_noised_with_the_stated_probability(probability, share):
    noised = condition_is_noised(_draws(2000), _flow(noisy_condition_prob=probability))
    assert noised.mean() == pytest.approx(share, abs=0.05)


def test_match_index_needs_equal_grids():
    with pytest.raises(ValueError, match="equally many timesteps, got 1000 for video and 500"):
        FlowConfig(FlowSchedule(1000, 5.0), FlowSchedule(500, 1.0), clock="match_index")
