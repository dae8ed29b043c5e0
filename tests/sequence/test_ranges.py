"""Run tables: few ranges, cached by the law."""

import numpy as np
import pytest

from tests.sequence.geometries import random_geometries
from wam_jax.sequence.programs import Kind
from wam_jax.sequence.ranges import SELF_RANGES, SELF_RANGES_WITH_PREFIX, run_table
from wam_jax.sequence.rung import most_runs
from wam_jax.sequence.visibility import frame_spans, visible_spans


@pytest.mark.parametrize(("prefix", "bound"), [(0, SELF_RANGES), (1, SELF_RANGES_WITH_PREFIX)])
def test_a_run_never_needs_more_ranges_than_the_bound_and_some_need_all(prefix, bound):
    needed = [run_table(g).num_ranges for g in random_geometries(3000, seed=prefix, prefix_frames=prefix)]
    assert max(needed) == bound


def test_run_tables_expand_to_the_law_frame_by_frame():
    for geometry in random_geometries(5000, seed=6):
        table, spans = run_table(geometry), frame_spans(geometry)
        clean = np.isin(spans.kind, [Kind.VC, Kind.AC])
        copies = np.where(spans.kind >= Kind.AN, geometry.num_frames, geometry.num_video_frames)
        key, action = spans.start + clean * copies, spans.kind >= Kind.AN
        runs = np.concatenate([table.video_run, table.action_run])
        starts, stops, is_action = (array[runs][:, :, None] for array in (table.starts, table.stops, table.is_action))
        read = ((starts <= key) & (key < stops) & (is_action == action)).any(1)
        np.testing.assert_array_equal(read, visible_spans(geometry, spans))


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
        bound = most_runs(2 * geometry.num_video_frames, 2 * geometry.num_frames)
        assert run_table(geometry).num_runs < bound


def test_equal_laws_share_one_table():
    first, second = (next(iter(random_geometries(1, seed=5, action_valid=None))) for _ in range(2))
    assert run_table(first) is run_table(second)
