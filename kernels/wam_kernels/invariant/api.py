"""The operators: their checks, their axes, and the choice of who computes them.

In each a *row* is the last axis of an operand. The bits of a result row, and of the gradient of an operand row, follow
from that row and from what all rows share (weights, scale, bias): not from the number of rows, from other rows' values
(NaN and inf too) or from other members of a batch. Sums are in float32 (float64 for float64 operands), results in the
operand's dtype. Gradients of weights are sums over fixed tiles of rows in order, to which a row whose upstream gradient
is zero adds exactly zero.

Claimed for one device type and one version of XLA; positions within a tile are interchangeable where measured
(`docs/invariance.md`).
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp

from wam_kernels.invariant import vjp
from wam_kernels.invariant.backend import Backend, Problem
from wam_kernels.invariant.chooser import choose
from wam_kernels.invariant.formulas import Norm
from wam_kernels.target import current_target

type Implementation = Literal["xla", "pallas_triton"] | Backend
"""A backend's name, or a backend with settings of its own."""


def matmul(a: jax.Array, b: jax.Array, *, implementation: Implementation | None = None) -> jax.Array:
    """`a[..., K] @ b[K, N]` to `[..., N]`."""
    return _product("matmul", a, b, None, implementation)


def addmm(bias: jax.Array, a: jax.Array, b: jax.Array, *, implementation: Implementation | None = None) -> jax.Array:
    """`a[..., K] @ b[K, N] + bias[N]` to `[..., N]`, rounded once."""
    _check_shape("bias", bias, (jnp.shape(b)[-1],))
    return _product("addmm", a, b, bias, implementation)


def bmm(a: jax.Array, b: jax.Array, *, implementation: Implementation | None = None) -> jax.Array:
    """`a[..., M, K] @ b[..., K, N]` to `[..., M, N]`, the leading axes alike: a batch of products, in one kernel."""
    _check_floating(a=a, b=b)
    if a.ndim < 3 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"a and b have shapes {a.shape} and {b.shape}; wanted [..., M, K] and [..., K, N]")
    members = math.prod(a.shape[:-2])
    flat = [x.reshape(members, *x.shape[-2:]) for x in (a, b)]
    problem = Problem("bmm", a.dtype, (a.shape[-1], b.shape[-1]), max(a.size, b.size), members)
    out = vjp.product(choose(implementation, problem, current_target()), *flat, None)
    return out.reshape(*a.shape[:-1], b.shape[-1])


def patch_projection(
    images: jax.Array,
    kernel: jax.Array,
    bias: jax.Array | None = None,
    *,
    implementation: Implementation | None = None,
) -> jax.Array:
    """A convolution whose patches do not overlap, as unfolding and one product.

        y[.., i, j, o] = sum_{c, r, s} x[.., c, i p_h + r, j p_w + s] kernel[o, c, r, s] + bias[o]

    Args:
        images: `[..., channels, height, width]`.
        kernel: `[out, channels, p_h, p_w]`.
        bias: `[out]`, or None.
        implementation: as everywhere.

    Returns:
        `[..., height / p_h, width / p_w, out]`.

    Raises:
        ValueError: if the channels differ, or patches do not tile the images.
    """
    out, channels, patch_height, patch_width = kernel.shape
    if (
        images.ndim < 3
        or images.shape[-3] != channels
        or images.shape[-2] % patch_height
        or images.shape[-1] % patch_width
    ):
        raise ValueError(
            f"images have shape {images.shape}; wanted [..., {channels}, a multiple of {patch_height}, a multiple of "
            f"{patch_width}] for a kernel {kernel.shape}"
        )
    *lead, _, height, width = images.shape
    grid = height // patch_height, width // patch_width
    split = images.reshape(-1, channels, grid[0], patch_height, grid[1], patch_width)
    patches = split.transpose(0, 2, 4, 1, 3, 5).reshape(*lead, *grid, -1)
    weights = kernel.reshape(out, -1).T
    if bias is None:
        return matmul(patches, weights, implementation=implementation)
    return addmm(bias, patches, weights, implementation=implementation)


