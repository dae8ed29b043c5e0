"""Parameters of which each device holds a part: marked where the model is put together, made whole where they are used.

Training runs the network inside `jax.shard_map`, where a device sees its own rows and its own part of each split
kernel. Parts outside the stacks are gathered at once; those of a stack layer by layer, inside what is rematerialised,
so that no device ever holds more than a layer of them. A gathered kernel is in the compute dtype, as its layer would
cast it anyway; its gradient goes back as float32 sums over the devices, each keeping its part (a reduce-scatter).
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from wam_jax.model.config import DType

AXIS = "fsdp"
"""The mesh axis that parameters are split over."""

_SPLIT_AXIS, _WHOLE_DTYPE = "split_axis", "whole_dtype"


def part_axis(part: tuple[int, ...], whole: tuple[int, ...]) -> int | None:
    """The axis along which a shape is one device's part of another, counted from the end; None where they are equal.

    Raises:
        ValueError: it is no such part on the devices of the `shard_map` that is being traced (of one outside).
    """
    if part == whole:
        return None
    mesh = jax.sharding.get_abstract_mesh()
    parts = mesh.shape[AXIS] if AXIS in mesh.manual_axes else 1
    for axis in range(-len(whole), 0):
        if len(part) == len(whole) and part == _divided(whole, axis, parts):
            return axis
    raise ValueError(f"{part} is no part of {whole}")


def _divided(shape: tuple[int, ...], axis: int, parts: int) -> tuple[int, ...]:
    axis %= len(shape)
    return (*shape[:axis], shape[axis] // parts, *shape[axis + 1 :]) if shape[axis] % parts == 0 else ()


def whole_array(part: jax.Array, shape: tuple[int, ...], dtype: DType) -> jax.Array:
    """The array of `shape` that this is all of, or this device's part of; a part is gathered in `dtype`."""
    axis = part_axis(part.shape, shape)
    return part if axis is None else gather(part, axis, dtype)


def mark(variable: nnx.Variable, axis: int, dtype: DType) -> None:
    """Notes on a variable how `whole` makes it whole: along which axis from the end, and in which dtype."""
    variable.set_metadata(_SPLIT_AXIS, axis)
    variable.set_metadata(_WHOLE_DTYPE, dtype)


def has_parts(module: Any) -> bool:
    """Whether any variable of a module is marked."""
    return any(_is_part(leaf) for leaf in jax.tree.leaves(module, is_leaf=_is_variable))


def whole[T](module: T) -> T:
    """A module with all its marked variables gathered; the others as they are."""

    def gathered(leaf: Any) -> Any:
        if not _is_part(leaf):
            return leaf
        notes = leaf.get_metadata()
        return nnx.Param(gather(leaf[...], notes[_SPLIT_AXIS], notes[_WHOLE_DTYPE]))

    return jax.tree.map(gathered, module, is_leaf=_is_variable)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def gather(part: jax.Array, axis: int, dtype: DType) -> jax.Array:
    """All devices' parts along `axis`, cast to `dtype` first; a part's gradient is a float32 sum over devices."""
    return _gathered(part, axis, dtype)


def _forward(part: jax.Array, axis: int, dtype: DType) -> tuple[jax.Array, jax.Array]:
    # Not through `gather` again, or what decides about rematerialisation could not see what is inside.
    return _gathered(part, axis, dtype), jnp.zeros((), part.dtype)


def _backward(axis: int, _: DType, like: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
    exact = gradient.astype(jnp.promote_types(gradient.dtype, jnp.float32))
    summed = jax.lax.psum_scatter(exact, AXIS, scatter_dimension=axis % exact.ndim, tiled=True)
    return (summed.astype(like.dtype),)


gather.defvjp(_forward, _backward)


def _gathered(part: jax.Array, axis: int, dtype: DType) -> jax.Array:
    return jax.lax.all_gather(part.astype(dtype), AXIS, axis=axis % part.ndim, tiled=True)


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, nnx.Variable)


def _is_part(leaf: Any) -> bool:
    return _is_variable(leaf) and _SPLIT_AXIS in leaf.get_metadata()
