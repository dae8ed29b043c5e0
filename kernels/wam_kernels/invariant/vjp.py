"""The derivatives that all backends share.

    y = a b + bias        da = dy b^T,   db = sum over rows a^T dy,   dbias = sum over rows dy
    y = x^ scale + bias   dscale = sum over rows dy x^,   dbias = sum over rows dy
    y = mean(x)           dx = dy / width

Sums over rows run in order in float32 and are rounded once, to the dtype of what they are the gradient of.
"""

import functools

import jax
import jax.numpy as jnp

from wam_kernels.backend import accumulator
from wam_kernels.invariant.backend import Backend
from wam_kernels.invariant.formulas import Norm

type _Maybe = jax.Array | None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def product(backend: Backend, a: jax.Array, b: jax.Array, bias: _Maybe) -> jax.Array:
    """`a[rows, K] @ b[K, N] + bias[N]`, or both with a leading batch and no bias."""
    return backend.product(a, b, bias)


def _product_forward(backend: Backend, a: jax.Array, b: jax.Array, bias: _Maybe) -> tuple[jax.Array, tuple]:
    return backend.product(a, b, bias), (a, b, bias)


def _product_backward(backend: Backend, saved: tuple, upstream: jax.Array) -> tuple[jax.Array, jax.Array, _Maybe]:
    a, b, bias = saved
    of_bias = None if bias is None else backend.row_sum(upstream).astype(bias.dtype)
    of_b = backend.weight_gradient(a, upstream).astype(b.dtype)
    return backend.product(upstream, b, None, contract_last=True), of_b, of_bias


product.defvjp(_product_forward, _product_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 4))
def normalise(backend: Backend, x: jax.Array, scale: _Maybe, bias: _Maybe, norm: Norm) -> jax.Array:
    """Layer norm or RMS norm of `[rows, width]`."""
    return backend.normalise(x, scale, bias, norm)


def _normalise_forward(
    backend: Backend, x: jax.Array, scale: _Maybe, bias: _Maybe, norm: Norm
) -> tuple[jax.Array, tuple]:
    return backend.normalise(x, scale, bias, norm), (x, scale, bias)


def _normalise_backward(
    backend: Backend, norm: Norm, saved: tuple, upstream: jax.Array
) -> tuple[jax.Array, _Maybe, _Maybe]:
    x, scale, bias = saved
    of_x, of_scale = backend.normalise_gradients(x, scale, norm, upstream)
    of_bias = None if bias is None else backend.row_sum(upstream).astype(bias.dtype)
    return of_x, None if scale is None else of_scale.astype(scale.dtype), of_bias


normalise.defvjp(_normalise_forward, _normalise_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def log_softmax(backend: Backend, x: jax.Array) -> jax.Array:
    """Over the columns of `[rows, width]`."""
    return backend.log_softmax(x)


log_softmax.defvjp(
    lambda backend, x: (backend.log_softmax(x), x),
    lambda backend, x, upstream: (backend.log_softmax_gradient(x, upstream),),
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def mean(backend: Backend, x: jax.Array) -> jax.Array:
    """Over the columns of `[rows, width]`: `[rows]`."""
    return backend.mean(x)


def _mean_backward(backend: Backend, x: jax.Array, upstream: jax.Array) -> tuple[jax.Array]:
    del backend
    each = (upstream.astype(accumulator(x.dtype)) / x.shape[1]).astype(x.dtype)
    return (jnp.broadcast_to(each[:, None], x.shape),)


mean.defvjp(lambda backend, x: (backend.mean(x), x), _mean_backward)
