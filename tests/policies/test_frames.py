"""Permuting frames: a partial permutation, its inverse, and a gradient that is a gather."""

import jax
import jax.numpy as jnp
import numpy as np

from wam_jax.policies.frames import permute_frames

SOURCE = jnp.array([[2, -1, 0, 4], [1, 3, -1, -1]])
DESTINATION = jnp.array([[2, -1, 0, -1, 3], [-1, 0, -1, 1, -1]])


def _frames() -> jax.Array:
    return jnp.arange(2 * 5 * 3, dtype=jnp.float32).reshape(2, 5, 3) + 1


def test_frames_go_to_their_places_and_gaps_are_zero():
    moved = permute_frames(_frames(), SOURCE, DESTINATION)
    np.testing.assert_array_equal(moved[0, 0], _frames()[0, 2])
    np.testing.assert_array_equal(moved[1, 1], _frames()[1, 3])
    assert not moved[0, 1].any()


def test_there_and_back_keeps_what_had_a_place():
    moved = permute_frames(permute_frames(_frames(), SOURCE, DESTINATION), DESTINATION, SOURCE)
    kept = (DESTINATION >= 0)[..., None]
    np.testing.assert_array_equal(moved, jnp.where(kept, _frames(), 0))


def test_the_gradient_is_that_of_the_gather():
    weights = jax.random.normal(jax.random.key(0), (2, 4, 3))
    gradient = jax.grad(lambda x: jnp.vdot(permute_frames(x, SOURCE, DESTINATION), weights))(_frames())
    np.testing.assert_array_equal(gradient, permute_frames(weights, DESTINATION, SOURCE))


def test_no_scatter_in_the_gradient():
    loss = lambda x: permute_frames(x, SOURCE, DESTINATION).sum()  # noqa: E731
    assert "scatter" not in str(jax.make_jaxpr(jax.grad(loss))(_frames()))


def test_what_has_no_place_never_spreads():
    poisoned = _frames().at[0, 1].set(jnp.nan)
    assert jnp.isfinite(permute_frames(poisoned, SOURCE, DESTINATION)).all()
