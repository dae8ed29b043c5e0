"""Which axis of which parameter is split over "fsdp".

The rule reads the parameter's path (`wam_jax.model.parameters`): a `kernel` is split along its longest axis that the
mesh divides, everything else (biases, norm scales, small tables) is whole on every device. Parameters under `blocks`
lead with the layer axis, which is scanned over and never split. Whatever mirrors the parameters (gradients, moments,
averages) is split like them.
"""

from typing import Any

import jax
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from wam_jax.training.mesh import FSDP, replicated
from wam_jax.training.tree import path_name

_SPLIT = "kernel"
_STACK = "blocks"


def parameter_spec(path: str, shape: tuple[int, ...], *, fsdp: int) -> PartitionSpec:
    """How one parameter lies on the mesh.

    Args:
        path: its keys joined by "/".
        shape: its shape.
        fsdp: devices on the "fsdp" axis.
    """
    keys = path.split("/")
    axes = range(1 if _STACK in keys else 0, len(shape))
    divisible = [axis for axis in axes if shape[axis] % fsdp == 0]
    if keys[-1] != _SPLIT or not divisible:
        return PartitionSpec()
    split = max(divisible, key=lambda axis: shape[axis])
    return PartitionSpec(*(FSDP if axis == split else None for axis in range(len(shape))))


def parameter_shardings(mesh: Mesh, params: Any) -> Any:
    """A tree of `NamedSharding` like `params`, whose leaves need a shape only."""

    def sharding(path: Any, leaf: Any) -> NamedSharding:
        return NamedSharding(mesh, parameter_spec(path_name(path), leaf.shape, fsdp=mesh.shape[FSDP]))

    return jax.tree.map_with_path(sharding, params)


def optimizer_shardings(mesh: Mesh, transform: optax.GradientTransformation, opt_state: Any, parameters: Any) -> Any:
    """A tree of `NamedSharding` like `opt_state`: moments as their parameters (`parameters`), counters whole."""
    return optax.tree.map_params(
        transform,
        lambda _, sharding: sharding,
        opt_state,
        parameters,
        transform_non_params=lambda _: replicated(mesh),
    )
