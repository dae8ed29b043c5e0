"""Compile-only NVIDIA devices: a mesh to build for, without a GPU, a driver or a CUDA installation.

Needs the wheels `jax-cuda12-pjrt`, `jax-cuda12-plugin` (Mosaic only) and `nvidia-cuda-nvcc-cu12` of JAX's own version,
and a process whose JAX runs on the CPU (`jax_platforms="cpu"`, set before the first device is asked for: otherwise the
CUDA plugin looks for a driver).
"""

import contextlib
import math
from collections.abc import Generator
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh


class Gpu(NamedTuple):
    """What the compiler asks about a GPU. Vendor's data sheets; sizes in bytes, bandwidth in bytes a second."""

    kind: str
    capability: tuple[int, int]
    cores: int
    fpus_per_core: int
    clock_ghz: float
    bandwidth: int
    memory: int
    l2_cache: int
    shared_memory_per_core: int
    shared_memory_per_block: int


GPUS = {
    "h100": Gpu(
        "NVIDIA H100 80GB HBM3", (9, 0), 132, 128, 1.98, 3_352_320_000_000, 80 << 30, 50 << 20, 233_472, 232_448
    ),
    "h200": Gpu("NVIDIA H200", (9, 0), 132, 128, 1.98, 4_800_000_000_000, 141 << 30, 50 << 20, 233_472, 232_448),
    "a100": Gpu(
        "NVIDIA A100-SXM4-80GB", (8, 0), 108, 64, 1.41, 2_039_000_000_000, 80 << 30, 40 << 20, 167_936, 166_912
    ),
}

_TARGET_CONFIG = """
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_block_optin: {gpu.shared_memory_per_block}
  shared_memory_per_core: {gpu.shared_memory_per_core}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  core_count: {gpu.cores} fpus_per_core: {gpu.fpus_per_core} clock_rate_ghz: {gpu.clock_ghz}
  memory_bandwidth: {gpu.bandwidth} device_memory_size: {gpu.memory} l2_cache_size: {gpu.l2_cache}
  cuda_compute_capability {{ major: {gpu.capability[0]} minor: {gpu.capability[1]} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 7 }}
runtime_version {{ major: 12 minor: 8 patch: 0 }}
device_description_str: "{gpu.kind}"
"""


def compile_only_devices(gpu: str, hosts_by_devices: tuple[int, int] = (1, 1)) -> list[jax.Device]:
    """Devices of the named GPU (a key of `GPUS`), as many as the product of hosts and devices a host."""
    hosts, devices = hosts_by_devices
    description = topologies.get_topology_desc(
        "", "cuda", topology=f"1x{hosts}x{devices}", target_config=_TARGET_CONFIG.format(gpu=GPUS[gpu])
    )
    return list(description.devices)


@contextlib.contextmanager
def deviceless(
    gpu: str, *, axes: tuple[str, ...] = ("data",), shape: tuple[int, ...] = (1,), hosts: int = 1
) -> Generator[Mesh]:
    """A mesh of compile-only devices, inside which Pallas lowers for that GPU and kernels are chosen for it."""
    devices = compile_only_devices(gpu, (hosts, math.prod(shape) // hosts))
    mesh = Mesh(np.asarray(devices).reshape(shape), axes)
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        yield mesh
