"""RoPE positions and their rounding."""

import numpy as np
import pytest

from wam_jax.sequence import rope


@pytest.mark.parametrize(
    ("head_dim", "split"), [(8, (4, 2, 2)), (24, (8, 8, 8)), (96, (32, 32, 32)), (128, (44, 42, 42))]
)
def test_axis_split(head_dim, split):
    assert rope.axis_split(head_dim) == split


@pytest.mark.parametrize("head_dim", [16, 64, 0])
def test_odd_parts_are_refused(head_dim):
    with pytest.raises(ValueError, match="must be even"):
        rope.axis_split(head_dim)


def test_phases_turn_pairs_by_the_published_frequencies():
    found = rope.phases(np.array([3.0]), 4)
    expected = [[np.cos(3.0), np.sin(3.0)], [np.cos(0.03), np.sin(0.03)]]
    np.testing.assert_allclose(found[0], expected, rtol=1e-7)


def test_action_slots_lie_strictly_between_their_frame_and_the_next():
    positions = rope.action_slot_positions(2, actions_per_frame=3, frame_shift=7)
    np.testing.assert_allclose(positions, [[7.25, 7.5, 7.75], [8.25, 8.5, 8.75]])


def test_a_prefix_sits_before_the_first_dataset_frame():
    np.testing.assert_array_equal(rope.video_frame_positions(3, frame_shift=5, prefix_frames=1), [4, 5, 6])
