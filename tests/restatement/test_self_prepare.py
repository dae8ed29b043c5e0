"""The oracle's copies, targets, masks and states, per objective, against the rules they follow.

The sample has four frames of two slots; `small_sample` masks some action dimensions and slots.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.restatement import prepare
from tests.restatement.generators import small_sample
from tests.restatement.params import Sizes
from tests.restatement.sample import FDM, IDM, Rules, Sample


def joint(*, masked: bool = False, **rules: Any) -> Sample:
    return small_sample(Rules(program="joint", **rules), masked_actions=masked)


def conditional(objective: str) -> Sample:
    return small_sample(Rules(program="generalist_joint_denoising", objective=objective, loss_frame_start=1))


def inputs(sample: Sample, *, noise_condition: bool = False) -> prepare.Inputs:
    draws = replace(sample.draws, noise_condition=noise_condition)
    return prepare.prepare(replace(sample, draws=draws), patch=Sizes().patch)


def required(array: np.ndarray | None) -> np.ndarray:
    assert array is not None
    return array


def test_condition_latents_replace_the_whole_clean_copy() -> None:
    s = joint()
    np.testing.assert_array_equal(prepare.clean_copy(s), required(s.condition_latents))
    np.testing.assert_array_equal(prepare.clean_copy(replace(s, condition_latents=None)), s.video_latents)


@pytest.mark.parametrize("rules", [{"use_condition_latents": False}, {"objective": FDM}, {"objective": IDM}])
def test_clean_copy_of_the_video_itself(rules: dict[str, Any]) -> None:
    s = joint(**rules)
    np.testing.assert_array_equal(prepare.clean_copy(s), s.video_latents)


def test_single_frame_conditions_replace_the_history() -> None:
    s = joint(history_frames=2, condition_source="single_frame_condition_latent")
    clean = prepare.clean_copy(s)
    np.testing.assert_array_equal(clean[:, :2], required(s.condition_latents)[:, :2])
    np.testing.assert_array_equal(clean[:, 2:], s.video_latents[:, 2:])


@pytest.mark.parametrize("frame", [0, 5])
def test_prefix_stays_clean_in_both_copies(frame: int) -> None:
    s = joint(legacy_prefix=True)
    x = inputs(s, noise_condition=True)
    np.testing.assert_array_equal(x.video[:, frame], required(s.condition_latents)[:, 0])
    assert np.flatnonzero(x.video_timesteps == 0).tolist() == [0, 5]
    assert np.flatnonzero(x.video_target.any((0, 2, 3))).tolist() == [1, 2, 3, 4]
    assert x.frame_mask.tolist() == [0, 1, 1, 1, 1]


def test_prefix_leaves_the_video_without_states() -> None:
    x = inputs(joint(legacy_prefix=True, proprio_mode="per_chunk_additive"))
    assert x.video_states is None
    assert required(x.action_states).shape == (4, 4)


@pytest.mark.parametrize("decision", [False, True])
def test_condition_is_noised_as_a_whole_or_not_at_all(decision: bool) -> None:  # noqa: FBT001
    s = replace(joint(), condition_latents=None)
    x = inputs(s, noise_condition=decision)
    assert (x.video_timesteps[4:] > 0).tolist() == [decision] * 4
    assert (x.video[:, 4:] != s.video_latents).all() == decision


def test_clean_actions_are_raw() -> None:
    s = joint(masked=True)
    x = inputs(s, noise_condition=True)
    np.testing.assert_array_equal(x.actions[8:], s.actions)
    assert not x.action_timesteps[4:].any()


def test_noising_and_targets() -> None:
    s = joint()
    x = inputs(s)
    sigma = x.action_timesteps[2] / 1000
    np.testing.assert_allclose(x.actions[4:6], (1 - sigma) * s.actions[4:6] + sigma * s.draws.action_noise[4:6])
    np.testing.assert_array_equal(x.action_target, s.draws.action_noise - s.actions)
    np.testing.assert_array_equal(x.video_target, s.draws.video_noise - s.video_latents)


def test_forward_dynamics_shows_the_actions_and_denoises_the_video() -> None:
    s = conditional(FDM)
    x = inputs(s, noise_condition=True)
    np.testing.assert_array_equal(x.actions[:8], s.actions * required(s.action_mask))
    for silent in (x.action_timesteps, x.action_target, x.action_mask, x.text):
        assert not silent.any()
    assert (x.video_timesteps > 0).tolist() == [True] * 4 + [False] * 4
    assert x.frame_mask.tolist() == [0, 1, 1, 1]


def test_inverse_dynamics_shows_the_video_and_denoises_the_actions() -> None:
    s = conditional(IDM)
    x = inputs(s, noise_condition=True)
    np.testing.assert_array_equal(x.video, np.concatenate([s.video_latents, s.video_latents], axis=1))
    for silent in (x.video_timesteps, x.video_target, x.frame_mask, x.text):
        assert not silent.any()
    assert (x.action_timesteps[:4] > 0).all()
    np.testing.assert_array_equal(x.action_mask[2:], required(s.action_mask)[2:])


def test_conditional_geometry_overrules_the_recipe() -> None:
    g = inputs(conditional(FDM)).geometry
    assert (g.window_size, g.history, g.boundary_only) == (3, "video_only", True)
    assert (g.chunk_origin, g.singleton_frame, g.prefix_frames) == (1, 0, 0)


def test_ranges_per_stream_fall_back_to_the_generic_one() -> None:
    s = joint(loss_frame_start=1, loss_frame_end=3, action_loss_frame_end=2, history_frames=2)
    x = inputs(s)
    assert x.frame_mask.tolist() == [0, 1, 1, 0]
    assert x.action_mask[:, 0].tolist() == [1] * 4 + [0] * 4
    assert not x.actions[4:8].any()
    assert prepare.history_frames(s.rules) == 1


def test_without_a_range_only_the_video_leaves_history_out() -> None:
    x = inputs(joint(history_frames=3))
    assert x.frame_mask.tolist() == [0, 0, 0, 1]
    assert x.action_mask.all()


@pytest.mark.parametrize(
    ("alignment", "explicit", "origin"), [("", None, 0), ("next_after_context", None, 2), ("next_after_context", 1, 1)]
)
def test_chunk_origin(alignment: str, explicit: int | None, origin: int) -> None:
    s = joint(loss_frame_start=2, target_alignment=alignment, chunk_origin_frame=explicit)
    assert inputs(s).geometry.chunk_origin == origin


def test_geometry_is_clipped_and_a_missing_window_covers_everything() -> None:
    g = inputs(joint(chunk_size=9, window_size=None, legacy_prefix=True)).geometry
    assert (g.chunk_size, g.window_size) == (4, 10)


def test_one_active_dimension_keeps_a_slot_visible() -> None:
    mask = np.zeros((8, 3))
    mask[3, 1] = 1
    g = inputs(replace(joint(), action_mask=mask)).geometry
    assert np.flatnonzero(required(g.action_valid)).tolist() == [3]


@pytest.mark.parametrize(
    ("origin", "prefix", "rows"),
    [(0, False, [-1, -1, 1, 1]), (1, False, [0, 0, 0, 2]), (0, True, [4, 4, 1, 1]), (1, True, [4, 0, 0, 2])],
)
def test_frames_carry_the_last_state_before_their_chunk(origin: int, prefix: bool, rows: list[int]) -> None:  # noqa: FBT001
    s = joint(proprio_mode="per_chunk_additive", chunk_origin_frame=origin, legacy_prefix=prefix)
    frames = np.arange(16.0).reshape(4, 4) + 1
    s = replace(s, proprio_context_frames=frames, proprio_context_frames_mask=None)
    known = np.concatenate([frames, prepare.anchor_state(s), np.zeros((1, 4))])  # rows 4 and -1: anchor, no state
    np.testing.assert_array_equal(required(inputs(s).action_states), known[rows])


def test_chunks_carry_their_own_state() -> None:
    s = joint(proprio_mode="per_chunk_additive", chunk_origin_frame=1)
    values = np.arange(8.0).reshape(2, 4)
    s = replace(s, proprio_context_frames=None, proprio_context_state=values, proprio_context_state_mask=None)
    np.testing.assert_array_equal(required(inputs(s).video_states), values[[0, 0, 0, 1]])


def test_text_states_are_the_chunks_or_the_anchor_alone() -> None:
    s = joint(proprio_mode="text_context_token")
    alone = replace(s, proprio_context_state=None)
    assert inputs(s).text_proprio.shape == (2, 4)
    np.testing.assert_array_equal(inputs(alone).text_proprio, required(s.state)[-1:] * required(s.state_mask)[-1:])


def test_missing_text_becomes_zero_tokens() -> None:
    x = inputs(replace(joint(max_text_tokens=5), text_context=None))
    np.testing.assert_array_equal(x.text, np.zeros((5, 6)))
