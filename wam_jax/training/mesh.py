"""The device mesh, and rows of a batch on it.

Axes are ("data", "fsdp"). A row of a batch is what one device works on, so rows lie over both axes and there are as
many as devices; parameters are split over "fsdp" only (`wam_jax.training.sharding`). A process materialises the rows of
its own devices and no others.
"""

import math
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from wam_jax.errors import InputError
from wam_jax.model.shards import AXIS

DATA, FSDP = AXES = ("data", AXIS)


def check_world_size(expected: int | None) -> None:
    """Refuses to start on another number of devices than the user expects (`--expected-world-size`)."""
    found = jax.device_count()
    if expected is not None and expected != found:
        raise InputError(
            "--expected-world-size", expected, f"{found} devices are there (one rank each); start on others"
        )


def make_mesh(shape: tuple[int, int]) -> Mesh:
    """The mesh of all devices of all processes; shape and errors as `mesh_sizes`."""
    sizes = mesh_sizes(shape, jax.device_count())
    return jax.make_mesh(sizes, AXES, axis_types=(AxisType.Auto,) * len(AXES))


def mesh_sizes(shape: tuple[int, int], devices: int) -> tuple[int, int]:
    """The sizes of a mesh of so many devices.

    Args:
        shape: sizes of ("data", "fsdp"); -1 takes the devices that the other leaves.
        devices: of all processes.
    Raises:
        InputError: the devices do not fill the shape exactly.
    """
    given = math.prod(size for size in shape if size != -1)
    data, fsdp = (devices // given if size == -1 else size for size in shape)
    if data * fsdp != devices:
        raise InputError("trainer.mesh", shape, f"must multiply to the {devices} devices; -1 takes what is left")
    return data, fsdp


def process_rows(mesh: Mesh) -> range:
    """The rows whose devices belong to this process.

    Raises:
        RuntimeError: they are not adjacent in the mesh.
    """
    own = [row for row, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()]
    rows = range(own[0], own[-1] + 1)
    if len(rows) != len(own):
        raise RuntimeError(f"the rows of process {jax.process_index()} are not adjacent in the mesh: {own}")
    return rows


def replicated(mesh: Mesh) -> NamedSharding:
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def put_rows[T](mesh: Mesh, batch: T) -> T:
    """A host batch on the devices.

    Args:
        mesh: the run's.
        batch: a tree of NumPy arrays [rows of this process, ...] and of scalars, which hold for all rows.
    Returns:
        The tree with arrays [rows of the mesh, ...], one row a device, and replicated scalars.
    """
    rows, everywhere = NamedSharding(mesh, PartitionSpec(AXES)), replicated(mesh)

    def put(array: Any) -> jax.Array:
        host = np.asarray(array)
        return jax.make_array_from_process_local_data(rows if host.ndim else everywhere, host)

    return jax.tree.map(put, batch)
