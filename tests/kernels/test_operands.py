"""Operands of the GPU kernels: whole tiles, padded heads, and the complement of the ranges."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels import masks, oracle
from wam_kernels.backend import field_major
from wam_kernels.launch import Launch
from wam_kernels.operands import Backward, cut, fill, filled_head_dim, hidden_stretches


@pytest.mark.parametrize(("head_dim", "filled"), [(8, 32), (32, 32), (48, 64), (96, 128), (128, 128)])
def test_heads_are_filled_up_to_a_power_of_two(head_dim, filled):
    assert filled_head_dim(head_dim) == filled


def test_what_is_filled_up_is_zero_and_can_be_cut_off():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 70, 3, 96)), jnp.float32)
    filled = fill(x, 32)
    assert filled.shape == (2, 96, 3, 128)
    assert not filled[:, 70:].any()
    assert not filled[..., 96:].any()
    np.testing.assert_array_equal(cut(filled, x), x)


def test_a_filled_up_query_has_an_infinite_lse():
    x, vector = jnp.ones((1, 20, 1, 32), jnp.bfloat16), jnp.ones((1, 1, 20))
    filled = Backward(x, x, x, x.astype(jnp.float32), vector, vector).filled(Launch(16, 8, 4, 2))
    assert filled.q.shape[1] == 32
    assert filled.k.shape[1] == 24
    assert filled.do.dtype == jnp.bfloat16
    assert np.isposinf(filled.lse2[..., 20:]).all()
    assert not filled.delta[..., 20:].any()


@pytest.mark.parametrize("seed", range(5))
def test_hidden_stretches_are_the_complement(seed):
    ranges = masks.random_ranges(np.random.default_rng(seed), 2, 40, 50, 4)
    ranges[:, ::7, 1] = 30, 3  # an empty range between others
    hidden = np.moveaxis(np.asarray(hidden_stretches(field_major(ranges))), 3, 1)
    assert hidden.shape == (2, 40, 5, 2)
    seen = oracle.visible(np.where(ranges[..., :1] < ranges[..., 1:], ranges, 0), 50, None)
    np.testing.assert_array_equal(oracle.visible(np.minimum(hidden, 50), 50, None), ~seen)
