"""Run tables: few ranges, cached by the law."""

import numpy as np
import pytest

from tests.sequence.geometries import random_geometries
from wam_jax.sequence.ranges import SELF_RANGES, SELF_RANGES_WITH_PREFIX, run_table
from wam_jax.sequence.rung import most_runs


@pytest.mark.parametrize(("prefix", "bound"), [(0, SELF_RANGES), (1, SELF_RANGES_WITH_PREFIX)])
def test_a_run_never_needs_more_ranges_than_the_bound_and_some_need_all(prefix, bound):
    needed = [run_table(g).num_ranges for g in random_geometries(3000, seed=prefix, prefix_frames=prefix)]
    assert max(needed) == bound


def test_ranges_are_ascending_disjoint_and_within_their_stream():
    for geometry in random_geometries(300, seed=3):
        table = run_table(geometry)
        for starts, stops, action in zip(table.starts, table.stops, table.is_action, strict=True):
            used = stops > starts
            frames = np.where(action, geometry.num_frames, geometry.num_video_frames) * 2
            assert (stops[used] <= frames[used]).all()
            offset = action[used] * 1000
            assert (np.diff(np.stack([starts[used] + offset, stops[used] + offset], 1).ravel()) >= 0).all()


def test_runs_stay_below_their_bound():
    for geometry in random_geometries(300, seed=4):
        assert run_table(geometry).num_runs <= most_runs(geometry)


def test_equal_laws_share_one_table():
    first, second = (next(iter(random_geometries(1, seed=5, action_valid=None))) for _ in range(2))
    assert run_table(first) is run_table(second)
