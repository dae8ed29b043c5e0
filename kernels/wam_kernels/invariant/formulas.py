"""The arithmetic of a few rows, written once: tiled XLA and the GPU kernels run these same lines.

Every function sees `[rows, columns]` in the accumulator's dtype and reduces along columns alone. A GPU's block holds
more columns than a row has; `inside` marks those of the row, and operands are 0 outside them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from wam_kernels.backend import accumulator


class Norm(NamedTuple):
    """Which normalisation.

    Attributes:
        width: columns of a row.
        epsilon: added to the variance.
        centred: subtract the mean (layer norm); otherwise none (RMS norm).
    """

    width: int
    epsilon: float
    centred: bool


def product(a: jax.Array, b: jax.Array, contract: tuple[int, int]) -> jax.Array:
    """A product of two matrices in the wide dtype. Float32 operands are multiplied as such, never rounded to tf32."""
    precision = None if a.dtype == jnp.bfloat16 else lax.Precision.HIGHEST
    dims = (((contract[0],), (contract[1],)), ((), ()))
    return lax.dot_general(a, b, dims, precision=precision, preferred_element_type=accumulator(a.dtype))


def live_rows(upstream: jax.Array) -> jax.Array:
    """Which rows have an upstream gradient that is not all zero. The others add exact zeros, whatever they hold."""
    return (upstream != 0).any(-1)


def normalise(x: jax.Array, norm: Norm, inside: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """x^ = (x - mean) / sqrt(var + epsilon), and 1 / sqrt(var + epsilon) as `[rows, 1]`. No mean for an RMS norm."""
    if norm.centred:
        x = _within(x - _total(x) / norm.width, inside)
    scale = lax.rsqrt(_total(x * x) / norm.width + norm.epsilon)
    return x * scale, scale


def normalise_gradient(
    upstream: jax.Array, normed: jax.Array, scale: jax.Array, norm: Norm, inside: jax.Array | None
) -> jax.Array:
    """The gradient of x from that of x^: scale (u - mean(u) - x^ mean(u x^)), without mean(u) for an RMS norm."""
    gradient = upstream - normed * (_total(upstream * normed) / norm.width)
    if norm.centred:
        gradient = _within(gradient - _total(upstream) / norm.width, inside)
    return gradient * scale


def of_scale(upstream: jax.Array, normed: jax.Array) -> jax.Array:
    """What each value adds to the gradient of the scale: exactly 0 where nothing comes from upstream."""
    return jnp.where(upstream == 0, jnp.zeros_like(normed), upstream * normed)


def log_softmax(x: jax.Array, inside: jax.Array | None) -> jax.Array:
    """x - log sum exp x, by way of the maximum."""
    x = x if inside is None else jnp.where(inside, x, -jnp.inf)
    x = x - x.max(1)[:, None]
    return x - jnp.log(_total(jnp.exp(x)))


def log_softmax_gradient(upstream: jax.Array, out: jax.Array) -> jax.Array:
    """u - softmax sum(u)."""
    return upstream - jnp.exp(out) * _total(upstream)


def mean(x: jax.Array, width: int) -> jax.Array:
    """`[rows, 1]`."""
    return _total(x) / width


def _total(x: jax.Array) -> jax.Array:
    return x.sum(1)[:, None]


def _within(x: jax.Array, inside: jax.Array | None) -> jax.Array:
    return x if inside is None else jnp.where(inside, x, jnp.zeros_like(x))
