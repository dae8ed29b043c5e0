"""The decisions of the sequence contract, one by one."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.support.runs import tiny_config
from wam_jax.config.schema import PolicyConfig
from wam_jax.data.drawing import contracts
from wam_jax.data.drawing.draws import DrawTable
from wam_jax.errors import InputError
from wam_jax.sequence import Objective

JOINT, FDM, IDM = Objective
VIDEO = np.arange(10.0).reshape(1, 5, 2, 1)
PREFIX: dict[str, Any] = {"sequence_contract": "prefix_frame"}
CONTEXT: dict[str, Any] = {"sequence_contract": "context_frame"}
ALIGNED = {"target_alignment": "next_after_context"}
ARRAYS = {"video_latents": VIDEO, "condition_latents": -VIDEO - 1}


def policy(program: Any = "joint", **fields: Any) -> PolicyConfig:
    return PolicyConfig(program, **fields)


def clean(objective: Objective = JOINT, arrays=ARRAYS, **fields) -> np.ndarray:
    return contracts.clean_video(policy(**fields), objective, arrays, history_frames=2)


def test_condition_latents_replace_the_whole_clean_copy():
    assert clean() is ARRAYS["condition_latents"]


def test_condition_latents_may_be_left_unused():
    assert clean(use_condition_latents=False) is VIDEO
    assert clean(arrays={"video_latents": VIDEO}) is VIDEO


@pytest.mark.parametrize("use", [True, False])
def test_single_frame_condition_latents_replace_the_history(use):
    source = "single_frame_condition_latent"
    found = clean(context_condition_latent_source=source, use_condition_latents=use)
    np.testing.assert_array_equal(found[:, :2], ARRAYS["condition_latents"][:, :2])
    np.testing.assert_array_equal(found[:, 2:], VIDEO[:, 2:])


@pytest.mark.parametrize("objective", [FDM, IDM])
def test_a_conditional_sample_is_its_own_context(objective):
    assert clean(objective) is VIDEO
    assert clean(objective, {"video_latents": VIDEO}, require_condition_latents=True) is VIDEO


@pytest.mark.parametrize(
    "fields",
    [{"require_condition_latents": True}, {"context_condition_latent_source": "single_frame_condition_latent"}],
)
def test_missing_condition_latents_are_refused_where_needed(fields):
    with pytest.raises(InputError, match="condition_latents = None"):
        clean(arrays={"video_latents": VIDEO}, **fields)


def test_a_prefix_leaves_the_samples_own_frames_alone():
    assert clean(**PREFIX) is VIDEO
    with pytest.raises(InputError, match="condition_latents = None"):
        clean(arrays={"video_latents": VIDEO}, **PREFIX)


def test_conditional_samples_lose_their_text_and_their_action_history():
    assert [contracts.removes_text(objective) for objective in Objective] == [False, True, True]
    rules = [contracts.history_rule(policy(history_stream_visibility="full"), objective) for objective in Objective]
    assert rules == ["full", "video_only", "video_only"]


def test_the_first_group_is_masked_where_nothing_leads_into_it():
    found = [contracts.masks_first_group(policy(), objective) for objective in Objective]
    assert found == [False, True, True]
    assert contracts.masks_first_group(policy(sequence_contract="context_frame"), JOINT)


def law(**rooms: Any) -> contracts.SequenceLaw:
    return contracts.sequence_law(tiny_config(**rooms))


def frames(rules: contracts.SequenceLaw, *, conditional: bool = False, branch: bool = False) -> dict[str, int]:
    """The frames of one sample from a segment [4, 13) with chunk 3, window 6 and history 5."""
    geometry = (np.array([3]), np.array([6]), np.array([5]))
    flags = {"conditional": np.array([conditional]), "branch": np.array([branch])}
    made = rules.frames(np.array([4]), np.array([9]), geometry, **flags)
    return {name: int(array[0]) for name, array in vars(made).items()}


BASE = {
    "start": 4,
    "num_frames": 9,
    "chunk_size": 3,
    "window_size": 6,
    "history_frames": 5,
    "chunk_origin": 0,
    "singleton_frame": -1,
    "prefix_frames": 0,
}
CONDITIONAL = {"window_size": 3, "history_frames": 1, "chunk_origin": 1, "singleton_frame": 0}


@pytest.mark.parametrize(
    ("rooms", "changes"),
    [
        ({}, {}),
        ({"policy": PREFIX}, {"prefix_frames": 1}),
        ({"policy": CONTEXT}, {"history_frames": 1}),
        ({"policy": CONTEXT, "construction": ALIGNED}, {"history_frames": 1, "chunk_origin": 1}),
        ({"construction": ALIGNED, "loss_range": {"loss_frame_start": 2}}, {"history_frames": 2, "chunk_origin": 2}),
        ({"construction": {"conditional_start": "history"}}, {}),
    ],
)
def test_the_frames_of_a_joint_sample(rooms, changes):
    assert frames(law(**rooms)) == BASE | changes


@pytest.mark.parametrize("rooms", [{}, {"policy": PREFIX}, {"policy": CONTEXT, "construction": ALIGNED}])
def test_a_conditional_sample_overrides_any_contract(rooms):
    assert frames(law(**rooms), conditional=True) == BASE | CONDITIONAL


def test_a_conditional_sample_may_begin_with_the_last_frame_of_the_history():
    rules = law(construction={"conditional_start": "history"})
    assert frames(rules, conditional=True) == BASE | CONDITIONAL | {"start": 8, "num_frames": 5}
    assert frames(rules, conditional=True, branch=True) == BASE | CONDITIONAL


def test_a_cut_sample_keeps_no_larger_chunk_than_itself():
    rules = law(construction={"conditional_start": "history"}, loss_range={"loss_frame_start": 8})
    assert frames(rules, conditional=True)["num_frames"] == 2
    assert frames(rules, conditional=True)["chunk_size"] == 2


def a_draw(**changes: int) -> DrawTable:
    values = {"num_frames": 3, "singleton_frame": -1} | changes
    return DrawTable(**{field.name: np.array(values.get(field.name, 0)) for field in dataclasses.fields(DrawTable)})


def conditional_draw(**changes: int) -> DrawTable:
    return a_draw(**{"objective": 1, "num_frames": 3} | CONDITIONAL | changes)


def test_draws_of_their_objective_pass():
    contracts.check_draw(policy("generalist_joint_denoising"), conditional_draw())
    contracts.check_draw(policy("forward_dynamics"), conditional_draw())
    contracts.check_draw(policy("generalist_joint_denoising"), a_draw())
    with pytest.raises(InputError):
        contracts.check_draw(policy("forward_dynamics"), a_draw())


@pytest.mark.parametrize(
    ("program", "draw", "match"),
    [
        ("joint", conditional_draw(), r"objective = 'action_conditioned_video': policy\.program joint trains 'joint'"),
        ("inverse_dynamics", conditional_draw(), r"inverse_dynamics trains 'video_conditioned_action' only"),
        ("forward_dynamics", a_draw(), r"objective = 'joint': .*trains 'action_conditioned_video' only"),
        ("generalist_joint_denoising", a_draw(singleton_frame=0), r"singleton_frame = 0: a joint sample has none"),
        ("forward_dynamics", conditional_draw(num_frames=1), r"num_frames = 1: a conditional sample needs an observed"),
        ("forward_dynamics", conditional_draw(window_size=4), r"window_size = 4: a conditional sample .* has 3"),
        ("forward_dynamics", conditional_draw(history_frames=2), r"history_frames = 2: .* has 1"),
        ("forward_dynamics", conditional_draw(chunk_origin=0), r"chunk_origin = 0: .* has 1"),
        ("forward_dynamics", conditional_draw(singleton_frame=-1), r"singleton_frame = -1: .* has 0"),
        ("forward_dynamics", conditional_draw(prefix_frames=1), r"prefix_frames = 1: .* has 0"),
    ],
)
def test_a_draw_that_is_not_what_its_objective_demands(program, draw, match):
    with pytest.raises(InputError, match=match):
        contracts.check_draw(policy(program), draw)
