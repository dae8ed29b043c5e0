"""Items and the segments they become."""

import numpy as np
import pytest

from wam_jax.config.schema import SampleConstructionConfig
from wam_jax.data.drawing.segments import SegmentSpace, candidate_lengths
from wam_jax.keys import Phase, Purpose, draw_words


def words(count: int, seed: int = 0) -> np.ndarray:
    return draw_words(seed, Phase.TRAIN, 0, Purpose.SEGMENT_LENGTH, 0, count)[:, 0]


def space(frames: list[int], candidates: list[int] | None) -> SegmentSpace:
    chosen = None if candidates is None else np.array(candidates)
    return SegmentSpace(10 + np.arange(len(frames)), np.array(frames), chosen)


def stretches_of(frames: list[int], candidates: list[int] | None) -> list[tuple[int, int, int]]:
    items = space(frames, candidates)
    found = items.segments(np.arange(len(items)), words(len(items)))
    return list(zip(found.episode.tolist(), found.start.tolist(), found.num_frames.tolist(), strict=True))


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"mode": "full_segment"}, None),
        ({"mode": "uniform_segment", "max_segment_frames": 5, "min_segment_frames": 2}, [5]),
        ({"max_segment_frames": 7, "min_segment_frames": 2, "randomize_segment_length": True}, [2, 3, 4, 5, 6, 7]),
        (
            {
                "max_segment_frames": 7,
                "min_segment_frames": 2,
                "randomize_segment_length": True,
                "segment_length_stride": 3,
            },
            [2, 5, 7],
        ),
    ],
)
def test_candidate_lengths(fields, wanted):
    found = candidate_lengths(SampleConstructionConfig(**{"mode": "uniform_segment"} | fields))
    assert wanted is None if found is None else found.tolist() == wanted


def test_full_segments_are_whole_episodes():
    assert stretches_of([4, 2, 7], None) == [(10, 0, 4), (11, 0, 2), (12, 0, 7)]


def test_fixed_segments_start_wherever_there_is_room():
    assert stretches_of([3, 5], [3]) == [(10, 0, 3), (11, 0, 3), (11, 1, 3), (11, 2, 3)]


def test_an_episode_that_is_too_short_is_one_item_of_its_whole_length():
    assert stretches_of([2, 4], [3]) == [(10, 0, 2), (11, 0, 3), (11, 1, 3)]


def test_random_lengths_keep_the_start_where_they_fit_and_move_it_back_where_not():
    items = space([6], [3, 5])
    found = items.segments(np.repeat(np.arange(4), 50), words(200))
    assert len(items) == 4
    assert set(zip(found.start.tolist(), found.num_frames.tolist(), strict=True)) == {
        (0, 3), (1, 3), (2, 3), (3, 3), (0, 5), (1, 5),
    }  # fmt: skip


def test_random_lengths_are_even_over_those_that_fit():
    items = space([9], [2, 4, 6, 30])
    lengths = items.segments(np.zeros(6000, int), words(6000)).num_frames
    kinds, counts = np.unique(lengths, return_counts=True)
    assert kinds.tolist() == [2, 4, 6]
    assert np.all(np.abs(counts - 2000) < 4 * np.sqrt(2000))


def test_bounds_of_each_episode():
    items = space([2, 5, 40], [3, 5, 8])
    assert items.shortest().tolist() == [2, 3, 3]
    assert items.longest().tolist() == [2, 5, 8]
    assert space([4, 9], None).longest().tolist() == [4, 9]
