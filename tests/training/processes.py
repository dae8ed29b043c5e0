"""The command as several processes of one run on this machine, two simulated devices each, over gloo."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from wam_jax.training.cluster import ADDRESS, COUNT, ID

_FLAGS = "--xla_force_host_platform_device_count={} --xla_backend_optimization_level=0"


def simulated(devices: int) -> dict[str, str]:
    """The environment of a process with that many CPU devices."""
    return os.environ | {"XLA_FLAGS": _FLAGS.format(devices), "JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1"}


def plain(address: str, count: int, process: int) -> dict[str, str]:
    """How a process finds the others by the plain variables."""
    return {ADDRESS: address, COUNT: str(count), ID: str(process)}


def slurm(address: str, count: int, process: int) -> dict[str, str]:
    """How a task of an `srun` step on this host finds the others."""
    host, _, port = address.partition(":")
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": host, "SLURM_NTASKS": str(count)}
    own = {"SLURM_PROCID": str(process), "SLURM_LOCALID": str(process), "SLURM_STEP_NUM_NODES": "1"}
    return step | own | {"JAX_COORDINATOR_PORT": port}


class Processes:
    """Processes that run a module together; leaving the context kills what is left of them."""

    def __init__(
        self,
        *arguments: str | Path,
        count: int = 2,
        devices: int = 2,
        module: str = "wam_jax.train",
        found_by: Callable[[str, int, int], dict[str, str]] = plain,
        own: Callable[[int], tuple[str | Path, ...]] = lambda _: (),
    ) -> None:
        address = f"localhost:{_free_port()}"
        self.members = [
            subprocess.Popen(
                [sys.executable, "-m", module, *map(str, (*arguments, *own(process)))],
                env=simulated(devices) | found_by(address, count, process),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for process in range(count)
        ]

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()
            member.communicate()

    def finish(self, *, timeout: float = 300) -> list[tuple[int, str]]:
        """Exit codes and what was said on standard error, when all have ended."""
        said = [member.communicate(timeout=timeout)[1] for member in self.members]
        return [(member.returncode, text) for member, text in zip(self.members, said, strict=True)]


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
