"""Measures launches and prints the rows of `wam_kernels.launch_table`.

    python -m wam_kernels.tune --backend pallas_triton --head-dim 128
    python -m wam_kernels.tune --backend pallas_triton --head-dim 128 --compile-only a100

With a GPU every candidate of every kernel is timed on a real workload, the quickest first. With `--compile-only` no
GPU is needed (but the wheels of `wam_kernels.deviceless` are): candidates are compiled, and those that spill nothing
printed with their registers and shared memory.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wam_kernels.backend import Mask, field_major
from wam_kernels.deviceless import GPUS, deviceless
from wam_kernels.launch import Launch, Launches
from wam_kernels.operands import Backward
from wam_kernels.pallas_mosaic import PallasMosaic
from wam_kernels.pallas_triton import PallasTriton
from wam_kernels.resources import kernel_resources
from wam_kernels.tiles import build_tile_lists
from wam_kernels.workloads import workload

type GpuBackend = PallasTriton | PallasMosaic

KERNELS = ("forward", "dq", "dkv")
_CANDIDATES = {
    "pallas_triton": ((32, 64, 128), (32, 64, 128), (4, 8), (2, 3)),
    "pallas_mosaic": ((64, 128), (64, 128), (2,), (2, 3)),
}
_BACKENDS = {"pallas_triton": PallasTriton, "pallas_mosaic": PallasMosaic}


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    options = _parser().parse_args(arguments)
    if options.compile_only:
        jax.config.update("jax_platforms", "cpu")
    elif jax.default_backend() != "gpu":
        raise SystemExit("no GPU is attached: tuning measures. --compile-only h100 reports resources without one")
    for kernel in KERNELS:
        for launch, found in ranked(kernel, options):
            print(f"{kernel:8} {launch}  {found}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m wam_kernels.tune", description="finds launches for a GPU")
    parser.add_argument("--backend", choices=list(_BACKENDS), default="pallas_triton")
    parser.add_argument("--head-dim", type=int, choices=(32, 64, 128), default=128)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--workload", default="noisy_and_clean_32k", help="a name of wam_kernels.workloads")
    parser.add_argument("--compile-only", choices=list(GPUS), help="report resources for this GPU, without one")
    parser.add_argument("--best", type=int, default=5, help="how many to print of each kernel")
    return parser


def ranked(kernel: str, options: argparse.Namespace) -> list[tuple[Launch, str]]:
    """The best launches of a kernel, the best first, and what was found."""
    found = []
    for launch in candidates(options.backend):
        backend = _BACKENDS[options.backend](Launches(launch, launch, launch))
        try:
            measured = _compiled(backend, kernel, options) if options.compile_only else _timed(backend, kernel, options)
        except (jax.errors.JaxRuntimeError, ValueError, NotImplementedError, RuntimeError):
            continue  # this launch does not fit the GPU; the others may
        if measured is not None:
            found.append((*measured, launch))
    found.sort(key=lambda item: item[0])
    return [(launch, text) for _, text, launch in found[: options.best]]


def candidates(backend: str) -> Iterator[Launch]:
    """Launches worth trying, the largest tiles first."""
    queries, keys, warps, stages = _CANDIDATES[backend]
    for query_tile, key_tile, warp, stage in itertools.product(reversed(queries), reversed(keys), warps, stages):
        yield Launch(query_tile, key_tile, warp, stage)


def _timed(backend: GpuBackend, kernel: str, options: argparse.Namespace) -> tuple[float, str]:
    """Median seconds of ten calls."""
    row = workload(options.workload)
    rng = np.random.default_rng(0)
    shape = (1, row.tokens, row.heads, options.head_dim)
    x = [jnp.asarray(rng.standard_normal(shape), options.dtype) for _ in range(4)]
    lse2 = jnp.full((1, row.heads, row.tokens), 10.0, jnp.float32)
    call = jax.jit(_call(backend, kernel))
    operands = Backward(*x, lse2, jnp.zeros_like(lse2)), _mask(backend, options.workload)
    jax.block_until_ready(call(*operands))
    times = []
    for _ in range(10):
        start = time.perf_counter()
        jax.block_until_ready(call(*operands))
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    return seconds, f"{seconds * 1e3:.3f} ms"


def _compiled(backend: GpuBackend, kernel: str, options: argparse.Namespace) -> tuple[float, str] | None:
    """Registers and shared memory of a kernel that spills nothing; large tiles rank first."""
    row = workload(options.workload)
    with deviceless(options.compile_only) as mesh:
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

        def spec(shape: tuple[int, ...], dtype: Any) -> Any:
            return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

        x = spec((1, row.tokens, row.heads, options.head_dim), options.dtype)
        vector = spec((1, row.heads, row.tokens), "float32")
        mask = jax.tree.map(lambda leaf: spec(leaf.shape, leaf.dtype), _mask(backend, options.workload))
        found = kernel_resources(_call(backend, kernel), Backward(x, x, x, x, vector, vector), mask)
    (cost,) = [cost for name, cost in found.items() if name.startswith("range_attention")]
    if cost.spilled_bytes or cost.shared_memory > GPUS[options.compile_only].shared_memory_per_block:
        return None
    (size,) = backend.tile_sizes()
    return -size[0] * size[1], f"{cost.registers} registers, {cost.shared_memory} bytes of shared memory"


def _call(backend: GpuBackend, kernel: str) -> Callable[[Backward, Mask], Any]:
    if kernel == "forward":
        return lambda operands, mask: backend.forward(operands.q, operands.k, operands.v, mask)
    return getattr(backend, kernel)


def _mask(backend: GpuBackend, name: str) -> Mask:
    row = workload(name)
    tiles = tuple(
        build_tile_lists(row.ranges, row.tokens, query_tile=size[0], key_tile=size[1]) for size in backend.tile_sizes()
    )
    return Mask(field_major(row.ranges), None, tiles)


if __name__ == "__main__":
    main()
