"""From an encoder's and a robot's raw output to a sample that validates."""

import numpy as np
import pytest

from tests.support.stores import tiny_encoder
from wam_jax.data.construction.assemble import assemble_sample
from wam_jax.data.storage.units import Units
from wam_jax.data.storage.writer import Episode, StoreWriter
from wam_jax.errors import InputError

UNITS = Units(actions_per_frame=4, temporal_stride=4)


def assembled(raw_frames, frames=3, **options):
    rng = np.random.default_rng(0)
    video = rng.normal(size=(2, frames, 1, 1))
    actions = rng.normal(size=(raw_frames - 1, 1))
    states = np.arange(1.0, raw_frames + 1)[:, None]
    return assemble_sample(video_latents=video, actions=actions, states=states, units=UNITS, **options)


def test_a_video_that_fills_its_last_group_needs_no_state_mask():
    arrays = assembled(9)
    assert arrays["state"][:, 0].tolist() == list(range(1, 10))
    assert arrays["proprio_context_frames"][:, 0].tolist() == [1, 5, 9]
    assert "state_mask" not in arrays


def test_a_video_that_does_not_repeats_its_last_state_masked():
    arrays = assembled(7)
    assert arrays["state"][:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 7, 7]
    assert arrays["state_mask"][:, 0].tolist() == [1] * 7 + [0] * 2
    assert arrays["proprio_context_frames"][:, 0].tolist() == [1, 5, 7]


def test_steps_past_the_last_action_are_masked():
    assert assembled(7)["action_mask"][:, 0].tolist() == [0] * 4 + [1] * 6 + [0] * 2


def test_an_action_at_the_last_frame_is_dropped():
    arrays = assemble_sample(video_latents=np.ones((2, 2, 1, 1)), actions=np.ones((5, 1)), units=UNITS)
    assert arrays["actions"].shape == (8, 1)


@pytest.mark.parametrize("raw_frames", [5, 10])
def test_states_that_do_not_fit_the_video_are_refused(raw_frames):
    with pytest.raises(InputError, match="states = "):
        assembled(raw_frames)


def test_the_result_can_be_stored(tmp_path):
    with StoreWriter(tmp_path / "s", encoder=tiny_encoder(2), actions_per_frame=4) as writer:
        writer.add(Episode(id="a", source="s", task="t", instruction="i", fps=1), assembled(7))
    assert (tmp_path / "s" / "store.json").exists()