def layer_norm(
    x: jax.Array,
    scale: jax.Array | None = None,
    bias: jax.Array | None = None,
    *,
    epsilon: float = 1e-6,
    implementation: Implementation | None = None,
) -> jax.Array:
    """`(x - mean) / sqrt(var + epsilon) * scale + bias` over the last axis; scale and bias `[width]` or None."""
    return _normalised("layer_norm", x, scale, bias, epsilon, implementation)


def rms_norm(
    x: jax.Array,
    scale: jax.Array | None = None,
    *,
    epsilon: float = 1e-6,
    implementation: Implementation | None = None,
) -> jax.Array:
    """`x / sqrt(mean(x^2) + epsilon) * scale` over the last axis; scale `[width]` or None."""
    return _normalised("rms_norm", x, scale, None, epsilon, implementation)


def log_softmax(x: jax.Array, *, axis: int = -1, implementation: Implementation | None = None) -> jax.Array:
    """`x - log sum exp x` along an axis."""
    rows, backend = _as_rows("log_softmax", jnp.moveaxis(x, axis, -1), implementation)
    out = vjp.log_softmax(backend, rows)
    return jnp.moveaxis(out.reshape(jnp.moveaxis(x, axis, -1).shape), -1, axis)


def mean(x: jax.Array, *, axis: int = -1, implementation: Implementation | None = None) -> jax.Array:
    """The mean along an axis, which is removed."""
    rows, backend = _as_rows("mean", jnp.moveaxis(x, axis, -1), implementation)
    return vjp.mean(backend, rows).reshape(jnp.moveaxis(x, axis, -1).shape[:-1])


def _product(
    operator: str, a: jax.Array, b: jax.Array, bias: jax.Array | None, implementation: Implementation | None
) -> jax.Array:
    _check_floating(a=a, b=b)
    if b.ndim != 2 or a.ndim < 1 or a.shape[-1] != b.shape[0]:
        raise ValueError(f"a and b have shapes {a.shape} and {b.shape}; wanted [..., K] and [K, N]")
    backend = choose(implementation, Problem(operator, a.dtype, b.shape, max(a.size, b.size)), current_target())
    out = vjp.product(backend, a.reshape(-1, a.shape[-1]), b, bias)
    return out.reshape(*a.shape[:-1], b.shape[1])


def _normalised(
    operator: str,
    x: jax.Array,
    scale: jax.Array | None,
    bias: jax.Array | None,
    epsilon: float,
    implementation: Implementation | None,
) -> jax.Array:
    rows, backend = _as_rows(operator, x, implementation)
    for name, vector in (("scale", scale), ("bias", bias)):
        if vector is not None:
            _check_shape(name, vector, x.shape[-1:])
    norm = Norm(x.shape[-1], epsilon, operator == "layer_norm")
    return vjp.normalise(backend, rows, scale, bias, norm).reshape(x.shape)


def _as_rows(operator: str, x: jax.Array, implementation: Implementation | None) -> tuple[jax.Array, Backend]:
    """`[rows, width]`, and who computes it."""
    _check_floating(x=x)
    if x.ndim < 1 or not x.shape[-1]:
        raise ValueError(f"x has shape {x.shape}; wanted [..., width], width positive")
    problem = Problem(operator, x.dtype, x.shape[-1:], x.size)
    return x.reshape(-1, x.shape[-1]), choose(implementation, problem, current_target())


def _check_floating(**arrays: jax.Array) -> None:
    dtypes = {name: x.dtype for name, x in arrays.items()}
    if len(set(dtypes.values())) > 1 or not all(jnp.issubdtype(dtype, jnp.floating) for dtype in dtypes.values()):
        listed = ", ".join(f"{name} {dtype}" for name, dtype in dtypes.items())
        raise TypeError(f"dtypes are {listed}; wanted one floating-point dtype")


def _check_shape(name: str, x: jax.Array, shape: tuple[int, ...]) -> None:
    if jnp.shape(x) != shape:
        raise ValueError(f"{name} has shape {jnp.shape(x)}; wanted {shape}")
