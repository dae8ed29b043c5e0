"""Range attention as Mosaic kernels, through Pallas: Hopper (sm_90) only, bfloat16 only.

Three kernels (`wam_kernels.mosaic_kernels`) on a grid of (rows, heads, tiles). Hopper's wgmma rounds float32 operands,
and later chips have other instructions: both are refused. No sum crosses a block, so there are no atomics and two runs
give the same bits.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu

from wam_kernels.backend import Mask, Problem, TileSize
from wam_kernels.launch import Launch, Launches
from wam_kernels.launch_table import mosaic_launches
from wam_kernels.mosaic_kernels import AXES, ROWS, WORKER_AXIS, Plan, Stream, dkv_kernel, dq_kernel, forward_kernel
from wam_kernels.operands import MOST_HEAD_DIM, Backward, cut, fill, filled_head_dim, hidden_mask
from wam_kernels.target import Target
from wam_kernels.vjp import LOG2E, Upstream, attend_with_kernels

type Buffer = Any
"""A scratch buffer to be, which has no public type."""


@dataclasses.dataclass(frozen=True)
class PallasMosaic:
    """The backend.

    Attributes:
        launches: tile sizes, compute warpgroups and stages; None takes them from `wam_kernels.launch_table`.
        interpret: run the kernels in the GPU interpreter, on any device; for tests.
        detect_races: have the interpreter look for races (slow).
    """

    launches: Launches | None = None
    interpret: bool = False
    detect_races: bool = False
    name: ClassVar[str] = "pallas_mosaic"

    def refusal(self, problem: Problem, target: Target) -> str | None:
        """Why this problem cannot be computed on this target, or None if it can."""
        if not self.interpret:
            if target.platform != "gpu":
                return "needs a Hopper GPU (PallasMosaic(interpret=True) runs the same kernels anywhere, slowly)"
            if target.capability != (9, 0):
                return "is written with Hopper's instructions (compute capability 9.0)"
        if problem.dtype != jnp.bfloat16:
            return f"computes bfloat16, not {problem.dtype} (the tensor cores would round it)"
        if problem.head_dim > MOST_HEAD_DIM:
            return f"head_dim is at most {MOST_HEAD_DIM}, not {problem.head_dim}"
        return None

    def resolve(self, problem: Problem, target: Target, given: tuple[TileSize, ...]) -> Self:
        """Takes the launches from the table, unless it has its own."""
        del target, given
        return dataclasses.replace(self, launches=self.launches or mosaic_launches(filled_head_dim(problem.head_dim)))

    def tile_sizes(self) -> tuple[TileSize, ...]:
        """The distinct sizes of the three launches."""
        return self._launches().sizes()

    def attend(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """Output and natural lse."""
        return attend_with_kernels(self, q, k, v, mask)

    def forward(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """Output and base-2 lse."""
        launch, like = self._launches().forward, q
        q, k, v = fill(q, launch.query_tile), fill(k, launch.key_tile), fill(v, launch.key_tile)
        rows, queries, heads, _ = q.shape
        workers = launch.query_tile // ROWS
        out, lse2 = self._call(
            forward_kernel,
            "range_attention_forward",
            launch,
            workers,
            (hidden_mask(mask, launch, mask.lists(launch.size).by_query, k.shape[1]), q, k, v),
            [q, jax.ShapeDtypeStruct((rows, heads, queries), jnp.float32)],
            (
                (_matrices(workers, ROWS, q), plgpu.SMEM((workers, ROWS), jnp.float32)),
                plgpu.Barrier(num_barriers=workers),
                _stream(launch, workers, _matrices(launch.stages, launch.key_tile, k)),
                _stream(launch, workers, _matrices(launch.stages, launch.key_tile, v)),
            ),
            like.shape[3],
        )
        return cut(out, like), lse2[:, :, : like.shape[1]]

    def backward(
        self,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        mask: Mask,
        upstream: Upstream,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """dq, dk and dv."""
        operands = Backward(q, k, v, upstream.do, upstream.lse2, upstream.delta())
        return self.dq(operands, mask), *self.dkv(operands, mask)

    def dq(self, operands: Backward, mask: Mask) -> jax.Array:
        """dq alone."""
        launch = self._launches().dq
        x = operands.filled(launch)
        workers = launch.query_tile // ROWS
        (dq,) = self._call(
            dq_kernel,
            "range_attention_dq",
            launch,
            workers,
            (hidden_mask(mask, launch, mask.lists(launch.size).by_query, x.k.shape[1]), *x),
            [x.q],
            (
                (_matrices(workers, ROWS, x.q), _matrices(workers, ROWS, x.do)),
                plgpu.Barrier(num_arrivals=2, num_barriers=workers),
                _stream(launch, workers, _matrices(launch.stages, launch.key_tile, x.k)),
                _stream(launch, workers, _matrices(launch.stages, launch.key_tile, x.v)),
            ),
            operands.q.shape[3],
        )
        return cut(dq, operands.q)

    def dkv(self, operands: Backward, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """dk and dv alone."""
        launch = self._launches().dkv
        x = operands.filled(launch)
        workers = launch.key_tile // ROWS
        vectors = plgpu.SMEM((launch.stages, launch.query_tile), jnp.float32)
        hidden = plgpu.SMEM((launch.stages, mask.ranges.shape[1] + 1, 2, launch.query_tile), jnp.int32)
        dk, dv = self._call(
            dkv_kernel,
            "range_attention_dkv",
            launch,
            workers,
            (hidden_mask(mask, launch, mask.lists(launch.size).by_key, x.k.shape[1]), *x),
            [x.k, x.v],
            (
                (_matrices(workers, ROWS, x.k), _matrices(workers, ROWS, x.v)),
                plgpu.Barrier(num_arrivals=2, num_barriers=workers),
                _stream(launch, workers, _matrices(launch.stages, launch.query_tile, x.q), vectors, hidden),
                _stream(launch, workers, _matrices(launch.stages, launch.query_tile, x.do), vectors),
            ),
            operands.q.shape[3],
        )
        return cut(dk, operands.k), cut(dv, operands.v)

    def _call(
        self,
        kernel: Callable[..., None],
        name: str,
        launch: Launch,
        workers: int,
        inputs: tuple[Any, ...],
        outputs: list[jax.Array | jax.ShapeDtypeStruct],
        scratch: tuple[Any, ...],
        head_dim: int,
    ) -> list[jax.Array]:
        """Launches a body over (rows, heads, lines). `inputs` begin with the mask; `head_dim` is the unpadded one."""
        mask, q = inputs[0], inputs[1]
        plan = Plan(*launch.size, workers, launch.stages, head_dim**-0.5 * LOG2E, self.interpret)

        def body(*refs: Any) -> None:
            kernel(*refs[: -len(scratch)], refs[-len(scratch) :], plan=plan)

        body.__name__ = name  # the compiler's reports call the kernel by it
        return plgpu.kernel(
            body,
            out_type=[jax.ShapeDtypeStruct(like.shape, like.dtype) for like in outputs],
            scratch_types=scratch,
            grid=(q.shape[0], q.shape[2], mask.bounds.shape[1]),
            grid_names=AXES,
            num_threads=workers + 1,
            thread_name=WORKER_AXIS,
            compiler_params=plgpu.CompilerParams(approx_math=True),
            interpret=plgpu.InterpretGPUParams(detect_races=self.detect_races) if self.interpret else None,
        )(*inputs)

    def _launches(self) -> Launches:
        if self.launches is None:
            raise ValueError("the launches of this PallasMosaic backend have not been resolved")
        return self.launches


def _matrices(count: int, tokens: int, like: jax.Array) -> Buffer:
    """`count` tiles of tokens in shared memory, tiled and swizzled as wgmma reads them."""
    head_dim, width = like.shape[3], like.dtype.itemsize
    swizzle = min(128, head_dim * width)
    tiling = plgpu.TilingTransform((8, swizzle // width))  # ty: ignore[abstract-class-instantiation]
    swizzling = plgpu.SwizzleTransform(swizzle)  # ty: ignore[abstract-class-instantiation]
    return plgpu.SMEM((count, tokens, head_dim), like.dtype, transforms=(tiling, swizzling))


def _stream(launch: Launch, workers: int, *buffers: Buffer) -> Stream:
    """The ring of one streamed group of arrays."""
    return Stream(
        buffers,
        ready=plgpu.Barrier(num_arrivals=len(buffers), num_barriers=launch.stages),
        free=plgpu.Barrier(num_arrivals=workers, num_barriers=launch.stages),
    )
