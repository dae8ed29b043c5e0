"""The operators as Triton kernels, through Pallas: NVIDIA GPUs from sm_80 on.

A batch of products is one launch over (row tiles, column tiles, members). Of the two Pallas backends for GPUs this one
is taken because its products need no hand-made pipeline; JAX has announced its removal, after which the bodies move to
Mosaic.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

from wam_kernels.backend import pad_axis
from wam_kernels.invariant import formulas
from wam_kernels.invariant import triton_kernels as bodies
from wam_kernels.invariant.backend import Problem
from wam_kernels.invariant.formulas import Norm
from wam_kernels.invariant.launch_table import (
    SUM_COLUMNS,
    SUM_ROWS,
    SUM_WARPS,
    WIDEST,
    ProductLaunch,
    product_launch,
    row_launch,
)
from wam_kernels.target import Target

_MOST_ELEMENTS = 2**31  # offsets are 32-bit
_MOST_MEMBERS = 2**16 - 1  # the grid's third axis
_PRODUCTS = ("matmul", "addmm", "bmm")


@dataclasses.dataclass(frozen=True)
class PallasTriton:
    """The backend.

    Attributes:
        capability: the compute capability that launches are taken for; None until resolved.
        interpret: run the kernels in the Pallas interpreter, on any device; for tests.
    """

    capability: tuple[int, int] | None = None
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
        if problem.operator not in _PRODUCTS and problem.inner[0] > WIDEST:
            return f"a row has at most {WIDEST} values, not {problem.inner[0]}"
        if not 0 < problem.elements < _MOST_ELEMENTS:
            return f"an array of {problem.elements} elements; wanted at least one, and fewer than 2^31"
        if problem.batch > _MOST_MEMBERS:
            return f"a batch has at most {_MOST_MEMBERS} members, not {problem.batch}"
        return None

    def resolve(self, target: Target) -> Self:
        """Takes the target's capability, unless it has one."""
        return dataclasses.replace(self, capability=self.capability or target.capability)

    def product(self, a: jax.Array, b: jax.Array, bias: jax.Array | None, *, contract_last: bool = False) -> jax.Array:
        """One launch over tiles of the result."""
        if a.ndim == 2:
            return self.product(a[None], b[None], bias, contract_last=contract_last)[0]
        launch = product_launch(self.capability, a.dtype)
        outer = 1 if contract_last else 2
        rows, columns = a.shape[1], b.shape[outer]
        a = pad_axis(pad_axis(a, 1, launch.rows), 2, launch.inner)
        b = pad_axis(pad_axis(b, 3 - outer, launch.inner), outer, launch.columns)
        vectors = () if bias is None else (pad_axis(bias, 0, launch.columns),)
        out = self._over_tiles(
            functools.partial(bodies.product_kernel, inner=launch.inner, contract_last=contract_last),
            "invariant_product",
            launch,
            (a, b, *vectors),
            (
                pl.BlockSpec((None, launch.rows, a.shape[2]), lambda i, _j, m: (m, i, 0)),
                _line_of_tiles(b, outer, launch.columns),
                *[pl.BlockSpec((launch.columns,), lambda _i, j, _m: (j,)) for _ in vectors],
            ),
            jax.ShapeDtypeStruct((*a.shape[:2], b.shape[outer]), a.dtype),
        )
        return out[:, :rows, :columns]

    def weight_gradient(self, a: jax.Array, upstream: jax.Array) -> jax.Array:
        """One launch over tiles of the result, each of which goes through all rows."""
        if a.ndim == 2:
            return self.weight_gradient(a[None], upstream[None])[0]
        launch = product_launch(self.capability, a.dtype)
        shape = a.shape[2], upstream.shape[2]
        live = pad_axis(formulas.live_rows(upstream).astype(jnp.int32), 1, launch.inner)
        a = pad_axis(pad_axis(a, 1, launch.inner), 2, launch.rows)
        upstream = pad_axis(pad_axis(upstream, 1, launch.inner), 2, launch.columns)
        out = self._over_tiles(
            functools.partial(bodies.weight_gradient_kernel, rows=launch.inner),
            "invariant_weight_gradient",
            launch,
            (a, upstream, live),
            (
                pl.BlockSpec((None, a.shape[1], launch.rows), lambda i, _j, m: (m, 0, i)),
                _line_of_tiles(upstream, 2, launch.columns),
                pl.BlockSpec((None, a.shape[1]), lambda _i, _j, m: (m, 0)),
            ),
            jax.ShapeDtypeStruct((a.shape[0], a.shape[2], upstream.shape[2]), jnp.float32),
        )
        return out[:, : shape[0], : shape[1]]

    def row_sum(self, x: jax.Array) -> jax.Array:
        """One block for some columns, which goes through all rows."""
        return self._row_sum(x, SUM_ROWS)

    def normalise(self, x: jax.Array, scale: jax.Array | None, bias: jax.Array | None, norm: Norm) -> jax.Array:
        """Blocks of rows."""
        vectors = [vector for vector in (scale, bias) if vector is not None]
        given = scale is not None, bias is not None
        body = functools.partial(bodies.normalise_kernel, norm=norm, total_rows=x.shape[0], given=given)
        return self._over_rows(body, "invariant_norm", (x,), vectors, [(x, _rows(x))])[0]

    def normalise_gradients(
        self, x: jax.Array, scale: jax.Array | None, norm: Norm, upstream: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Blocks of rows, each with its part of the scale's gradient; then the parts in order."""
        body = functools.partial(bodies.normalise_gradient_kernel, norm=norm, total_rows=x.shape[0])
        launch = row_launch(norm.width)
        parts = jax.ShapeDtypeStruct((pl.cdiv(x.shape[0], launch.rows), norm.width), jnp.float32)
        outputs = [(x, _rows(x)), (parts, pl.BlockSpec((None, launch.columns), lambda i: (i, 0)))]
        vectors = [] if scale is None else [scale]
        of_x, parts = self._over_rows(body, "invariant_norm_gradient", (x, upstream), vectors, outputs)
        return of_x, self._row_sum(parts, 1)

    def log_softmax(self, x: jax.Array) -> jax.Array:
        """Blocks of rows."""
        body = functools.partial(bodies.log_softmax_kernel, width=x.shape[1], total_rows=x.shape[0])
        return self._over_rows(body, "invariant_log_softmax", (x,), (), [(x, _rows(x))])[0]

    def log_softmax_gradient(self, x: jax.Array, upstream: jax.Array) -> jax.Array:
        """Blocks of rows."""
        body = functools.partial(bodies.log_softmax_gradient_kernel, width=x.shape[1], total_rows=x.shape[0])
        return self._over_rows(body, "invariant_log_softmax_gradient", (x, upstream), (), [(x, _rows(x))])[0]

    def mean(self, x: jax.Array) -> jax.Array:
        """Blocks of rows."""
        body = functools.partial(bodies.mean_kernel, width=x.shape[1], total_rows=x.shape[0])
        like = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
        spec = pl.BlockSpec((row_launch(x.shape[1]).rows,), lambda i: (i,))
        return self._over_rows(body, "invariant_mean", (x,), (), [(like, spec)])[0]

    def _row_sum(self, x: jax.Array, rows: int) -> jax.Array:
        width = x.shape[1]
        x = pad_axis(pad_axis(x, 0, rows), 1, SUM_COLUMNS)
        out = pl.pallas_call(
            functools.partial(bodies.row_sum_kernel, rows=rows),
            grid=(x.shape[1] // SUM_COLUMNS,),
            in_specs=[pl.BlockSpec((x.shape[0], SUM_COLUMNS), lambda j: (0, j))],
            out_specs=pl.BlockSpec((SUM_COLUMNS,), lambda j: (j,)),
            out_shape=jax.ShapeDtypeStruct(x.shape[1:], jnp.float32),
            compiler_params=pltriton.CompilerParams(num_warps=SUM_WARPS, num_stages=2),
            interpret=self.interpret,
            name="invariant_row_sum",
        )(x)
        return out[:width]

    def _over_tiles(
        self,
        body: Callable[..., None],
        name: str,
        launch: ProductLaunch,
        inputs: Sequence[jax.Array],
        in_specs: Sequence[pl.BlockSpec],
        like: jax.ShapeDtypeStruct,
    ) -> jax.Array:
        """Launches a body over the tiles of a result `[members, lines, columns]`."""
        members, lines, columns = like.shape
        return pl.pallas_call(
            body,
            grid=(lines // launch.rows, columns // launch.columns, members),
            in_specs=in_specs,
            out_specs=pl.BlockSpec((None, launch.rows, launch.columns), lambda i, j, m: (m, i, j)),
            out_shape=like,
            compiler_params=pltriton.CompilerParams(num_warps=launch.warps, num_stages=launch.stages),
            interpret=self.interpret,
            name=name,
        )(*inputs)

    def _over_rows(
        self,
        body: Callable[..., None],
        name: str,
        rows: Sequence[jax.Array],
        vectors: Sequence[jax.Array],
        outputs: Sequence[tuple[jax.Array | jax.ShapeDtypeStruct, pl.BlockSpec]],
    ) -> Sequence[jax.Array]:
        """Launches a body over blocks of rows; every block sees the whole of the `vectors`."""
        total, width = rows[0].shape
        launch = row_launch(width)
        return pl.pallas_call(
            body,
            grid=(pl.cdiv(total, launch.rows),),
            in_specs=[*map(_rows, rows), *[pl.BlockSpec((launch.columns,), lambda _: (0,)) for _ in vectors]],
            out_specs=[spec for _, spec in outputs],
            out_shape=[jax.ShapeDtypeStruct(like.shape, like.dtype) for like, _ in outputs],
            compiler_params=pltriton.CompilerParams(num_warps=launch.warps, num_stages=1),
            interpret=self.interpret,
            name=name,
        )(*rows, *vectors)


def _line_of_tiles(x: jax.Array, axis: int, columns: int) -> pl.BlockSpec:
    """Some columns, along `axis`, of this member; all of the other axis."""
    if axis == 1:
        return pl.BlockSpec((None, columns, x.shape[2]), lambda _i, j, m: (m, j, 0))
    return pl.BlockSpec((None, x.shape[1], columns), lambda _i, j, m: (m, 0, j))


def _rows(x: jax.Array) -> pl.BlockSpec:
    """A block of whole rows; more columns than there may be."""
    launch = row_launch(x.shape[1])
    return pl.BlockSpec((launch.rows, launch.columns), lambda i: (i, 0))
