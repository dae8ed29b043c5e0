"""The visibility law: against the brute-force restatement, its drawing, and the statements that define it."""

from typing import Any

import numpy as np
import pytest

from tests.restatement.visibility import Geometry, text_visible, visible
from tests.sequence.geometries import random_fields
from wam_jax.sequence import SequenceGeometry, dense_visibility, text_visibility, visibility

KINDS_AND_FRAMES = [f"{kind}{frame}" for kind in ("VN", "VC", "AN", "AC") for frame in range(3)]


def _geometry(**fields) -> SequenceGeometry:
    base: dict[str, Any] = {
        "num_frames": 3,
        "video_tokens_per_frame": 1,
        "actions_per_frame": 1,
        "chunk_size": 1,
        "window_size": 8,
        "program": "joint",
        "history": "full",
    }
    return SequenceGeometry(**(base | fields))


def test_law_equals_the_restatement_over_random_geometries():
    rng = np.random.default_rng(1)
    for _ in range(5000):
        fields = random_fields(rng)
        np.testing.assert_array_equal(
            dense_visibility(SequenceGeometry(**fields)), visible(Geometry(**fields)), str(fields)
        )


def test_the_drawing_in_the_docstring_is_the_law():
    rows = [line.split() for line in str(visibility.__doc__).splitlines() if line.strip()[:3] in KINDS_AND_FRAMES]
    drawn = np.array([[mark == "x" for mark in "".join(marks)] for _, *marks in rows])
    np.testing.assert_array_equal(drawn, dense_visibility(_geometry()))


def test_every_valid_token_reads_itself():
    matrix = dense_visibility(_geometry(num_frames=5, chunk_size=2, video_tokens_per_frame=3))
    assert matrix.diagonal().all()


def test_an_invalid_action_is_no_key_but_stays_a_query():
    valid = np.array([True, False, True])
    matrix = dense_visibility(_geometry(action_valid=valid))
    assert not matrix[:, [7, 10]].any()
    assert matrix[7].any()


def test_the_window_cuts_same_chunk_arrows_of_the_other_stream_at_zero():
    matrix = dense_visibility(_geometry(window_size=0))
    np.testing.assert_array_equal(matrix, np.eye(12, dtype=bool))


@pytest.mark.parametrize(("number", "stream"), [(0, "video"), (1, "action")])
def test_text_law_equals_the_restatement(number, stream):
    rng = np.random.default_rng(7)
    for _ in range(2500):
        fields = random_fields(rng)
        text, proprio, mode = (int(n) for n in rng.integers(0, (4, 5, 2)))
        expected = text_visible(Geometry(**fields), number, num_text=text, num_proprio=proprio, mode_token=bool(mode))
        found = text_visibility(SequenceGeometry(**fields), stream, text, proprio, bool(mode))
        np.testing.assert_array_equal(found, expected, str(fields))
