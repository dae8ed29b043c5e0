"""Timesteps to vectors, and the arithmetic that has to be wide whatever the compute dtype is."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tests.model.rows import TINY, Array, normal, tiny
from wam_jax.model.modulation import ModulationTable, gated_residual, modulated_norm
from wam_jax.model.timesteps import TimeEmbedding, sinusoid

HALF = tiny(compute_dtype="bfloat16")


def test_the_sinusoid_has_cosines_first() -> None:
    timesteps: Array = np.array([0.0, 4.9801, 833.25, 1000.0], np.float32)
    angles = timesteps.astype(np.float64)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    expected = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    np.testing.assert_allclose(sinusoid(timesteps, 8, config=TINY), expected, atol=1e-4)


def test_six_vectors_come_from_the_activated_embedding() -> None:
    layer = TimeEmbedding(TINY, 4, rngs=nnx.Rngs(0))
    embedding, vectors = layer(jnp.array([[3.0, 900.0]]))
    assert embedding.shape == (1, 2, 4)
    assert vectors.shape == (1, 2, 6, 4)
    flat = jax.nn.silu(embedding) @ layer.modulation.kernel[...]
    np.testing.assert_allclose(vectors.reshape(1, 2, 24), flat, atol=1e-5)


def test_a_table_is_added_and_split_in_order() -> None:
    layer = ModulationTable(TINY, 6, 4, rngs=nnx.Rngs(0))
    vectors = normal(2, 3, 6, 4)
    parts = layer(vectors, dtype=jnp.dtype("float32"))
    assert [part.shape for part in parts] == [(2, 3, 1, 4)] * 6
    np.testing.assert_array_equal(parts[4][:, :, 0], vectors[:, :, 4] + layer.table[...][4])


def test_modulated_norm_is_computed_wide_and_rounded_once() -> None:
    x = normal(2, 3, 5, 8, dtype="bfloat16")
    shift, scale = normal(2, 2, 3, 1, 8, seed=1)
    wide = np.asarray(x, np.float64)
    normed = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + HALF.eps)
    out = modulated_norm(x, shift, scale, HALF)
    assert out.dtype == "bfloat16"
    expected = (normed * (1 + scale) + shift).astype(np.float32).astype("bfloat16")
    assert np.mean(np.asarray(out) != expected) < 0.01  # a tie may round the other way


def test_a_gated_residual_is_added_wide() -> None:
    x, update = jnp.full((1, 1, 1, 1), 256.0, "bfloat16"), jnp.full((1, 1, 1, 1), 3.0, "bfloat16")
    gate = jnp.full((1, 1, 1, 1), 0.33367)
    out = gated_residual(x, update, gate)  # 257.001 rounds to 258; were the product rounded first, 257 would give 256
    assert out.dtype == "bfloat16"
    assert float(out[0, 0, 0, 0]) == 258.0


def test_layer_norm_keeps_digits_far_from_zero() -> None:
    x = 1000 + normal(1, 1, 1, 64) / 10
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + TINY.eps)
    zero = jnp.zeros((1, 1, 1, 64))
    np.testing.assert_allclose(modulated_norm(x, zero, zero, TINY), expected, atol=2e-3)
