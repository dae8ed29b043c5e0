"""Which operators give a row the same bits for every number of rows, and what that costs.

    python benchmarks/row_invariance.py

The first table runs an operator on the first rows of one array, for many numbers of rows, and counts for how many of
them a row differs in any bit from what the longest array gave: in plain XLA, and as `wam_kernels.invariant` computes
it. The second times segments of the quick start's widths, plain against `tokenwise`, forward and with gradients.
Everything runs on the device at hand, with XLA's default options.
"""

import argparse
import datetime
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wam_kernels import invariant

MOST = 2048
COUNTS = (1, 2, 3, 7, 8, 16, 17, 33, 64, 65, 128, 129, 256, 257, 500, 1000)
DTYPES = ("float32", "bfloat16")


class Case(NamedTuple):
    """An operator of rows `x[rows, width]`.

    Attributes:
        name: as the table prints it.
        width: of a row.
        plain: (x, *shared) in plain XLA.
        ours: the same by `wam_kernels.invariant`.
        shared: shapes of what all rows share.
    """

    name: str
    width: int
    plain: Callable[..., jax.Array]
    ours: Callable[..., jax.Array]
    shared: tuple[tuple[int, ...], ...] = ()


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description="row invariance of operators, and its cost")
    parser.add_argument(
        "--repeats", type=int, default=7, help="timed calls of each; the median and the best are printed"
    )
    parser.add_argument("--tokens", type=int, default=8192, help="tokens of the timed segments")
    parser.add_argument("--only", choices=("bits", "cost"), help="one of the tables")
    options = parser.parse_args()
    print(f"{datetime.date.today()}, jax {jax.__version__}, {jax.devices()[0].device_kind}, {os.cpu_count()} cores")
    if options.only != "cost":
        print_bits()
    if options.only != "bits":
        print_cost(options.tokens, options.repeats)


def print_bits() -> None:
    """For how many of the row counts some row differs."""
    print(f"\ndiffering row counts of {len(COUNTS)} (result, gradient of x), rows against the same of {MOST}")
    print(f"{'operator':28}{'dtype':10}{'plain XLA':>12}{'at':>28}{'invariant':>12}")
    for case in cases():
        for dtype in DTYPES:
            plain, ours = (differing(case, run, dtype) for run in (case.plain, case.ours))
            result, gradient = (", ".join(map(str, found[:5])) + (" .." if len(found) > 5 else "") for found in plain)
            counts = [f"{len(found[0])}, {len(found[1])}" for found in (plain, ours)]
            print(f"{case.name:28}{dtype:10}{counts[0]:>12}{result or gradient:>28}{counts[1]:>12}", flush=True)


def cases() -> Iterator[Case]:
    """The operators of the first table."""
    for inner, out in ((64, 64), (256, 256), (256, 512), (1024, 1024), (4096, 256)):
        yield Case(f"matmul {inner} x {out}", inner, jnp.matmul, invariant.matmul, ((inner, out),))
    width = 256
    yield Case(f"layer norm {width}", width, _layer_norm, invariant.layer_norm, ((width,), (width,)))
    yield Case(f"RMS norm {width}", width, _rms_norm, invariant.rms_norm, ((width,),))
    softmax = functools.partial(jax.nn.log_softmax, axis=-1)
    yield Case(f"log softmax {width}", width, softmax, invariant.log_softmax)
    yield Case(f"mean {width}", width, lambda x: x.mean(-1), invariant.mean)
    yield Case(f"gelu {width}", width, jax.nn.gelu, _tiled_gelu)
    side = 4
    yield Case(
        f"patches {side} x {side}, 16 to 256", 16 * side**2, _convolution, _patch_projection, ((256, 16, side, side),)
    )


def differing(case: Case, run: Callable[..., jax.Array], dtype: str) -> tuple[list[int], list[int]]:
    """The row counts at which a row of the result, and of the gradient of x, differs from the longest array's."""
    rng = np.random.default_rng(0)
    draw = lambda shape: jnp.asarray(rng.standard_normal(shape), dtype)  # noqa: E731
    x, shared = draw((MOST, case.width)), [draw(shape) / shape[0] ** 0.5 for shape in case.shared]
    upstream = draw(jax.eval_shape(run, x, *shared).shape)

    @jax.jit
    def both(x: jax.Array, upstream: jax.Array) -> tuple[jax.Array, jax.Array]:
        out, pullback = jax.vjp(lambda x: run(x, *shared), x)
        return out, pullback(upstream)[0]

    whole = [np.asarray(found) for found in both(x, upstream)]
    wrong: tuple[list[int], list[int]] = ([], [])
    for count in COUNTS:
        for found, expected, counts in zip(both(x[:count], upstream[:count]), whole, wrong, strict=True):
            if (np.asarray(found) != expected[:count]).any():
                counts.append(count)
    return wrong


