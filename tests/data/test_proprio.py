"""Proprioception: the state before each chunk, from whichever field a sample has."""

import numpy as np
import pytest

from wam_jax.data.proprio import frame_states, num_chunks, state_of_chunks, state_of_frames

STATES = np.arange(1, 6, dtype=np.float32)[:, None] * [1, 10]  # five frames
RAW = np.repeat(STATES, 4, axis=0)[: 1 + 4 * 4]  # anchors at 0, 4, 8, ...: the same states
ZERO = [0, 0]


def frames(arrays, chunk: int, *, origin: int = 0) -> list[list[float]]:
    return state_of_frames(arrays, 5, chunk_size=chunk, origin=origin, stride=4).tolist()


@pytest.mark.parametrize("arrays", [{"proprio_context_frames": STATES}, {"state": RAW}])
def test_frames_take_the_state_before_their_chunk(arrays):
    assert frames(arrays, 2) == [ZERO, ZERO, [2, 20], [2, 20], [4, 40]]
    assert frames(arrays, 1) == [ZERO, [1, 10], [2, 20], [3, 30], [4, 40]]
    assert frames(arrays, 5) == [ZERO] * 5


@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("origin", [0, 1, 2])
def test_frames_equal_the_formula(chunk, origin):
    found = frames({"proprio_context_frames": STATES}, chunk, origin=origin)
    for frame, state in enumerate(found):
        boundary = origin + (max(frame, origin) - origin) // chunk * chunk - 1
        assert state == (ZERO if boundary < 0 else STATES[min(boundary, 4)].tolist())


def test_chunk_states_are_taken_by_chunk():
    table = {"proprio_context_state": STATES[:3]}
    assert frames(table, 2) == STATES[[0, 0, 1, 1, 2]].tolist()
    assert frames(table, 2, origin=1) == STATES[[0, 0, 0, 1, 1]].tolist()


def test_masked_entries_are_zero():
    mask = np.ones_like(STATES)
    mask[1, 1] = 0
    arrays = {"proprio_context_frames": STATES, "proprio_context_frames_mask": mask}
    assert frames(arrays, 2)[2] == [2, 0]


def test_frame_states_come_before_raw_states_and_those_before_chunks():
    arrays = {"proprio_context_frames": STATES, "state": -RAW, "proprio_context_state": STATES * 0}
    np.testing.assert_array_equal(frame_states(arrays, 4), STATES)
    np.testing.assert_array_equal(frame_states({"state": -RAW}, 4), -STATES)
    assert frame_states({"proprio_context_state": STATES}, 4) is None


def test_chunk_tokens_take_the_state_before_the_chunk_and_the_first_its_own():
    arrays = {"proprio_context_frames": STATES}
    assert state_of_chunks(arrays, 5, chunk_size=2, stride=4).tolist() == STATES[[0, 1, 3]].tolist()
    table = {"proprio_context_state": STATES[:3]}
    assert state_of_chunks(table, 5, chunk_size=2, stride=4).tolist() == STATES[:3].tolist()


def test_the_last_chunk_may_be_short():
    assert num_chunks(np.array([4, 5, 1]), np.array([2, 2, 3])).tolist() == [2, 3, 1]
