"""What hurts training is found, and what does not is not."""

import numpy as np
import pytest

from tests.data.inspection.moving import moving, write_moving
from wam_jax.data.inspection.findings import find
from wam_jax.data.inspection.verify import gather_sound

FIRST = range(5)


def found_in(path, episodes, **how):
    store = write_moving(path, episodes, **how)
    traits, broken = gather_sound(store, range(len(store)))
    assert broken == []
    findings = find(store, traits)
    return [item.text for item in findings if item.problem], [item.text for item in findings if not item.problem]


def test_a_sound_store_has_no_problem(tmp_path):
    problems, notes = found_in(tmp_path / "s", [moving(seed) for seed in FIRST])
    assert problems == []
    assert "alignment of lab: states follow actions by +0 raw frames" in notes[0]


@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize("with_state", [True, False])
def test_actions_that_come_late(tmp_path, late, with_state):
    late += 0 if with_state else 3  # A code itself lags by some steps, so that less says nothing.
    episodes = [moving(seed, late=late, with_state=with_state, frames=20) for seed in FIRST]
    problems, _ = found_in(tmp_path / "s", episodes)
    assert len(problems) == 1
    assert "actions were recorded late; convert again with --action-shift" in problems[0]
    assert problems[0].endswith(f"--action-shift {late}") or not with_state


def test_a_slow_robot_is_no_problem(tmp_path):
    problems, notes = found_in(tmp_path / "s", [moving(seed, slow=3) for seed in FIRST])
    assert problems == []
    assert "by +3 raw frames" in notes[0]


def test_sources_that_are_aligned_unlike_each_other(tmp_path):
    episodes = [moving(seed, slow=seed % 2) for seed in range(8)]
    problems, _ = found_in(tmp_path / "s", episodes, source=lambda number: "ab"[number % 2])
    assert problems == ["alignment differs between sources (a +0, b +1 steps): align them alike, or name their robots"]


def test_an_episode_that_trains_and_validates(tmp_path):
    problems, _ = found_in(tmp_path / "s", [*(moving(seed) for seed in FIRST), moving(2)])
    assert problems == ["the same episode trains and validates: ep2 = ep5"]


def test_an_episode_that_is_there_twice(tmp_path):
    problems, notes = found_in(tmp_path / "s", [*(moving(seed) for seed in FIRST), moving(2), moving(7)])
    assert problems == []
    assert "the same episode is there more than once: ep2 = ep5" in notes


def test_latents_of_another_encoder(tmp_path):
    problems, _ = found_in(tmp_path / "s", [*(moving(seed) for seed in FIRST), moving(9, gain=0.2)])
    assert problems == [
        "latents of 1 episodes are spread unlike the others' (ep5): "
        "look at them; latents of two encoders or scalings are never mixed"
    ]


def test_actions_that_never_change(tmp_path):
    problems, _ = found_in(tmp_path / "s", [*(moving(seed) for seed in FIRST), moving(9, still=True)])
    assert problems == ["actions never change in 1 episodes (ep5): leave them out, or record again"]


def test_clipped_and_constant_dimensions(tmp_path):
    episodes = [moving(seed, clip=0.5) for seed in FIRST]
    for arrays in episodes:
        arrays["actions"][:, 1] = 0.25 * arrays["action_mask"][:, 1]
    _, notes = found_in(tmp_path / "s", episodes)
    assert any(note.startswith("action dimension 0 is clipped: ") and "at -0.5 and 0.5" in note for note in notes)
    assert "action dimension 1 never changes" in notes


def test_a_switch_is_not_clipped(tmp_path):
    episodes = [moving(seed) for seed in FIRST]
    for arrays in episodes:
        arrays["actions"][:, 1] = np.sign(arrays["actions"][:, 1])
    _, notes = found_in(tmp_path / "s", episodes)
    assert not any("dimension 1" in note for note in notes)
