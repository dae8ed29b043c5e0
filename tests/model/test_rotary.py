"""Rotary positions: the parts of a head, the constants of the grid, and that only differences of position matter."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.model.rows import Array, normal, tiny
from wam_jax.model.rotary import action_spatial_phase, rotate_heads, rotate_pairs, video_spatial_phase
from wam_jax.sequence.rope import axis_split, phases

CONFIG = tiny(head_dim=24, latent_height=4, latent_width=3)


def test_tokens_of_a_frame_go_row_by_row() -> None:
    table = video_spatial_phase(CONFIG)
    token = 1 * 3 + 2  # row 1, column 2
    assert table.dtype == np.float32
    assert table.shape == (6, 8, 2)
    np.testing.assert_array_equal(table[token], np.concatenate([phases(np.array(1.0), 8), phases(np.array(2.0), 8)]))


def test_actions_sit_off_the_grid() -> None:
    angles = -(10000.0 ** (-np.arange(4) / 4))
    expected = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    np.testing.assert_allclose(action_spatial_phase(CONFIG)[0], np.concatenate([expected, expected]), atol=1e-7)


def test_pairs_are_interleaved() -> None:
    quarter, none = [0.0, 1.0], [1.0, 0.0]
    turned = rotate_pairs(jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([quarter, none]))
    np.testing.assert_array_equal(turned, [-2.0, 1.0, 3.0, 4.0])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_axis_turns_its_own_part_of_the_head(axis: int) -> None:
    x = normal(1, 1, 1, 1, 24)
    split = axis_split(24)
    parts = [phases(np.full((1, 1, 1), 2.0 * (i == axis)), size)[0, 0] for i, size in enumerate(split)]
    turned = rotate_heads(x, jnp.asarray(parts[0][None, None]), np.concatenate(parts[1:], axis=-2), CONFIG)
    changed = np.flatnonzero(np.asarray(turned != x)[0, 0, 0, 0])
    start = sum(split[:axis])
    np.testing.assert_array_equal(changed, np.arange(start, start + split[axis]))


def test_scores_depend_on_the_distance_of_frames_only() -> None:
    q, k = normal(2, 1, 1, 1, 1, 24)

    def score(query_frame: float, key_frame: float) -> float:
        turned = [
            rotate_heads(x, jnp.asarray(phases(np.full((1, 1, 1), frame), 8)), action_spatial_phase(CONFIG), CONFIG)
            for x, frame in ((q, query_frame), (k, key_frame))
        ]
        return float(np.sum(np.asarray(turned[0]) * np.asarray(turned[1])))

    assert score(2.0, 5.5) == pytest.approx(score(40.0, 43.5), rel=1e-4)
    assert score(2.0, 5.5) != pytest.approx(score(2.0, 6.5), rel=1e-2)


def test_bfloat16_heads_are_turned_in_float32() -> None:
    config = tiny(head_dim=24, compute_dtype="bfloat16")
    x = normal(1, 2, 1, 2, 24, dtype="bfloat16")
    phase: Array = phases(60 * normal(1, 2, 1, seed=1), 8)
    turned = rotate_heads(x, phase, action_spatial_phase(config), config)
    exact = rotate_heads(x.astype(np.float32), phase, action_spatial_phase(config), CONFIG)
    assert turned.dtype == "bfloat16"
    np.testing.assert_array_equal(turned, exact.astype("bfloat16"))
