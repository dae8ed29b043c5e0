"""Alignment against the worked example of the reference: 17 raw rows, stride 4, four actions per frame."""

import numpy as np
import pytest

from wam_jax.data.construction.actions import align_actions, anchors, fill_first_group, num_latent_frames, source_span
from wam_jax.errors import InputError

RAW = np.arange(1.0, 18.0, dtype=np.float32)[:, None]  # Row i holds i + 1, so that 0 can only be fill.


def groups(start, frames, **options):
    actions, mask = align_actions(RAW, start=start, frames=frames, actions_per_frame=4, **options)
    rows = actions[:, 0].astype(int) - 1
    return rows.reshape(-1, 4).tolist(), mask[:, 0].reshape(-1, 4).tolist()


def test_the_whole_episode():
    rows, mask = groups(0, 5)
    assert rows == [[-1] * 4, [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert mask == [[0] * 4] + [[1] * 4] * 4


def test_a_segment_starts_with_fill():
    rows, mask = groups(1, 3)
    assert rows == [[-1] * 4, [4, 5, 6, 7], [8, 9, 10, 11]]
    assert mask == [[0] * 4, [1] * 4, [1] * 4]


def test_a_segment_past_the_end_keeps_one_real_action_as_the_reference_does():
    rows, mask = groups(3, 4)
    assert rows == [[-1] * 4, [12, 13, 14, 15], [16, -1, -1, -1], [-1] * 4]
    assert mask == [[0] * 4, [1] * 4, [1, 0, 0, 0], [0] * 4]


def test_actions_in_padded_video_frames_are_masked_when_the_source_is_known():
    assert groups(3, 4, source_frames=5)[1] == [[0] * 4, [1] * 4, [0] * 4, [0] * 4]


def test_the_fill_can_be_supervised():
    rows, mask = groups(0, 2, fill_group="supervised")
    assert rows[0] == [-1] * 4
    assert mask == [[1] * 4, [1] * 4]


def test_absolute_targets_fill_with_the_first_one():
    assert groups(1, 2, fill_value="first")[0] == [[4, 4, 4, 4], [4, 5, 6, 7]]


def test_filling_copies():
    actions, mask = np.ones((4, 1), np.float32), np.ones((4, 1), np.float32)
    filled, filled_mask = fill_first_group(actions, mask, actions_per_frame=2)
    assert actions.all()
    assert mask.all()
    assert filled[:, 0].tolist() == filled_mask[:, 0].tolist() == [0, 0, 1, 1]


def test_filling_makes_a_mask_where_there_is_none():
    assert fill_first_group(np.ones((4, 2)), None, actions_per_frame=2)[1].tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("option", [{"fill_group": "maskd"}, {"fill_value": "last"}])
def test_unknown_options_are_refused(option):
    with pytest.raises(InputError, match=next(iter(option))):
        groups(0, 2, **option)


def test_anchors_stay_inside_the_video():
    assert anchors(5, 15).tolist() == [0, 4, 8, 12, 14]


@pytest.mark.parametrize(("raw_frames", "frames"), [(1, 1), (2, 2), (5, 2), (6, 3), (17, 5), (18, 6)])
def test_spans_partition_the_video(raw_frames, frames):
    assert num_latent_frames(raw_frames) == frames
    spans = [source_span(k, raw_frames) for k in range(frames + 1)]
    assert [frame for span in spans for frame in span] == list(range(raw_frames))
    assert [span[-1] for span in spans[:-1]] == anchors(frames, raw_frames).tolist()
    assert not spans[-1]