def print_cost(tokens: int, repeats: int) -> None:
    """Milliseconds of plain XLA and of `tokenwise`, in turn, and their ratio."""
    print(f"\n{tokens} tokens; median (best) ms of {repeats}; what the backward pass needs: kept, or computed again")
    print(f"{'segment':30}{'dtype':10}{'pass':10}{'plain XLA':>18}{'kept':>18}{'again':>18}{'ratios':>14}")
    for name, (function, shared, width) in segments().items():
        for dtype in DTYPES:
            for label, seconds in timed(function, shared, width, dtype, tokens, repeats).items():
                medians = [1e3 * statistics.median(each) for each in seconds]
                cells = [f"{m:.1f} ({1e3 * min(each):.1f})" for m, each in zip(medians, seconds, strict=True)]
                ratios = " ".join(f"{m / medians[0]:.2f}" for m in medians[1:])
                print(f"{name:30}{dtype:10}{label:10}{''.join(f'{c:>18}' for c in cells)}{ratios:>14}", flush=True)


def segments() -> dict[str, tuple[Callable[..., jax.Array], tuple[tuple[int, ...], ...], int]]:
    """Segments of the quick start's video expert, as (function of (weights, x), shapes of the weights, width)."""
    return {
        "linear 256 to 256": (lambda w, x: x @ w[0], ((256, 256),), 256),
        "norm, q k v 256 to 3 x 128": (lambda w, x: _normed(x) @ w[0], ((256, 384),), 256),
        "norm, MLP 256 to 512 to 256": (_mlp, ((256, 512), (512, 256)), 256),
    }


def timed(
    function: Callable[..., jax.Array],
    shapes: tuple[tuple[int, ...], ...],
    width: int,
    dtype: str,
    tokens: int,
    repeats: int,
) -> dict[str, list[list[float]]]:
    """Seconds by pass, for plain XLA and for both forms of `tokenwise`."""
    rng = np.random.default_rng(0)
    draw = lambda shape: jnp.asarray(rng.standard_normal(shape) / shape[0] ** 0.5, dtype)  # noqa: E731
    weights, x = [draw(shape) for shape in shapes], draw((1, tokens, width))
    runs = [
        function,
        functools.partial(invariant.tokenwise, function),
        functools.partial(invariant.tokenwise, jax.checkpoint(function)),
    ]
    loss = lambda run: lambda w, x: (run(w, x).astype(jnp.float32) ** 2).sum()  # noqa: E731
    passes = {
        "forward": [jax.jit(run) for run in runs],
        "gradient": [jax.jit(jax.grad(loss(run), (0, 1))) for run in runs],
    }
    return {label: _seconds(functions, (weights, x), repeats) for label, functions in passes.items()}


def _seconds(functions: Sequence[Callable[..., Any]], operands: Any, repeats: int) -> list[list[float]]:
    """Of each function, called in turn, so that other work on the machine hits all alike."""
    seconds: list[list[float]] = [[] for _ in functions]
    for i in range(repeats + 1):
        for function, times in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(function(*operands))
            if i:  # the first call compiles
                times.append(time.perf_counter() - start)
    return seconds


def _normed(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return jax.nn.standardize(wide, axis=-1, epsilon=1e-6).astype(x.dtype)


def _mlp(w: list[jax.Array], x: jax.Array) -> jax.Array:
    return x + jax.nn.gelu(_normed(x) @ w[0]) @ w[1]


def _layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    return _normed(x) * scale + bias


def _rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def _tiled_gelu(x: jax.Array) -> jax.Array:
    return invariant.tokenwise(lambda _, x: jax.nn.gelu(x), None, x[None])[0]


def _convolution(x: jax.Array, kernel: jax.Array) -> jax.Array:
    images = x.reshape(-1, *kernel.shape[1:])
    dims = ("NCHW", "OIHW", "NHWC")
    return jax.lax.conv_general_dilated(images, kernel, kernel.shape[2:], "VALID", dimension_numbers=dims)


def _patch_projection(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return invariant.patch_projection(x.reshape(-1, *kernel.shape[1:]), kernel)


if __name__ == "__main__":
    main()
