"""The operators as the tests run them, their plain definitions, and who computes them."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wam_kernels import invariant
from wam_kernels.invariant import TiledXla
from wam_kernels.invariant.pallas_triton import PallasTriton

INNER, OUT = 80, 112
"""Sizes that fill no tile of the GPU kernels."""

BACKENDS = {"xla": TiledXla(rows=32), "pallas_triton": PallasTriton(interpret=True)}
DTYPES = ("float32", "bfloat16")
SHIPPED = 3
"""XLA's optimisation level unless one is asked for; the tests ask for 0."""


SLOW = pytest.mark.slow


def cases(fast: Iterable[tuple[Any, ...]], *axes: Iterable[Any]) -> list[Any]:
    """Every combination of the axes, those that are not among `fast` marked slow."""
    fast = list(fast)
    return [pytest.param(*case, marks=() if case in fast else SLOW) for case in itertools.product(*axes)]


class Operator(NamedTuple):
    """An operator of rows `x[rows, INNER]` and of what all rows share.

    Attributes:
        run: (x, *shared, implementation=) to `[rows, ...]`.
        plain: the definition, (x, *shared).
        shared: shapes of what all rows share.
        out: shape of a result row.
    """

    run: Callable[..., jax.Array]
    plain: Callable[..., jax.Array]
    shared: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]


def _norm(x: jax.Array, scale: jax.Array, *bias: jax.Array) -> jax.Array:
    x = x - x.mean(-1, keepdims=True) if bias else x
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale + sum(bias)


def _addmm(x: jax.Array, b: jax.Array, bias: jax.Array, **options: Any) -> jax.Array:
    return invariant.addmm(bias, x, b, **options)


OPERATORS = {
    "addmm": Operator(_addmm, lambda x, b, bias: x @ b + bias, ((INNER, OUT), (OUT,)), (OUT,)),
    "layer_norm": Operator(invariant.layer_norm, _norm, ((INNER,), (INNER,)), (INNER,)),
    "rms_norm": Operator(invariant.rms_norm, _norm, ((INNER,),), (INNER,)),
    "log_softmax": Operator(
        invariant.log_softmax, lambda x: x - jnp.log(jnp.exp(x).sum(-1, keepdims=True)), (), (INNER,)
    ),
    "mean": Operator(invariant.mean, lambda x: x.mean(-1), (), ()),
}


def operands(operator: Operator, rows: int, dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """x, an upstream gradient of the result, and what the rows share."""
    rng = np.random.default_rng(seed)
    draw = lambda shape: np.asarray(rng.standard_normal(shape), jnp.dtype(dtype))  # noqa: E731
    return draw((rows, INNER)), draw((rows, *operator.out)), [draw(shape) for shape in operator.shared]


def compiled(function: Callable[..., Any], *args: Any, level: int = 0) -> Any:
    """The program for these arguments at one of XLA's optimisation levels."""
    options = {"xla_backend_optimization_level": level}
    return jax.jit(function).lower(*args).compile(compiler_options=options)


def evaluate(function: Callable[..., Any], *args: Any, level: int = 0) -> Any:
    """`function(*args)` as compiled at that level, in NumPy."""
    return jax.tree.map(np.asarray, compiled(function, *args, level=level)(*args))


def value_and_gradients(function: Callable[..., Any], upstream: Any, *primals: Any, level: int = 0) -> list[np.ndarray]:
    """The result, and the gradient of each primal for that gradient of the result."""

    def both(upstream: Any, *primals: Any) -> Any:
        out, pullback = jax.vjp(function, *primals)
        return out, *pullback(upstream)

    return list(evaluate(both, upstream, *primals, level=level))


def check_bits(got: Any, expected: Any, what: str = "") -> None:
    """Bit equality of finite results that are not all zero."""
    assert np.isfinite(np.asarray(expected, np.float32)).all()
    assert np.asarray(expected).any()
    np.testing.assert_array_equal(got, expected, err_msg=what)


def relative_error(got: Any, expected: np.ndarray) -> float:
    """The norm of the difference over the norm."""
    return float(np.linalg.norm(np.asarray(got, np.float64) - expected) / np.linalg.norm(expected))
