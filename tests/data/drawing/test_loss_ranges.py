"""Loss ranges: which range decides each stream, and which ranges are none."""

import pytest

from wam_jax.config.schema import LossRangeConfig, SampleConstructionConfig
from wam_jax.data.drawing.loss_ranges import LossRanges, loss_ranges, within
from wam_jax.errors import InputError
from wam_jax.sequence import Objective
from wam_jax.sequence.contracts import CONTRACTS

JOINT, FDM, IDM = Objective


def ranges(contract: str = "default", **given: int) -> LossRanges:
    return loss_ranges(SampleConstructionConfig(loss_range=LossRangeConfig(**given)), CONTRACTS[contract])


def of_streams(rules: LossRanges, objective: Objective = JOINT, *, prefix: int = 0) -> tuple:
    video = rules.of_video(objective, 7, history_frames=rules.history or 3, prefix_frames=prefix)
    return video, rules.of_actions(objective, 7)


@pytest.mark.parametrize(
    ("given", "video", "actions"),
    [
        ({}, (3, 7), (0, 7)),
        ({"loss_frame_start": 2}, (2, 7), (2, 7)),
        ({"loss_frame_start": 2, "loss_frame_end": 5}, (2, 5), (2, 5)),
        ({"latent_loss_frame_end": 5}, (0, 5), (0, 7)),
        ({"action_loss_frame_start": 1}, (3, 7), (1, 7)),
        ({"loss_frame_start": 2, "action_loss_frame_end": 6}, (2, 7), (0, 6)),
        ({"loss_frame_start": 2, "latent_loss_frame_start": 4}, (4, 7), (2, 7)),
    ],
)
def test_a_stream_has_its_own_range_or_the_generic_one_or_its_default(given, video, actions):
    assert of_streams(ranges(**given)) == (video, actions)


def test_a_prefix_stands_in_for_the_history_and_a_context_frame_is_one():
    assert of_streams(ranges("prefix_frame"), prefix=1) == ((0, 7), (0, 7))
    assert of_streams(ranges("context_frame")) == ((1, 7), (1, 7))
    assert ranges("context_frame").history == 1


@pytest.mark.parametrize("objective", [FDM, IDM])
def test_conditional_samples_are_supervised_behind_the_observed_frame(objective):
    for rules in (ranges(), ranges(loss_frame_start=3, action_loss_frame_end=5), ranges("context_frame")):
        assert of_streams(rules, objective) == ((1, 7), (1, 7))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (
            {"loss_frame_start": 4},
            r"loss_range\.loss_frame_start = 4: leaves no supervised frame of the shortest .* 4 fr",
        ),
        ({"loss_frame_start": 1, "loss_frame_end": 5}, r"loss_range\.loss_frame_end = 5: must lie in .* 4 frames"),
        ({"latent_loss_frame_start": 5}, r"loss_range\.latent_loss_frame_start = 5: must lie"),
        ({"action_loss_frame_end": 9}, r"loss_range\.action_loss_frame_end = 9: must lie"),
    ],
)
def test_a_range_beyond_the_shortest_sample(given, match):
    with pytest.raises(InputError, match=match):
        ranges(**given).check(4)


def test_ranges_inside_the_shortest_sample_pass():
    ranges(loss_frame_start=3, latent_loss_frame_end=4, action_loss_frame_start=0).check(4)
    assert within((1, 3), 4).tolist() == [False, True, True, False]
