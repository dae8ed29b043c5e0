"""Range attention as Triton kernels, through Pallas: NVIDIA GPUs from sm_80 on.

Three kernels (`wam_kernels.triton_kernels`): forward and dQ run over tiles of queries, dK/dV over tiles of keys, on a
grid of (tiles, heads, rows). No sum crosses a tile, so there are no atomics and two runs give the same bits.

JAX has announced that this Pallas backend will be removed; `wam_kernels.pallas_mosaic` is to follow it. Everything but
the bodies is shared.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

from wam_kernels.backend import Mask, Problem, TileSize
from wam_kernels.launch import Launch, Launches
from wam_kernels.launch_table import triton_launches
from wam_kernels.operands import MOST_HEAD_DIM, Backward, cut, fill, filled_head_dim, mask_operands
from wam_kernels.target import Target
from wam_kernels.triton_kernels import dkv_kernel, dq_kernel, forward_kernel
from wam_kernels.vjp import LOG2E, Upstream, attend_with_kernels

_MOST_ELEMENTS = 2**31  # offsets are 32-bit


@dataclasses.dataclass(frozen=True)
class PallasTriton:
    """The backend.

    Attributes:
        launches: tile sizes, warps and stages; None takes them from `wam_kernels.launch_table`.
        interpret: run the kernels in the Pallas interpreter, on any device; for tests.
    """

    launches: Launches | None = None
    interpret: bool = False
    name: ClassVar[str] = "pallas_triton"

    def refusal(self, problem: Problem, target: Target) -> str | None:
        """Why this problem cannot be computed on this target, or None if it can."""
        if not self.interpret:
            if target.platform != "gpu":
                return "needs an NVIDIA GPU (PallasTriton(interpret=True) runs the same kernels anywhere, slowly)"
            if target.capability is None or target.capability < (8, 0):
                return "needs compute capability 8.0 or later"
        if problem.dtype not in (jnp.float32, jnp.bfloat16):
            return f"computes float32 and bfloat16, not {problem.dtype}"
        if problem.head_dim > MOST_HEAD_DIM:
            return f"head_dim is at most {MOST_HEAD_DIM}, not {problem.head_dim}"
        tokens = max(problem.query_tokens, problem.key_tokens)
        if problem.rows * tokens * problem.heads * filled_head_dim(problem.head_dim) >= _MOST_ELEMENTS:
            return (
                f"an array of {problem.rows} rows x {tokens} tokens x {problem.heads} heads has 2^31 elements or more"
            )
        return None

    def resolve(self, problem: Problem, target: Target, given: tuple[TileSize, ...]) -> Self:
        """Takes the launches from the table, unless it has its own."""
        del given
        head_dim = filled_head_dim(problem.head_dim)
        launches = self.launches or triton_launches(target.capability, problem.dtype, head_dim)
        return dataclasses.replace(self, launches=launches)

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
        lse_shape = jax.ShapeDtypeStruct((q.shape[0], q.shape[2], q.shape[1]), jnp.float32)
        out, lse2 = self._call(
            forward_kernel,
            "range_attention_forward",
            launch,
            (mask_operands(mask, launch, mask.lists(launch.size).by_query), q, k, v),
            (_tile(q, launch.query_tile), _whole(k), _whole(v)),
            ((q, _tile(q, launch.query_tile)), (lse_shape, _tile(lse_shape, launch.query_tile))),
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
        tile = launch.query_tile
        (dq,) = self._call(
            dq_kernel,
            "range_attention_dq",
            launch,
            (mask_operands(mask, launch, mask.lists(launch.size).by_query), *x),
            (_tile(x.q, tile), _whole(x.k), _whole(x.v), _tile(x.do, tile), _tile(x.lse2, tile), _tile(x.delta, tile)),
            ((x.q, _tile(x.q, tile)),),
            operands.q.shape[3],
        )
        return cut(dq, operands.q)

    def dkv(self, operands: Backward, mask: Mask) -> tuple[jax.Array, jax.Array]:
        """dk and dv alone."""
        launch = self._launches().dkv
        x = operands.filled(launch)
        tile = launch.key_tile
        dk, dv = self._call(
            dkv_kernel,
            "range_attention_dkv",
            launch,
            (mask_operands(mask, launch, mask.lists(launch.size).by_key), *x),
            (_whole(x.q), _tile(x.k, tile), _tile(x.v, tile), _whole(x.do), _whole(x.lse2), _whole(x.delta)),
            ((x.k, _tile(x.k, tile)), (x.v, _tile(x.v, tile))),
            operands.q.shape[3],
        )
        return cut(dk, operands.k), cut(dv, operands.v)

    def _call(
        self,
        kernel: Callable[..., None],
        name: str,
        launch: Launch,
        inputs: tuple[Any, ...],
        in_specs: tuple[pl.BlockSpec, ...],
        outputs: tuple[tuple[jax.Array | jax.ShapeDtypeStruct, pl.BlockSpec], ...],
        head_dim: int,
    ) -> list[jax.Array]:
        """Launches a body over (lines, heads, rows). `inputs` begin with the mask; `head_dim` is the unpadded one."""
        mask, q = inputs[0], inputs[1]
        return pl.pallas_call(
            functools.partial(kernel, size=launch.size, scale2=head_dim**-0.5 * LOG2E),
            grid=(mask.bounds.shape[1], q.shape[2], q.shape[0]),
            in_specs=[jax.tree.map(_row, mask), *in_specs],
            out_specs=[spec for _, spec in outputs],
            out_shape=[jax.ShapeDtypeStruct(like.shape, like.dtype) for like, _ in outputs],
            compiler_params=pltriton.CompilerParams(num_warps=launch.warps, num_stages=launch.stages),
            interpret=self.interpret,
            name=name,
        )(*inputs)

    def _launches(self) -> Launches:
        if self.launches is None:
            raise ValueError("the launches of this PallasTriton backend have not been resolved")
        return self.launches


def _tile(x: jax.Array | jax.ShapeDtypeStruct, tokens: int) -> pl.BlockSpec:
    """The tile of this line: of `[rows, tokens, heads, head_dim]`, or of `[rows, heads, tokens]`."""
    if len(x.shape) == 3:
        return pl.BlockSpec((None, None, tokens), lambda line, head, row: (row, head, line))
    return pl.BlockSpec((None, tokens, None, x.shape[3]), lambda line, head, row: (row, line, head, 0))


def _whole(x: jax.Array) -> pl.BlockSpec:
    """All tokens of this head and row."""
    if len(x.shape) == 3:
        return pl.BlockSpec((None, None, x.shape[2]), lambda _line, head, row: (row, head, 0))
    return pl.BlockSpec((None, x.shape[1], None, x.shape[3]), lambda _line, head, row: (row, 0, head, 0))


def _row(x: jax.Array) -> pl.BlockSpec:
    """All of this row."""
    rest = (0,) * (x.ndim - 1)
    return pl.BlockSpec((None, *x.shape[1:]), lambda _line, _head, row: (row, *rest))
