"""The oracle's tables and network against their defining properties."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.restatement import losses, model, prepare, tables
from tests.restatement.generators import random_rules, random_sample, small_sample
from tests.restatement.params import Sizes, random_params
from tests.restatement.sample import FDM, IDM, PROGRAM_OBJECTIVES, Rules, Sample
from tests.restatement.visibility import PROGRAMS

SIZES = Sizes(layers=1)
PARAMS = random_params(np.random.default_rng(1), SIZES)


# Equal shapes for all cases, so that they share one compiled program for predictions and one for gradients.
SHAPE: dict[str, Any] = {"chunk_size": 2, "proprio_mode": "text_context_token", "mode_token": True}


def small(program: str = "generalist_joint_denoising") -> Sample:
    return small_sample(Rules(program=program, **SHAPE), sizes=SIZES)


def finite(tree: model.Params) -> bool:
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("head_dim", [8, 24, 32, 48, 96, 128])
def test_rope_covers_the_head(head_dim: int) -> None:
    assert tables.rope_angles(np.zeros((3, 3)), head_dim).shape == (3, head_dim // 2)


@pytest.mark.parametrize("head_dim", [16, 64])
def test_rope_sizes_must_be_even(head_dim: int) -> None:
    with pytest.raises(ValueError, match="even"):
        tables.rope_angles(np.zeros((3, 3)), head_dim)


def test_rope_frequencies() -> None:
    angles = tables.rope_angles(np.array([[2.0, 3.0, -1.0]]), 24)
    np.testing.assert_allclose(angles[0], np.outer([2, 3, -1], [1, 0.1, 0.01, 0.001]).ravel())


def test_positions_of_both_streams_meet_at_the_frame_shift() -> None:
    rules = Rules(program="joint", legacy_prefix=True, frame_shift=7)
    x = prepare.prepare(small_sample(rules, num_frames=2), patch=SIZES.patch)
    video, action = tables.video_positions(x, 2), tables.action_positions(x)
    assert video[:5].tolist() == [[6, 0, 0], [6, 0, 1], [6, 1, 0], [6, 1, 1], [7, 0, 0]]
    assert video[:12].tolist() == video[12:].tolist()
    np.testing.assert_allclose(action[:4], [[t, -1, -1] for t in (7 + 1 / 3, 7 + 2 / 3, 8 + 1 / 3, 8 + 2 / 3)])


def test_sinusoid_has_cosines_first() -> None:
    expected = [np.cos(3), np.cos(0.03), np.sin(3), np.sin(0.03)]
    np.testing.assert_allclose(tables.sinusoid(np.array([3.0]), 4), [expected])


def test_patch_orders_of_input_and_output_differ() -> None:
    video = np.arange(16.0).reshape(2, 1, 2, 4)
    tokens = tables.patchify(video, (2, 2))
    assert tokens.tolist() == [[0, 1, 4, 5, 8, 9, 12, 13], [2, 3, 6, 7, 10, 11, 14, 15]]
    channel_last = tokens.reshape(2, 2, 4).swapaxes(1, 2).reshape(2, 8)
    np.testing.assert_array_equal(model.unpatchify(channel_last, video.shape, (2, 2)), video)


def test_rotated_products_depend_on_the_distance_alone() -> None:
    q, k = np.random.default_rng(0).normal(size=(2, 1, 1, 24))
    with jax.enable_x64(True):
        near, far = (tables.rope_angles(np.array([[t, 1.0, 2.0], [t + 2, 1.0, 2.0]]), 24) for t in (3.0, 14.0))
        products = [(model.rotate(q, a[:1]) * model.rotate(k, a[1:])).sum() for a in (near, far)]
        np.testing.assert_allclose(products[0], products[1], rtol=1e-12)
        assert abs(products[0] - (q * k).sum()) > 1e-3


def test_query_without_keys_gives_zeros_and_no_gradient() -> None:
    qkv = np.random.default_rng(0).normal(size=(3, 2, 1, 4))
    mask = np.array([[True, False], [False, False]])
    with jax.enable_x64(True):
        out = model.attention(*qkv, mask)
        gradient = jax.grad(lambda x: (model.attention(*x, mask) ** 2).sum())(qkv)
    np.testing.assert_allclose(out, [qkv[2, 0], np.zeros((1, 4))])
    assert np.isfinite(gradient).all()
    assert not np.asarray(gradient)[:, 1].any()


def test_gradient_is_the_slope_of_the_loss() -> None:
    gradient = losses.gradients(PARAMS, small(), SIZES.architecture)
    ends = [jax.tree.map(lambda p, g, step=step: p + step * g, PARAMS, gradient) for step in (-1e-6, 1e-6)]
    low, high = (losses.predict(end, small(), SIZES.architecture)[2]["joint_loss"] for end in ends)
    slope = sum((g**2).sum() for g in jax.tree.leaves(gradient))
    assert (high - low) / 2e-6 == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_objective_of_every_program_trains_the_heads_it_should(program: str) -> None:
    for objective in PROGRAM_OBJECTIVES.get(program, ("joint",)):
        rng = np.random.default_rng(3)
        rules = random_rules(rng, program=program, num_frames=4, objective=objective, legacy_prefix=False, **SHAPE)
        sample = random_sample(rng, rules, SIZES, num_frames=4)
        gradient = losses.gradients(PARAMS, sample, SIZES.architecture)
        assert finite(gradient)
        assert bool(gradient["video"]["head"]["w"].any()) == (objective != IDM)
        assert bool(gradient["action"]["head"]["w"].any()) == (objective != FDM)


def test_masked_actions_that_see_nothing_keep_gradients_finite() -> None:
    sample = small("decoupled_same_step")
    assert sample.action_mask is not None
    sample.action_mask[:3] = 0
    assert not tables.visible(prepare.geometry_of(sample, tokens_per_frame=4)).any(-1).all()
    assert finite(losses.gradients(PARAMS, sample, SIZES.architecture))


def test_contents_of_masked_actions_reach_no_prediction() -> None:
    sample = small()
    assert sample.action_mask is not None
    sample.action_mask[2] = 0
    video, action, _ = losses.predict(PARAMS, sample, SIZES.architecture)
    sample.actions[2] += 100
    video_after, action_after, _ = losses.predict(PARAMS, sample, SIZES.architecture)
    np.testing.assert_array_equal(video, video_after)
    np.testing.assert_array_equal(action, action_after)


def test_mode_and_state_tokens_reach_the_prediction() -> None:
    gradient = losses.gradients(PARAMS, small(), SIZES.architecture)
    assert gradient["mode_tokens"].any(-1).tolist() == [True, False, False]
    assert gradient["proprio_text"]["w"].any()
    assert not gradient["proprio_encoder"]["w"].any()
