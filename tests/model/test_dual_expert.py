"""The whole network on rows of two samples: who influences whom, and that nothing ever turns into NaN."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.model.rows import (
    ACTION_OWNER,
    QUICK,
    TEXT_OWNER,
    VIDEO_OWNER,
    forward,
    random_params,
    random_row,
    random_rows,
    tiny,
    velocities,
)
from wam_jax.model import ModelConfig, RowTokens, merge

FULL = tiny(mode_token=True, proprio="per_chunk_additive")


def _run(rows: RowTokens, config: ModelConfig = FULL) -> tuple[np.ndarray, np.ndarray]:
    video, action = velocities(config, random_params(config), rows)
    return np.asarray(video), np.asarray(action)


def _shifted(rows: RowTokens, sample: int, by: float, fields: tuple[str, ...]) -> RowTokens:
    """Adds `by` to every entry of the fields that belongs to `sample` (-1: padding) of row 0."""
    owners = {"video": VIDEO_OWNER, "action": ACTION_OWNER, "text": TEXT_OWNER}
    changed = {}
    for name in fields:
        changed[name] = getattr(rows, name).copy()
        changed[name][0, owners[name.split("_")[0].rstrip("s")] == sample] += by
    return dataclasses.replace(rows, **changed)


FLOATS = ("video_latents", "video_timesteps", "video_proprio", "actions", "action_timesteps", "action_proprio")


def test_velocities_have_the_shapes_of_latents_and_actions() -> None:
    rows = random_rows(FULL)
    video, action = _run(rows)
    assert video.shape == rows.video_latents.shape
    assert action.shape == rows.actions.shape
    assert np.isfinite(video).all()
    assert np.isfinite(action).all()


def test_heads_are_given_the_embedding_and_the_first_two_vectors() -> None:
    rows, params = random_rows(FULL), random_params(FULL)
    out, *_ = forward(FULL, params, rows)
    model = merge(FULL, params)
    time, _ = model.video_expert.time_embedding(rows.video_timesteps)
    _, vectors = model.action_expert.time_embedding(rows.action_timesteps)
    np.testing.assert_allclose(out.video_time, time, atol=1e-5)
    np.testing.assert_allclose(out.action_modulation, vectors[:, :, :2], atol=1e-5)


def test_a_sample_does_not_notice_its_neighbour() -> None:
    rows = random_rows(FULL)
    before, after = _run(rows), _run(_shifted(rows, 1, 100.0, (*FLOATS, "text")))
    for owner, a, b in zip((VIDEO_OWNER, ACTION_OWNER), before, after, strict=True):
        np.testing.assert_array_equal(a[0, owner == 0], b[0, owner == 0])
        np.testing.assert_array_equal(a[1], b[1])
        assert not np.any(a[0, owner == 1] == b[0, owner == 1])


def test_frames_without_a_state_are_added_nothing_not_even_a_bias() -> None:
    given = np.broadcast_to(VIDEO_OWNER != 0, (2, len(VIDEO_OWNER)))
    rows = dataclasses.replace(random_rows(FULL), video_proprio_given=jnp.asarray(given))
    model = merge(FULL, random_params(FULL))
    plain = model.video_expert.embed(rows.video_latents)
    video, _ = model._embed(rows)
    np.testing.assert_array_equal(np.asarray(video != plain).all((-2, -1)), given)
    np.testing.assert_array_equal(np.asarray(video == plain).all((-2, -1)), ~given)


def test_nobody_notices_padding() -> None:
    rows = random_rows(FULL)
    before, after = _run(rows), _run(_shifted(rows, -1, 1000.0, FLOATS))
    for owner, a, b in zip((VIDEO_OWNER, ACTION_OWNER), before, after, strict=True):
        np.testing.assert_array_equal(a[0, owner >= 0], b[0, owner >= 0])
        assert np.isfinite(b).all()


def test_a_slot_that_is_no_key_is_noticed_by_itself_alone() -> None:
    rows = random_rows(FULL)
    actions = rows.actions.copy()
    actions[0, 0, 0] += 5.0  # the slot that `random_row` marks invalid
    before, after = _run(rows), _run(dataclasses.replace(rows, actions=actions))
    np.testing.assert_array_equal(before[0], after[0])
    changed = np.argwhere((before[1] != after[1]).any(-1))
    np.testing.assert_array_equal(changed, [[0, 0, 0]])


def test_the_objective_is_read_by_its_sample_alone() -> None:
    rows = random_rows(FULL)
    before, after = (
        _run(rows),
        _run(dataclasses.replace(rows, objective=rows.objective + np.array([[0, 1], [0, 0]], "i4"))),
    )
    np.testing.assert_array_equal(before[0][0, VIDEO_OWNER == 0], after[0][0, VIDEO_OWNER == 0])
    assert not np.any(before[1][0, ACTION_OWNER == 1] == after[1][0, ACTION_OWNER == 1])


def test_rows_that_read_nothing_have_finite_values() -> None:
    rows = random_rows(FULL)
    joint = rows.ranges.joint
    blind = rows.ranges._replace(joint=joint._replace(run_of_query=np.zeros_like(joint.run_of_query)))
    assert all(np.isfinite(v).all() for v in _run(dataclasses.replace(rows, ranges=blind)))


@pytest.fixture(scope="module")
def gradients() -> tuple[dict, RowTokens]:
    """Gradients of a loss over row 0's real frames, for parameters and for the row's arrays; row 1 reads nothing."""
    rows = random_rows(FULL)
    joint = rows.ranges.joint
    run = joint.run_of_query.copy()
    run[1] = 0
    rows = dataclasses.replace(rows, ranges=rows.ranges._replace(joint=joint._replace(run_of_query=run)))

    def loss(params: dict, latents: jax.Array, actions: jax.Array) -> jax.Array:
        video, action = velocities(FULL, params, dataclasses.replace(rows, video_latents=latents, actions=actions))
        return jnp.square(video[:, VIDEO_OWNER >= 0]).mean() + jnp.square(action[:, ACTION_OWNER >= 0]).mean()

    return jax.jit(jax.grad(loss, argnums=(0, 1, 2)), compiler_options=QUICK)(
        random_params(FULL), rows.video_latents, rows.actions
    )


def test_every_parameter_has_a_finite_gradient(gradients: tuple) -> None:
    for path, leaf in jax.tree.leaves_with_path(gradients[0]):
        assert np.isfinite(leaf).all(), path
        assert np.abs(leaf).max() > 1e-8, path


def test_padding_has_no_gradient(gradients: tuple) -> None:
    for owner, leaf in zip((VIDEO_OWNER, ACTION_OWNER), gradients[1:], strict=True):
        assert np.isfinite(leaf).all()
        assert np.abs(leaf[:, owner >= 0]).max() > 0
        np.testing.assert_array_equal(leaf[:, owner < 0], 0)


def test_bfloat16_streams_have_float32_velocities() -> None:
    half, rows = dataclasses.replace(FULL, compute_dtype="bfloat16"), random_rows(FULL)
    out, *_ = forward(half, random_params(FULL), rows)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(out)} == {"bfloat16"}
    for low, high in zip(_run(rows, half), _run(rows), strict=True):
        assert low.dtype == np.float32
        assert 1e-5 < np.linalg.norm(low - high) / np.linalg.norm(high) < 3e-2


@pytest.mark.parametrize("proprio", ["none", "text_context_token"])
def test_proprio_that_was_not_asked_for_is_refused(proprio: str) -> None:
    config, row = tiny(proprio=proprio), random_row(FULL)
    with pytest.raises(ValueError, match="proprio = "):
        jax.eval_shape(lambda params: velocities(config, params, row), random_params(config))
