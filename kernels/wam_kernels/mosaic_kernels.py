"""The bodies of the Mosaic kernels: forward, dQ and dK/dV of one tile of queries or keys, for one head of one row, on
Hopper.

A block is some compute warpgroups, 64 rows of the tile each, and one memory warpgroup. The memory warpgroup walks the
line of the tile list and brings each listed tile to a ring of `stages` slots in shared memory (TMA); the compute
warpgroups multiply (wgmma), mask the partial tiles, and free the slot. For every streamed array there are two barriers
a slot: `ready`, which the copy completes, and `free`, on which every compute warpgroup arrives after its last read.

Visibility arrives as its complement, the stretches of keys that a query does not see, and each stretch is written into
the scores in place: a matrix of booleans would hold as many registers as the scores.

The interpreter has no wgmma with an operand in registers; `_accumulate` is the only line that it runs differently.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from wam_kernels.operands import HiddenMask
from wam_kernels.vjp import LEAST_PEAK, LOG2E, MASKED

type Ref = Any
"""A Pallas reference, which has no public type."""

type Layout = Any
"""A layout of an array over the threads of a warpgroup; likewise."""

type Carry = tuple[jax.Array, ...]

ROWS = 64
"""Rows of a tile that one warpgroup computes: the height of a wgmma."""

DOWN, ACROSS = plgpu.Layout.WGMMA.reduce(1), plgpu.Layout.WGMMA.reduce(0)
"""Layouts of a vector with an element for each row, or for each column, of a matrix of scores."""

_COMPUTE_REGISTERS, _MEMORY_REGISTERS = 232, 40
"""What two compute warpgroups and a memory warpgroup may hold of the 65,536 of a multiprocessor, a thread."""


class Plan(NamedTuple):
    """The static facts of one kernel.

    Attributes:
        query_tile: queries a tile.
        key_tile: keys a tile.
        workers: compute warpgroups.
        stages: slots of the ring.
        scale2: `log2(e) / sqrt(head_dim)`.
        interpret: whether the interpreter runs it.
    """

    query_tile: int
    key_tile: int
    workers: int
    stages: int
    scale2: float
    interpret: bool


class Stream(NamedTuple):
    """Arrays that arrive together, slot by slot: their ring buffers and barriers.

    Attributes:
        buffers: shared memory, `[stages, ...]` each.
        ready: completed by the copies into a slot.
        free: completed when every worker has read a slot.
    """

    buffers: tuple[Ref, ...]
    ready: Ref
    free: Ref


class Place(NamedTuple):
    """Which tile a block computes, and which part of it a warpgroup."""

    row: jax.Array
    head: jax.Array
    line: jax.Array
    worker: jax.Array


AXES = ("row", "head", "line")
WORKER_AXIS = "worker"


def forward_kernel(
    mask: HiddenMask, q_ref: Ref, k_ref: Ref, v_ref: Ref, o_ref: Ref, lse_ref: Ref, scratch: Any, *, plan: Plan
) -> None:
    """Output and base-2 lse (+inf: no key) of a tile of queries, by online softmax."""
    (qo_buffer, lse_buffer), q_ready, keys, values = scratch
    place = _place()
    base = place.line * plan.query_tile + place.worker * ROWS
    shape = (ROWS, plan.key_tile)

    def compute() -> None:
        q_smem, lse_smem = qo_buffer.at[place.worker], lse_buffer.at[place.worker]
        here = (place.row, pl.ds(base, ROWS), place.head)
        plgpu.copy_gmem_to_smem(q_ref.at[here], q_smem, q_ready.at[place.worker])
        hide = _hider_of_keys(mask, place, base, plan.key_tile)
        plgpu.barrier_wait(q_ready.at[place.worker])

        def visit(tile: jax.Array, slot: jax.Array, carry: Carry, *, masked: bool) -> Carry:
            acc, peak, total = carry
            plgpu.barrier_wait(keys.ready.at[slot])
            scores = _product(q_smem, keys.buffers[0].at[slot].transpose((1, 0)), shape) * plan.scale2
            plgpu.barrier_arrive(keys.free.at[slot])
            if masked:
                scores = hide(scores, tile)
            new_peak = jnp.maximum(peak, scores.max(axis=1))
            p = jnp.exp2(scores - _spread(new_peak, shape, 0))
            shrink = jnp.exp2(peak - new_peak)
            total = total * shrink + p.sum(axis=1)
            acc = acc * _spread(shrink, acc.shape, 0)
            plgpu.barrier_wait(values.ready.at[slot])
            acc = _accumulate(acc, p.astype(q_ref.dtype), values.buffers[0].at[slot], plan)
            plgpu.barrier_arrive(values.free.at[slot])
            return acc, new_peak, total

        start = (_zeros(q_smem.shape), _filled(LEAST_PEAK), _filled(0.0))
        acc, peak, total = _visit_line(mask, place, plan, visit, start)
        seen = total > 0
        total = jnp.where(seen, total, 1.0)
        q_smem[...] = (acc / _spread(total, acc.shape, 0)).astype(q_ref.dtype)
        lse_smem[...] = jnp.where(seen, peak + jnp.log(total) * LOG2E, jnp.inf)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(q_smem, o_ref.at[here])
        plgpu.copy_smem_to_gmem(lse_smem, lse_ref.at[place.row, place.head, pl.ds(base, ROWS)])
        plgpu.wait_smem_to_gmem(0)

    sources = [(keys, [_tokens_of(k_ref, place, plan.key_tile)]), (values, [_tokens_of(v_ref, place, plan.key_tile)])]
    _run(place, plan, compute, functools.partial(_fetch_line, mask, place, plan, sources))


def dq_kernel(
    mask: HiddenMask,
    q_ref: Ref,
    k_ref: Ref,
    v_ref: Ref,
    do_ref: Ref,
    lse_ref: Ref,
    delta_ref: Ref,
    dq_ref: Ref,
    scratch: Any,
    *,
    plan: Plan,
) -> None:
    """dQ of a tile of queries."""
    (q_buffer, do_buffer), own_ready, keys, values = scratch
    place = _place()
    base = place.line * plan.query_tile + place.worker * ROWS
    shape = (ROWS, plan.key_tile)

    def compute() -> None:
        q_smem, do_smem = q_buffer.at[place.worker], do_buffer.at[place.worker]
        here, ready = (place.row, pl.ds(base, ROWS), place.head), own_ready.at[place.worker]
        plgpu.copy_gmem_to_smem(q_ref.at[here], q_smem, ready)
        plgpu.copy_gmem_to_smem(do_ref.at[here], do_smem, ready)
        hide = _hider_of_keys(mask, place, base, plan.key_tile)
        vectors = (place.row, place.head, pl.ds(base, ROWS))
        lse2, delta = (plgpu.load(x.at[vectors], layout=DOWN, optimized=False) for x in (lse_ref, delta_ref))
        plgpu.barrier_wait(ready)

        def visit(tile: jax.Array, slot: jax.Array, carry: Carry, *, masked: bool) -> Carry:
            k_smem, v_smem = keys.buffers[0].at[slot], values.buffers[0].at[slot]
            plgpu.barrier_wait(keys.ready.at[slot])
            scores = _product(q_smem, k_smem.transpose((1, 0)), shape) * plan.scale2
            if masked:
                scores = hide(scores, tile)
            p = jnp.exp2(scores - _spread(lse2, shape, 0))
            plgpu.barrier_wait(values.ready.at[slot])
            dp = _product(do_smem, v_smem.transpose((1, 0)), shape)
            plgpu.barrier_arrive(values.free.at[slot])
            ds = p * (dp - _spread(delta, shape, 0))
            dq = _accumulate(carry[0], ds.astype(q_ref.dtype), k_smem, plan)
            plgpu.barrier_arrive(keys.free.at[slot])
            return (dq,)

        (dq,) = _visit_line(mask, place, plan, visit, (_zeros(q_smem.shape),))
        q_smem[...] = (dq * (plan.scale2 / LOG2E)).astype(q_ref.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(q_smem, dq_ref.at[here])
        plgpu.wait_smem_to_gmem(0)

    sources = [(keys, [_tokens_of(k_ref, place, plan.key_tile)]), (values, [_tokens_of(v_ref, place, plan.key_tile)])]
    _run(place, plan, compute, functools.partial(_fetch_line, mask, place, plan, sources))


def dkv_kernel(
    mask: HiddenMask,
    q_ref: Ref,
    k_ref: Ref,
    v_ref: Ref,
    do_ref: Ref,
    lse_ref: Ref,
    delta_ref: Ref,
    dk_ref: Ref,
    dv_ref: Ref,
    scratch: Any,
    *,
    plan: Plan,
) -> None:
    """dK and dV of a tile of keys. Scores are held transposed: keys down, queries across."""
    (k_buffer, v_buffer), own_ready, queries, upstream = scratch
    place = _place()
    base = place.line * plan.key_tile + place.worker * ROWS
    shape = (ROWS, plan.query_tile)

    def compute() -> None:
        k_smem, v_smem = k_buffer.at[place.worker], v_buffer.at[place.worker]
        here, ready = (place.row, pl.ds(base, ROWS), place.head), own_ready.at[place.worker]
        plgpu.copy_gmem_to_smem(k_ref.at[here], k_smem, ready)
        plgpu.copy_gmem_to_smem(v_ref.at[here], v_smem, ready)
        plgpu.barrier_wait(ready)

        def visit(_tile: jax.Array, slot: jax.Array, carry: Carry, *, masked: bool) -> Carry:
            dk, dv = carry
            q_smem, lse_smem, hidden_smem = (buffer.at[slot] for buffer in queries.buffers)
            do_smem, delta_smem = (buffer.at[slot] for buffer in upstream.buffers)
            plgpu.barrier_wait(queries.ready.at[slot])
            scores = _product(k_smem, q_smem.transpose((1, 0)), shape) * plan.scale2
            if masked:
                scores = _hide_queries(scores, hidden_smem, base)
            p = jnp.exp2(scores - _spread(plgpu.load(lse_smem, layout=ACROSS), shape, 1))
            plgpu.barrier_wait(upstream.ready.at[slot])
            dv = _accumulate(dv, p.astype(q_ref.dtype), do_smem, plan)
            dp = _product(v_smem, do_smem.transpose((1, 0)), shape)
            ds = p * (dp - _spread(plgpu.load(delta_smem, layout=ACROSS), shape, 1))
            plgpu.commit_smem()  # ordinary loads read lse, delta and the stretches; copies will overwrite them
            plgpu.barrier_arrive(upstream.free.at[slot])
            dk = _accumulate(dk, ds.astype(q_ref.dtype), q_smem, plan)
            plgpu.barrier_arrive(queries.free.at[slot])
            return dk, dv

        zero = _zeros(k_smem.shape)
        dk, dv = _visit_line(mask, place, plan, visit, (zero, zero))
        # An invalid key needs no mask on the way: what it gathers stays in its own row, which is zeroed here.
        valid = _spread(_valid(mask, place, base, ROWS, DOWN), k_smem.shape, 0)
        k_smem[...] = jnp.where(valid, dk * (plan.scale2 / LOG2E), 0.0).astype(q_ref.dtype)
        v_smem[...] = jnp.where(valid, dv, 0.0).astype(q_ref.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(k_smem, dk_ref.at[here])
        plgpu.copy_smem_to_gmem(v_smem, dv_ref.at[here])
        plgpu.wait_smem_to_gmem(0)

    tile = plan.query_tile
    sources = [
        (queries, [_tokens_of(q_ref, place, tile), _vector_of(lse_ref, place, tile), _hidden_of(mask, place, tile)]),
        (upstream, [_tokens_of(do_ref, place, tile), _vector_of(delta_ref, place, tile)]),
    ]
    _run(place, plan, compute, functools.partial(_fetch_line, mask, place, plan, sources))


def _place() -> Place:
    return Place(*(lax.axis_index(axis) for axis in (*AXES, WORKER_AXIS)))


def _run(place: Place, plan: Plan, compute: Callable[[], None], fetch: Callable[[], None]) -> None:
    """Gives each warpgroup its part, and its share of the registers."""

    @pl.when(place.worker < plan.workers)
    def _() -> None:
        if plan.workers > 1:
            plgpu.set_max_registers(_COMPUTE_REGISTERS, action="increase")
        compute()

    @pl.when(place.worker == plan.workers)
    def _() -> None:
        if plan.workers > 1:
            plgpu.set_max_registers(_MEMORY_REGISTERS, action="decrease")
        fetch()


def _fetch_line(
    mask: HiddenMask,
    place: Place,
    plan: Plan,
    sources: Sequence[tuple[Stream, Sequence[Callable[[jax.Array], Ref]]]],
) -> None:
    """Brings the listed tiles of the line to the slots, in list order."""
    start, _, end = _line_bounds(mask, place)

    def fetch(step: jax.Array, _: tuple[()]) -> tuple[()]:
        slot = lax.rem(step, jnp.int32(plan.stages))
        tile = mask.across[place.row, start + step]
        for stream, parts in sources:

            @pl.when(step >= plan.stages)
            def _(stream: Stream = stream) -> None:
                plgpu.barrier_wait(stream.free.at[slot])

            for part, buffer in zip(parts, stream.buffers, strict=True):
                plgpu.copy_gmem_to_smem(part(tile), buffer.at[slot], stream.ready.at[slot])
        return ()

    lax.fori_loop(0, end - start, fetch, ())


def _visit_line(mask: HiddenMask, place: Place, plan: Plan, visit: Callable[..., Carry], carry: Carry) -> Carry:
    """Visits the line's partial tiles, then its full ones."""
    start, full, end = _line_bounds(mask, place)

    def step(at: jax.Array, carry: Carry, *, masked: bool) -> Carry:
        slot = lax.rem(at, jnp.int32(plan.stages))
        return visit(mask.across[place.row, start + at], slot, carry, masked=masked)

    carry = lax.fori_loop(0, full - start, functools.partial(step, masked=True), carry)
    return lax.fori_loop(full - start, end - start, functools.partial(step, masked=False), carry)


