"""What can be counted in a traced program, before any compiler: matrix products, and what a backward pass is kept.

Inside `jax.shard_map` shapes are those of one device, so both counts are of one device.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

_KERNELS = ("pallas_call", "mpmd_map", "while")
"""Kernels, and loops whose length is data: attention over lists of tiles, which `wam_jax.planning.work` counts."""


def matmul_flops(jaxpr: Jaxpr) -> int:
    """Floating-point operations of all matrix products: 2 a multiply-add, recomputation included, kernels left out."""
    return sum(_flops(equation) for equation in jaxpr.eqns)


def saved_bytes(jaxpr: Jaxpr) -> int:
    """Bytes that loops over layers (and over the decoder's samples) keep of every turn.

    These are the activations that the backward pass reads, as the rematerialisation policy leaves them on the device.
    The compiler may keep less (it fuses and recomputes) or more (copies).
    """
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            total += 0 if equation.params["reverse"] else _stacked_bytes(equation)
        elif equation.primitive.name in ("jit", "shard_map"):
            total += sum(saved_bytes(inner) for inner in _inner(equation))
    return total


def _flops(equation: JaxprEqn) -> int:
    name = equation.primitive.name
    if name in _KERNELS:
        return 0
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        result, left = _array(equation.outvars[0]), _array(equation.invars[0])
        return 2 * result.size * math.prod(left.shape[axis] for axis in contracted)
    inner = [matmul_flops(jaxpr) for jaxpr in _inner(equation)]
    if name == "cond":
        return max(inner)
    return sum(inner) * (equation.params["length"] if name == "scan" else 1)


def _inner(equation: JaxprEqn) -> Iterator[Jaxpr]:
    for value in equation.params.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item


def _stacked_bytes(scan: JaxprEqn) -> int:
    """Of the outputs that have one part a turn: their shape is the body's with the length in front."""
    (body,) = _inner(scan)
    outputs = [(_array(whole), _array(part)) for whole, part in zip(scan.outvars, body.outvars, strict=True)]
    kept = [whole for whole, part in outputs if whole.ndim > part.ndim]
    return sum(array.size * array.dtype.itemsize for array in kept if array.memory_space != jax.memory.Space.Host)


def _array(variable: Any) -> Any:
    """The abstract array of a variable."""
    return variable.aval
