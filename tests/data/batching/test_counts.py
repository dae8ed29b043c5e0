"""Counting: real tokens and slots of every stream, and what rectangles would have computed."""

import numpy as np

from tests.data.indexes import make_index, make_law
from tests.support.runs import tiny_config
from wam_jax.data.batching.counts import STREAMS, TokenCounts, allocated_slots, count_tokens, rectangle_tokens
from wam_jax.data.drawing.samplers import Stretch
from wam_jax.sequence.layout import RowConstants
from wam_jax.sequence.rung import Rung

CONSTANTS = RowConstants(4, 2, ranges=4, frame_axis=8, packed=True)
RUNG = Rung(2, 9, 9, video_frames=30, action_frames=28, text_keys=10, proprio_keys=6, runs=5)
INDEX = make_index([4, 9, 2, 6], extents={"text_context": [3, 0, 5, None], "state": [13, 33, 5, 21]})
LAW = make_law(tiny_config(policy={"program": "joint", "proprio_context_mode": "text_context_token"}), INDEX)
DRAWS = LAW.draws(Stretch(0, 0, 4), np.arange(4)).seated(np.array([[0, 1], [2, -1]]))
"""Rows of 4 and 9 frames, and of 2 frames and nobody."""


def test_every_stream_is_counted_over_all_rows():
    counts, chunks = count_tokens(DRAWS, RUNG, CONSTANTS), int(DRAWS.num_proprio[DRAWS.present].sum())
    assert counts.samples == 3
    assert counts.streams == {
        "video": (2 * 4 * 15, 2 * 30 * 4),
        "action": (2 * 2 * 15, 2 * 28 * 2),
        "text": (3 + 0 + 5, 2 * 10),
        "proprio": (chunks, 2 * 6),
    }
    assert counts.utilisation == (120 + 60) / (240 + 112)
    assert counts.utilisations() == {
        "all": 180 / 352,
        "video": 0.5,
        "action": 60 / 112,
        "text": 0.4,
        "proprio": chunks / 12,
    }


def test_counts_add_up():
    one, slots = count_tokens(DRAWS, RUNG, CONSTANTS), allocated_slots(RUNG, 3, CONSTANTS)
    both = one + slots
    assert (both.tokens, both.slots, both.samples) == (one.tokens, one.slots + 3 * (120 + 56), 3)
    assert TokenCounts() + one == one


def test_a_stream_without_slots_has_no_utilisation():
    counts = TokenCounts(samples=1, video_tokens=3, video_slots=4, action_tokens=1, action_slots=2)
    assert counts.utilisations() == {"all": 4 / 6, "video": 0.75, "action": 0.5}
    assert set(counts.streams) < set(STREAMS)


def test_rectangles_count_every_sample_as_the_longest_of_its_row():
    assert rectangle_tokens(DRAWS, CONSTANTS) == 2 * (4 + 2) * (2 * 9 + 1 * 2)
    assert rectangle_tokens(DRAWS[:, :1], CONSTANTS) == 2 * (4 + 2) * (4 + 2)