def _line_bounds(mask: HiddenMask, place: Place) -> tuple[jax.Array, jax.Array, jax.Array]:
    start, full, end = (mask.bounds[place.row, place.line, i] for i in range(3))
    return start, full, end


def _tokens_of(ref: Ref, place: Place, size: int) -> Callable[[jax.Array], Ref]:
    return lambda tile: ref.at[place.row, pl.ds(tile * size, size), place.head]


def _vector_of(ref: Ref, place: Place, size: int) -> Callable[[jax.Array], Ref]:
    return lambda tile: ref.at[place.row, place.head, pl.ds(tile * size, size)]


def _hidden_of(mask: HiddenMask, place: Place, size: int) -> Callable[[jax.Array], Ref]:
    return lambda tile: mask.hidden.at[place.row, :, :, pl.ds(tile * size, size)]


def _hider_of_keys(
    mask: HiddenMask, place: Place, base: jax.Array, key_tile: int
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Hides what `ROWS` queries from `base` on do not see of a tile of keys. Their stretches stay in registers."""
    hidden = mask.hidden.at[place.row, :, :, pl.ds(base, ROWS)]
    ends = [
        [plgpu.load(hidden.at[i, side], layout=DOWN, optimized=False) for side in range(2)]
        for i in range(mask.hidden.shape[1])
    ]

    def hide(scores: jax.Array, tile: jax.Array) -> jax.Array:
        position = _positions(tile * key_tile, scores.shape, 1)
        for first, last in ends:
            scores = _hide_stretch(scores, position, first, last, query_axis=0)
        valid = _valid(mask, place, tile * key_tile, key_tile, ACROSS)
        return jnp.where(_spread(valid, scores.shape, 1), scores, MASKED)

    return hide


def _hide_queries(scores: jax.Array, hidden: Ref, base: jax.Array) -> jax.Array:
    """Hides what a tile of queries does not see of `ROWS` keys from `base` on.

    A loop, not a list: the ends of one stretch fill 32 registers a thread here, and ptxas would load them all at once.
    """
    position = _positions(base, scores.shape, 0)

    def hide(i: jax.Array, scores: jax.Array) -> jax.Array:
        first, last = (plgpu.load(hidden.at[i, side], layout=ACROSS) for side in range(2))
        return _hide_stretch(scores, position, first, last, query_axis=1)

    return lax.fori_loop(0, hidden.shape[0], hide, scores)


def _hide_stretch(
    scores: jax.Array, position: jax.Array, first: jax.Array, last: jax.Array, *, query_axis: int
) -> jax.Array:
    first, last = _spread(first, scores.shape, query_axis), _spread(last, scores.shape, query_axis)
    return jnp.where((first <= position) & (position < last), MASKED, scores)


def _valid(mask: HiddenMask, place: Place, start: jax.Array, size: int, layout: Layout) -> jax.Array:
    """Which of `size` keys from `start` on are valid."""
    return plgpu.load(mask.key_valid.at[place.row, pl.ds(start, size)], layout=layout, optimized=False) != 0


def _positions(start: jax.Array, shape: tuple[int, ...], axis: int) -> jax.Array:
    return start + plgpu.broadcasted_iota(jnp.int32, shape, axis, layout=plgpu.Layout.WGMMA)


def _product(a: Ref, b: Ref, shape: tuple[int, int]) -> jax.Array:
    """`a @ b`, both in shared memory, summed in float32."""

    def multiply(acc: Ref) -> jax.Array:
        plgpu.wgmma(acc, a, b)
        return acc[...]

    return pl.run_scoped(multiply, plgpu.ACC(shape, jnp.float32))


def _accumulate(acc: jax.Array, a: jax.Array, b: Ref, plan: Plan) -> jax.Array:
    """`acc + a @ b`, with `a` in registers and `b` in shared memory."""
    if plan.interpret:
        matrix = b[...]
        plgpu.commit_smem()  # an ordinary load needs the fence before a copy may overwrite the slot; wgmma does not
        return acc + jnp.dot(a, matrix, preferred_element_type=jnp.float32)
    return pl.run_state(lambda ref: plgpu.wgmma(ref, a, b))(plgpu.ACC.init(acc))


def _spread(x: jax.Array, shape: tuple[int, ...], axis: int) -> jax.Array:
    """A vector along `axis` of a matrix."""
    return lax.broadcast_in_dim(x, shape, [axis])


def _zeros(shape: tuple[int, ...]) -> jax.Array:
    return plgpu.layout_cast(jnp.full(shape, 0.0, jnp.float32), plgpu.Layout.WGMMA)


def _filled(value: float) -> jax.Array:
    return plgpu.layout_cast(jnp.full((ROWS,), value, jnp.float32), DOWN)
