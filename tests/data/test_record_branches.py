"""Branches: where they leave their parents, what they do there, and that a restored simulator is the one it was."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.data.recordings import branch_noise
from wam_jax.data.recording.branches import BranchRequest, planned, record_all_branches
from wam_jax.data.recording.fork import HOLD, Fork, record_branches
from wam_jax.data.recording.rollout import Recording, record_episode
from wam_jax.data.recording.spool import Spooled, spool
from wam_jax.data.recording.tasks import DEFAULT_TASKS

needs_simulator = pytest.mark.skipif(importlib.util.find_spec("metaworld") is None, reason="needs the extra `sim`")
REQUEST = BranchRequest(train=3, validation=1, steps=8, strength=0.5)
LENGTHS = {"drawer-open": (60, 41, 7), "reach": (9, 30, 12)}
DEMONSTRATIONS = [Spooled(task, seed, n, Path()) for task, several in LENGTHS.items() for seed, n in enumerate(several)]
VALIDATION = {item for item in DEMONSTRATIONS if item.seed == 2}


def demonstration(task: str) -> Recording:
    recording = record_episode(task, 1, 32, 4)
    assert recording is not None
    return recording


def test_every_task_gets_its_number_of_branches_from_each_split():
    plan = planned(REQUEST, DEMONSTRATIONS, validation=VALIDATION)
    assert [(item.task, item.seed, len(forks)) for item, forks in plan.items()] == [
        *(("drawer-open", 0, 2), ("drawer-open", 1, 1), ("drawer-open", 2, 1)),
        *(("reach", 0, 2), ("reach", 1, 1), ("reach", 2, 1)),
    ]
    assert [fork.number for fork in plan[DEMONSTRATIONS[0]]] == [0, 1]


def test_branches_begin_at_anchors_that_leave_the_parent_enough_actions():
    many = dataclasses.replace(REQUEST, train=400)
    for parent, forks in planned(many, DEMONSTRATIONS, validation=VALIDATION).items():
        starts, last = {fork.start for fork in forks}, max(4, parent.raw_frames - 1 - REQUEST.steps)
        assert starts <= set(range(4, last + 1, 4))
        assert len(forks) == 1 or starts == set(range(4, last + 1, 4))


def test_offsets_hold_and_follow_from_parent_and_number():
    fork = Fork(0, start=4, steps=3 * HOLD - 1, strength=0.5)
    offsets = fork.offsets("reach", 1)
    assert offsets.shape == (3 * HOLD - 1, 4)
    assert len(np.unique(offsets, axis=0)) == 3
    np.testing.assert_array_equal(offsets[:HOLD], np.repeat(offsets[:1], HOLD, axis=0))
    np.testing.assert_array_equal(offsets, fork.offsets("reach", 1))
    others = dataclasses.replace(fork, number=1).offsets("reach", 1), fork.offsets("reach", 2), fork.offsets("push", 1)
    assert all((offsets != other).all() for other in others)


def test_strength_is_the_deviation_of_the_offsets():
    offsets = Fork(0, start=0, steps=8000, strength=0.5).offsets("reach", 0)
    assert offsets.std() == pytest.approx(0.5, rel=0.05)
    assert not Fork(0, start=0, steps=9, strength=0.0).offsets("reach", 0).any()


def test_no_branch_is_recorded_unasked(tmp_path):
    request = dataclasses.replace(REQUEST, train=0, validation=0)
    assert record_all_branches(request, DEMONSTRATIONS, tmp_path, validation=VALIDATION, workers=1) == []


def test_the_number_of_processes_changes_no_branch(tmp_path):
    rng, parents = np.random.default_rng(0), []
    for seed in range(3):
        frames, states = rng.integers(0, 256, (20, 2, 2, 3), dtype=np.uint8), rng.normal(size=(20, 4))
        parents.append(spool(Recording("reach", seed, frames, states[1:], states), tmp_path / f"{seed}.npz"))
    found = []
    for workers in (1, 2):
        made = record_all_branches(
            REQUEST, parents, tmp_path, validation={parents[2]}, workers=workers, record=branch_noise
        )
        found.append([(branch.name, branch.video.load().frames.tobytes()) for branch in made])
    assert found[0] == found[1]
    assert [name[:12] for name, _ in found[0]] == ["reach-000000", "reach-000000", "reach-000001", "reach-000002"]


@pytest.mark.slow
@needs_simulator
@pytest.mark.parametrize("task", DEFAULT_TASKS)
def test_without_an_offset_a_restored_state_goes_on_as_the_demonstration_did(task):
    parent = demonstration(task)
    still = Fork(0, start=12, steps=min(len(parent.actions) - 12, 32), strength=0.0)
    wild = dataclasses.replace(still, strength=0.7)
    stop = still.start + still.steps
    for branch in record_branches(parent, [wild, still, wild, still])[1::2]:
        np.testing.assert_array_equal(branch.actions, parent.actions[still.start : stop])
        np.testing.assert_array_equal(branch.states, parent.states[still.start : stop + 1])
        np.testing.assert_array_equal(branch.frames, parent.frames[still.start : stop + 1])


@pytest.mark.slow
@needs_simulator
def test_a_branch_leaves_its_parent_and_repeats_itself():
    parent, fork = demonstration("handle-press"), Fork(0, start=8, steps=16, strength=0.7)
    (first,), (second,) = record_branches(parent, [fork]), record_branches(parent, [fork])
    for name in ("frames", "actions", "states"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(first.frames[0], parent.frames[8])
    np.testing.assert_array_equal(first.states[0], parent.states[8])
    assert np.abs(first.actions).max() <= 1
    assert np.abs(first.actions - parent.actions[8:24]).mean() > 0.2
    assert np.linalg.norm(first.states[-1, :3] - parent.states[24, :3]) > 0.01
