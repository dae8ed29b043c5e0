"""The devices that a plan is for: GPUs that need not be there, or the CPU that is.

For GPUs the process needs the wheels of the extra `aot` and computes nothing on them; one topology serves a process.
"""

import contextlib
import functools
import importlib.util
import os
from collections.abc import Generator
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from wam_jax.errors import InputError
from wam_jax.training.mesh import AXES, mesh_sizes
from wam_kernels.deviceless import GPUS, compile_only_devices

TARGETS = (*GPUS, "cpu")

_WHEELS = ("jax_plugins.xla_cuda12", "jax_cuda12_plugin", "nvidia.cuda_nvcc")
_INSTALL = "UV_PROJECT_ENVIRONMENT=.venv-aot python3 -m uv sync --extra aot, then .venv-aot/bin/python -m wam_jax.plan"


@dataclass(frozen=True)
class Topology:
    """Devices of one kind.

    Attributes:
        target: one of `TARGETS`.
        devices: of all hosts together.
        hosts: processes, each with an equal share of the devices.
    """

    target: str
    devices: int
    hosts: int = 1

    @property
    def is_gpu(self) -> bool:
        """Whether programs are compiled for devices that need not be there."""
        return self.target in GPUS

    @property
    def memory(self) -> int:
        """Bytes of a device; CPU devices share what the machine has."""
        if self.is_gpu:
            return GPUS[self.target].memory
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // self.devices


def prepare_for(topology: Topology) -> None:
    """Makes a process that has used no device yet ready to compile for these.

    Raises:
        InputError: naming the argument; for a GPU without the compiler's wheels, how to install them.
    """
    if topology.target not in TARGETS:
        raise InputError("--target", topology.target, f"must be of {', '.join(TARGETS)}")
    if topology.devices < 1:
        raise InputError("--devices", topology.devices, "at least 1")
    if topology.hosts < 1 or topology.devices % topology.hosts:
        raise InputError("--hosts", topology.hosts, f"must divide the {topology.devices} devices")
    if topology.hosts > 1 and not topology.is_gpu:
        raise InputError("--hosts", topology.hosts, "the CPU target is this machine; use 1")
    if topology.is_gpu:
        _check_wheels(topology.target)
    jax.config.update("jax_platforms", "cpu")  # Otherwise the plugin for GPUs would look for a driver.
    if topology.is_gpu:
        jax.config.update("jax_enable_compilation_cache", False)  # A program from the cache reports no kernels.
    else:
        _provide_cpu_devices(topology.devices)


def _check_wheels(target: str) -> None:
    missing = [name for name in _WHEELS if not _is_installed(name)]
    if missing:
        raise InputError("--target", target, f"needs the compiler for GPUs ({missing[0]} is missing): {_INSTALL} ...")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _provide_cpu_devices(count: int) -> None:
    with contextlib.suppress(RuntimeError):  # They have been made; what counts is how many.
        jax.config.update("jax_num_cpu_devices", count)
    if jax.device_count("cpu") < count:
        raise InputError("--devices", count, f"this process has {jax.device_count('cpu')} CPU devices already")


@contextlib.contextmanager
def planned_mesh(topology: Topology, shape: tuple[int, int]) -> Generator[Mesh]:
    """The mesh of a run on these devices; inside, kernels are chosen and lowered for them.

    Args:
        topology: the devices.
        shape: `trainer.mesh` of the configuration.
    Raises:
        InputError: the devices do not fill the shape exactly.
    """
    sizes = mesh_sizes(shape, topology.devices)
    devices = _devices(topology) if topology.is_gpu else jax.devices("cpu")[: topology.devices]
    mesh = Mesh(np.asarray(devices).reshape(sizes), AXES, axis_types=(AxisType.Auto,) * len(AXES))
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        yield mesh


@functools.cache
def _devices(topology: Topology) -> tuple[jax.Device, ...]:
    """Made once: programs for one set of compile-only devices cannot meet arrays of another."""
    return tuple(compile_only_devices(topology.target, (topology.hosts, topology.devices // topology.hosts)))
