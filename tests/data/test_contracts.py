"""The decisions of the sequence contract, one by one."""

from typing import Any

import numpy as np
import pytest

from wam_jax.config.schema import PolicyConfig
from wam_jax.data import contracts
from wam_jax.errors import InputError
from wam_jax.sequence import Objective

JOINT, FDM, IDM = Objective
VIDEO = np.arange(10.0).reshape(1, 5, 2, 1)
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


@pytest.mark.parametrize(
    ("objective", "prefix", "wanted"), [(JOINT, 0, (3, 7)), (JOINT, 1, (0, 7)), (FDM, 0, (1, 7)), (IDM, 0, (1, 7))]
)
def test_video_loss_range(objective, prefix, wanted):
    assert contracts.video_loss_range(objective, 7, history_frames=3, prefix_frames=prefix) == wanted


@pytest.mark.parametrize(("objective", "wanted"), [(JOINT, (0, 7)), (FDM, (1, 7)), (IDM, (1, 7))])
def test_action_loss_covers_the_history(objective, wanted):
    assert contracts.action_loss_range(objective, 7) == wanted


def test_conditional_samples_lose_their_text_and_their_action_history():
    assert [contracts.removes_text(objective) for objective in Objective] == [False, True, True]
    rules = [contracts.history_rule(policy(history_stream_visibility="full"), objective) for objective in Objective]
    assert rules == ["full", "video_only", "video_only"]


@pytest.mark.parametrize(
    ("program", "wanted"), [("joint", JOINT), ("forward_dynamics", FDM), ("inverse_dynamics", IDM)]
)
def test_a_fixed_program_has_its_objective(program, wanted):
    assert contracts.objective_of(policy(program=program)) is wanted
