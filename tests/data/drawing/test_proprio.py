"""Proprioception: the state before each chunk, from whichever field a sample has."""

import numpy as np
import pytest

from wam_jax.data.drawing.proprio import frame_states, num_chunks, state_of_frames, state_tokens

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


@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("origin", [0, 1, 2])
def test_frames_behind_a_prefix_equal_the_formula(chunk, origin):
    anchor = np.array([-7, 7], np.float32)
    values = [anchor, *STATES]
    arrays = {"proprio_context_frames": STATES}
    found = state_of_frames(arrays, 5, chunk_size=chunk, origin=origin, stride=4, anchor=anchor)
    for frame, state in enumerate(found):
        index = min(max((frame - origin) // chunk * chunk + origin - 1 + 1, 0), len(values) - 1)
        assert state.tolist() == values[index].tolist()
    table = {"proprio_context_state": STATES}
    by_chunk = state_of_frames(table, 5, chunk_size=chunk, origin=origin, stride=4, anchor=anchor)
    assert by_chunk.tolist() == [values[max(f - origin, 0) // chunk + 1].tolist() for f in range(5)]


def tokens(arrays, *, origin: int = 0) -> list[list[float]]:
    return state_tokens(arrays, 5, chunk_size=2, origin=origin, stride=4).tolist()


def test_chunk_tokens_take_the_state_before_the_chunk_and_the_first_its_own():
    arrays = {"proprio_context_frames": STATES}
    assert tokens(arrays) == STATES[[0, 1, 3]].tolist()
    assert tokens(arrays, origin=1) == STATES[[0, 2, 4]].tolist()
    assert tokens({"proprio_context_state": STATES[:3]}) == STATES[:3].tolist()


def test_a_sample_with_raw_states_alone_has_one_token():
    assert tokens({"state": RAW}) == tokens({"state": RAW}, origin=1) == STATES[:1].tolist()


def test_the_last_chunk_may_be_short():
    assert num_chunks(np.array([4, 5, 1]), np.array([2, 2, 3])).tolist() == [2, 3, 1]
