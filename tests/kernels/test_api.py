"""The entry: forms of ranges, results, what it refuses, and in which words."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels import masks, oracle
from wam_kernels import KeyRanges, Xla, build_tile_lists, range_attention

RANGES = masks.segments([5, 7], 16)


type Call = tuple[tuple[Any, ...], dict[str, Any]]


def qkv(tokens=16, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.standard_normal((1, tokens, 2, 8)), dtype) for _ in range(3)]


def as_runs():
    run = np.repeat(np.array([[0, 1, -1]], np.int32), [5, 7, 4], axis=1)
    return KeyRanges(np.array([[[[0, 5]], [[5, 12]]]], np.int32), run)


@pytest.mark.parametrize("name", ["reference", "xla"])
def test_both_forms_of_ranges_mean_the_same(name):
    dense = range_attention(*qkv(), RANGES, implementation=name)
    np.testing.assert_array_equal(range_attention(*qkv(), as_runs(), implementation=name), dense)


def test_a_query_of_no_run_sees_nothing():
    out, lse = range_attention(*qkv(), as_runs(), return_lse=True)
    assert not out[:, 12:].any()
    assert np.isneginf(lse[..., 12:]).all()


def test_an_empty_range_may_stand_anywhere():
    padded = np.zeros((1, 16, 4, 2), np.int32)
    padded[:, :, 2:3] = RANGES
    padded[:, :, 1] = 9, 3
    np.testing.assert_array_equal(
        range_attention(*qkv(), padded, implementation="xla"), range_attention(*qkv(), RANGES, implementation="xla")
    )


@pytest.mark.parametrize("name", ["reference", "xla"])
def test_float64_inputs_are_computed_in_float64(name):
    with jax.enable_x64(True):
        q, k, v = qkv(dtype="float64")
        out, lse = range_attention(q, k, v, RANGES, implementation=name, return_lse=True)
        seen = oracle.visible(RANGES, 16, None)
        exact = oracle.answer(*map(np.asarray, (q, k, v)), seen, np.zeros(q.shape), np.zeros(lse.shape))
    assert out.dtype == lse.dtype == np.float64
    np.testing.assert_allclose(out, exact.out, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(lse, exact.lse, rtol=1e-13)


def test_the_gradient_of_lse_is_the_probabilities():
    q, k, v = qkv()
    lse = lambda k: range_attention(q, k, v, RANGES, implementation="xla", return_lse=True)[1][0, :, 3].sum()  # noqa: E731
    scores = jnp.einsum("hd,khd->hk", q[0, 3], k[0, :5]) * 8**-0.5
    expected = jnp.einsum("hk,hd->khd", jax.nn.softmax(scores), q[0, 3]) * 8**-0.5
    np.testing.assert_allclose(jax.grad(lse)(k)[0, :5], expected, atol=1e-6)


def test_lists_from_the_host_and_lists_made_inside_give_the_same_bits():
    lists = build_tile_lists(RANGES, 16, query_tile=16, key_tile=16)
    inside = range_attention(*qkv(), RANGES, implementation="xla")
    np.testing.assert_array_equal(range_attention(*qkv(), RANGES, tiles=lists, implementation="xla"), inside)


def test_a_remat_policy_can_save_the_named_residuals():
    policy = jax.checkpoint_policies.save_only_these_names("range_attention_out", "range_attention_lse")
    layer = lambda q, k, v: range_attention(q, k, v, RANGES, implementation="xla").sum()  # noqa: E731
    plain = jax.grad(layer, (0, 1, 2))(*qkv())
    jax.tree.map(
        np.testing.assert_array_equal, jax.grad(jax.checkpoint(layer, policy=policy), (0, 1, 2))(*qkv()), plain
    )
    text = str(jax.make_jaxpr(jax.grad(layer))(*qkv()))
    assert "range_attention_lse" in text


BAD: dict[str, Callable[..., Call]] = {
    "q has shape": lambda q, k, v: ((q[0], k, v, RANGES), {}),
    "rows, heads and": lambda q, k, v: ((q, k[:, :, :1], v[:, :, :1], RANGES), {}),
    "ranges has shape": lambda q, k, v: ((q, k, v, RANGES[:, :15]), {}),
    "run_of_query has shape": lambda q, k, v: ((q[:, :15], k, v, as_runs()), {}),
    "run_ranges has shape": lambda q, k, v: ((q, k, v, as_runs()._replace(run_ranges=RANGES[:, :, 0])), {}),
    "key_valid has shape": lambda q, k, v: ((q, k, v, RANGES), {"key_valid": np.ones((1, 15), bool)}),
    "known are reference": lambda q, k, v: ((q, k, v, RANGES), {"implementation": "cudnn"}),
}


@pytest.mark.parametrize("message", BAD)
def test_a_shape_or_name_that_does_not_fit_is_refused(message):
    args, options = BAD[message](*qkv())
    with pytest.raises(ValueError, match=message):
        range_attention(*args, **options)


WRONG_TYPE: dict[str, Callable[..., Call]] = {
    "q has dtype int32": lambda q, k, v: ((q.astype("int32"), k, v, RANGES), {}),
    "wanted one dtype": lambda q, k, v: ((q.astype("bfloat16"), k, v, RANGES), {}),
    "ranges has dtype int64; wanted int32": lambda q, k, v: ((q, k, v, RANGES.astype("int64")), {}),
    "ranges has dtype list": lambda q, k, v: ((q, k, v, RANGES.tolist()), {}),
    "key_valid has dtype int32; wanted bool": lambda q, k, v: (
        (q, k, v, RANGES),
        {"key_valid": np.ones((1, 16), "int32")},
    ),
}


@pytest.mark.parametrize("message", WRONG_TYPE)
def test_a_dtype_that_does_not_fit_is_refused(message):
    args, options = WRONG_TYPE[message](*qkv())
    with pytest.raises(TypeError, match=message):
        range_attention(*args, **options)


def test_lists_without_the_size_that_is_read_are_refused():
    lists = build_tile_lists(RANGES, 16, query_tile=8, key_tile=8)
    with pytest.raises(ValueError, match="tiles hold lists of 8 x 8; xla on cpu also reads 16 x 16"):
        range_attention(*qkv(), RANGES, tiles=lists, implementation=Xla(16, 16))
