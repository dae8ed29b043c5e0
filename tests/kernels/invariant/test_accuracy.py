"""Results and gradients against the plain definitions in float64, every backend, GPU kernels interpreted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.invariant.operators import (
    BACKENDS,
    DTYPES,
    INNER,
    OPERATORS,
    OUT,
    cases,
    operands,
    relative_error,
    value_and_gradients,
)
from wam_kernels import invariant

BOUND = {"float32": 1e-6, "bfloat16": 4e-3}
ROWS = 75


def check_close(run, plain, upstream, primals, dtype, **options):
    with jax.enable_x64():
        exact = value_and_gradients(plain, *(np.asarray(x, np.float64) for x in (upstream, *primals)))
    got = value_and_gradients(lambda *primals: run(*primals, **options), upstream, *primals)
    for i, (one, other) in enumerate(zip(got, exact, strict=True)):
        assert one.dtype == jnp.dtype(dtype)
        assert one.shape == other.shape
        assert relative_error(one, other) < BOUND[dtype], f"result {i}"


FAST = [("xla", "float32"), ("xla", "bfloat16"), ("pallas_triton", "float32")]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(("backend", "dtype"), cases(FAST, BACKENDS, DTYPES))
def test_operators(backend, name, dtype):
    operator = OPERATORS[name]
    x, upstream, shared = operands(operator, ROWS, dtype)
    check_close(operator.run, operator.plain, upstream, (x, *shared), dtype, implementation=BACKENDS[backend])


@pytest.mark.parametrize(("backend", "dtype"), cases(FAST[1:], BACKENDS, DTYPES))
def test_a_batch_of_products(backend, dtype):
    rng = np.random.default_rng(0)
    shapes = (2, 3, 40, OUT), (2, 3, 40, INNER), (2, 3, INNER, OUT)
    upstream, a, b = (np.asarray(rng.standard_normal(shape), jnp.dtype(dtype)) for shape in shapes)
    check_close(invariant.bmm, jnp.matmul, upstream, (a, b), dtype, implementation=BACKENDS[backend])


@pytest.mark.parametrize("backend", ["xla", pytest.param("pallas_triton", marks=pytest.mark.slow)])
def test_the_patch_projection_is_a_convolution(backend):
    rng = np.random.default_rng(0)
    shapes = (2, 4, 5, 16), (2, 3, 8, 15), (16, 3, 2, 3), (16,)
    upstream, images, kernel, bias = (rng.standard_normal(shape, np.float32) for shape in shapes)

    def convolution(images, kernel, bias):
        dims = ("NCHW", "OIHW", "NHWC")
        return jax.lax.conv_general_dilated(images, kernel, (2, 3), "VALID", dimension_numbers=dims) + bias

    run = invariant.patch_projection
    check_close(run, convolution, upstream, (images, kernel, bias), "float32", implementation=BACKENDS[backend])


def test_norms_without_scale_and_bias_have_none():
    x, upstream, _ = operands(OPERATORS["layer_norm"], ROWS, "float32")
    ones = np.ones(INNER, np.float32)
    plain = lambda x: OPERATORS["rms_norm"].plain(x, ones.astype(x.dtype))  # noqa: E731
    check_close(invariant.rms_norm, plain, upstream, (x,), "float32")


def test_float64_stays_float64():
    with jax.enable_x64():
        x, upstream, (b, _) = operands(OPERATORS["addmm"], ROWS, "float64")
        found = value_and_gradients(invariant.matmul, upstream, x, b)
    for got, expected in zip(found, (x @ b, upstream @ b.T, x.T @ upstream), strict=True):
        assert relative_error(got, expected) < 1e-15


def test_any_axis_can_be_reduced():
    x = np.random.default_rng(0).standard_normal((3, 5, 7), np.float32)
    np.testing.assert_allclose(invariant.mean(jnp.asarray(x), axis=1), x.mean(1), rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(np.exp(invariant.log_softmax(jnp.asarray(x), axis=0)).sum(0), 1, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_values_do_not_overflow_the_softmax(backend):
    out = invariant.log_softmax(jnp.asarray([[1e4, 1e4, -1e4]]), implementation=BACKENDS[backend])
    np.testing.assert_allclose(out, [[-np.log(2), -np.log(2), -2e4 - np.log(2)]], rtol=1e-6)
