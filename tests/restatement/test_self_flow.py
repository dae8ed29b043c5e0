"""The oracle's flow matching and drawn geometry against numbers worked out by hand."""

import numpy as np
import pytest

from tests.restatement import flow
from tests.restatement.sample import drawn_geometries

VIDEO, ACTION = flow.Schedule(1000, 5.0), flow.Schedule(1000, 1.0)


def test_grid_values() -> None:
    np.testing.assert_allclose(VIDEO.sigmas[[0, 500, 999]], [1, 0.833333, 0.0049801], atol=5e-7)
    np.testing.assert_allclose(ACTION.sigmas[999], 0.001, rtol=1e-12)
    np.testing.assert_allclose(VIDEO.timesteps[999], 4.9801, atol=5e-5)


def test_weight_values() -> None:
    expected = [0, 0.00128, 0.39795, 1.02486, 1.91404, 2.07640, 0.03188]
    np.testing.assert_allclose(VIDEO.weights[[0, 1, 250, 500, 750, 833, 999]], expected, atol=5e-6)
    np.testing.assert_allclose(ACTION.weights[[250, 750, 500, 999]], [1.10788, 1.10788, 1.57960, 0.00487], atol=5e-6)
    assert VIDEO.weights.argmax() == 833
    assert VIDEO.weights.mean() == pytest.approx(1)


def test_ids_and_their_uniforms() -> None:
    assert VIDEO.ids(np.array([0, 0.0009, 0.001, 0.5, 0.99999, 1])).tolist() == [0, 0, 1, 500, 999, 999]
    ids = np.arange(1000)
    assert (VIDEO.ids(flow.uniforms_of_ids(ids, 1000)) == ids).all()


def test_lookup_is_nearest_and_ties_go_to_the_first() -> None:
    assert VIDEO.nearest(np.array([0.0, 1000.0, VIDEO.timesteps[417]])).tolist() == [999, 0, 417]
    assert ACTION.nearest(np.array([937.5, 937.4])).tolist() == [62, 63]


def test_noising() -> None:
    assert flow.noised(np.array([2.0]), np.array([-6.0]), np.array([0.25])).tolist() == [0.0]


def test_clocks_without_the_prefix_on_the_action_side() -> None:
    video_u, action_u = (flow.uniforms_of_ids(np.array(ids), 1000) for ids in ([7, 250, 500], [1, 2]))
    ticks = {name: flow.clock_ticks(name, video_u, action_u, VIDEO, ACTION) for name in flow.CLOCKS}
    action = {name: tick.action.round(6).tolist() for name, tick in ticks.items()}
    assert action["independent"] == [999, 998]
    assert action["match_index"] == [750, 500]
    assert action["match_sigma"] == [938, 833]
    assert action["shared_video_schedule"] == [937.5, 833.333333]
    assert [name for name, tick in ticks.items() if tick.action_schedule is VIDEO] == ["shared_video_schedule"]


def test_match_index_needs_equal_grids() -> None:
    with pytest.raises(ValueError, match="equal length"):
        flow.clock_ticks("match_index", np.zeros(2), np.zeros(2), VIDEO, flow.Schedule(500, 1.0))


def test_history_is_a_multiple_of_the_chunk() -> None:
    chances = drawn_geometries(5, chunk_size=2, window_size=3)
    assert chances == {(1, 3, h): 0.125 for h in (1, 2, 3, 4)} | {(2, 3, 2): 0.5}


def test_window_is_drawn_from_four_upwards() -> None:
    assert {window for _, window, _ in drawn_geometries(9, chunk_size=1, window_size=6)} == {4, 5, 6}


def test_history_leaves_a_frame_to_predict() -> None:
    for frames in range(2, 12):
        chances = drawn_geometries(frames, chunk_size=6, window_size=8)
        assert sum(chances.values()) == pytest.approx(1)
        assert all(0 < history < frames and chunk <= frames for chunk, _, history in chances)
