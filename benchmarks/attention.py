"""Range attention against `jax.nn.dot_product_attention`: milliseconds, and TFLOP/s over the visible pairs.

    python benchmarks/attention.py --cpu      two minutes: the XLA backend against dense masked attention
    python benchmarks/attention.py            on a GPU, some minutes: Triton and Mosaic against cuDNN and XLA

Medians over repeated calls after a warm-up. Forward and backward together count 3.5 times the forward's operations.
cuDNN knows no such mask: it is timed over the same tokens with every pair visible, and credited with the visible ones
only (`cudnn, unmasked`), which is what a user without range attention would pay.
"""

import argparse
import datetime
import functools
import statistics
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from wam_kernels import Problem, build_tile_lists, range_attention, tile_sizes
from wam_kernels.api import Implementation
from wam_kernels.backend import Mask, field_major
from wam_kernels.reference import visible_pairs
from wam_kernels.workloads import Workload, workload

type Attention = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

BACKWARD_AND_FORWARD = 3.5
MOST_DENSE_TOKENS = 8192


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="times range attention")
    parser.add_argument("--cpu", action="store_true", help="time the XLA backend on the CPU")
    parser.add_argument("--repeats", type=int, default=5, help="timed calls of each; the median is printed")
    options = parser.parse_args()
    if options.cpu:
        jax.config.update("jax_platforms", "cpu")
    names = ("segments_8k_float32",) if options.cpu else ("dense_8k", "segments_8k", "noisy_and_clean_32k")
    device = jax.devices()[0]
    print(f"{datetime.date.today()}, {device.device_kind} ({device.platform}), jax {jax.__version__}")
    print(f"{'workload':22}{'attention':18}{'forward ms':>12}{'TFLOP/s':>9}{'with backward ms':>18}{'TFLOP/s':>9}")
    for name in names:
        for attention, seconds in measure(workload(name), cpu=options.cpu, repeats=options.repeats):
            print(line(name, attention, workload(name).forward_flops(), *seconds), flush=True)


def line(name: str, attention: str, flops: int, forward: float, both: float) -> str:
    """One line of the table."""
    rates = flops / forward / 1e12, BACKWARD_AND_FORWARD * flops / both / 1e12
    return f"{name:22}{attention:18}{forward * 1e3:12.2f}{rates[0]:9.3f}{both * 1e3:18.2f}{rates[1]:9.3f}"


def measure(work: Workload, *, cpu: bool, repeats: int) -> Iterator[tuple[str, tuple[float, float]]]:
    """Each attention that can compute the workload, with its seconds forward, and forward and backward."""
    rng = np.random.default_rng(0)
    shape = (1, work.tokens, work.heads, work.head_dim)
    q, k, v, do = (jnp.asarray(rng.standard_normal(shape), work.dtype) for _ in range(4))
    for name, attention in attentions(work, cpu=cpu).items():
        forward = jax.jit(attention)
        both = jax.jit(lambda q, k, v, do, attention=attention: jax.vjp(attention, q, k, v)[1](do))
        try:
            yield name, (seconds(forward, q, k, v, repeats=repeats), seconds(both, q, k, v, do, repeats=repeats))
        except (NotImplementedError, jax.errors.JaxRuntimeError) as error:
            print(f"{name}: {str(error).splitlines()[0]}")


def attentions(work: Workload, *, cpu: bool) -> dict[str, Attention]:
    """The attentions to time, by name."""
    ours: tuple[Implementation, ...] = ("xla",) if cpu else ("pallas_mosaic", "pallas_triton")
    found: dict[str, Attention] = {str(name): ranged(work, name) for name in ours}
    if work.tokens <= MOST_DENSE_TOKENS:
        seen = visible_pairs(Mask(field_major(work.ranges), None, ()), work.tokens)[:, None]
        found["dense, masked"] = functools.partial(jax.nn.dot_product_attention, mask=seen, implementation="xla")
    if not cpu:
        found["cudnn, unmasked"] = functools.partial(jax.nn.dot_product_attention, implementation="cudnn")
    return found


def ranged(work: Workload, implementation: Implementation) -> Attention:
    """Range attention over the workload, its tile lists built beforehand, as a loader does."""
    problem = Problem(1, work.tokens, work.tokens, work.heads, work.head_dim, jnp.dtype(work.dtype), 1)
    tiles = tuple(
        build_tile_lists(work.ranges, work.tokens, query_tile=size[0], key_tile=size[1])
        for size in tile_sizes(problem, implementation=implementation)
    )
    return functools.partial(range_attention, ranges=work.ranges, tiles=tiles, implementation=implementation)


def seconds(function: Callable[..., object], *args: jax.Array, repeats: int) -> float:
    """Median seconds of a call."""
    jax.block_until_ready(function(*args))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    main()
