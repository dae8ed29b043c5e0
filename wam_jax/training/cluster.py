"""The processes of a run: how they find each other, who speaks for them, how they end together.

A process alone needs nothing of this. Several are one run when the environment says so, as `jax.distributed` reads it:

    plain        JAX_COORDINATOR_ADDRESS (host:port of process 0), JAX_NUM_PROCESSES and JAX_PROCESS_ID
    SLURM        tasks of one `srun` step
    Open MPI     ranks of one `mpirun`
    Kubernetes   pods of an indexed Job or a JobSet, where the package `kubernetes` is installed

A process that fails says so to the others, which print its message and end as well, with its exit code; one that is
killed is missed after the heartbeat. Either way no process waits for one that is gone.
"""

import importlib.util
import os
import socket
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from wam_jax.cli import outcome
from wam_jax.errors import InputError

ADDRESS, COUNT, ID = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
_SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
_OPEN_MPI = "OMPI_COMM_WORLD_SIZE"
_KUBERNETES = ("KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX")

_FAILURE, _END = "wam_jax/failure", "wam_jax/end"
_POLL_SECONDS = 1.0
_END_SECONDS = 600
_PARTING_SECONDS = 30


def find_cluster(environment: Mapping[str, str]) -> dict[str, Any] | None:
    """What to give `jax.distributed.initialize`, or None for a process alone.

    Raises:
        InputError: the environment says half of it.
    """
    if COUNT in environment or ID in environment:
        return _plain(environment)
    if ADDRESS in environment:
        _check_address(environment[ADDRESS])  # JAX takes it from here, whatever says the rest.
    if all(name in environment for name in _SLURM):
        return {} if _whole_number(environment, "SLURM_NTASKS") > 1 else None
    if _OPEN_MPI in environment:
        return {} if _whole_number(environment, _OPEN_MPI) > 1 else None
    if all(name in environment for name in _KUBERNETES):
        if importlib.util.find_spec("kubernetes"):
            return {}
        remedy = f"a pod of an indexed job: set {ADDRESS}, {COUNT} and {ID}, or {COUNT}=1 for a run of its own"
        raise InputError(_KUBERNETES[1], environment[_KUBERNETES[1]], remedy)
    if ADDRESS in environment:
        raise InputError(ADDRESS, environment[ADDRESS], f"goes with {COUNT} and {ID}; set all three, or none of them")
    return None


def _plain(environment: Mapping[str, str]) -> dict[str, Any] | None:
    count = _whole_number(environment, COUNT)
    if count < 1:
        raise InputError(COUNT, count, "must be at least 1")
    if count == 1:
        return None
    process = _whole_number(environment, ID)
    if not 0 <= process < count:
        raise InputError(ID, process, f"must be at least 0 and below {COUNT} {count}")
    _check_address(environment.get(ADDRESS))
    return {
        "coordinator_address": environment[ADDRESS],
        "num_processes": count,
        "process_id": process,
        "cluster_detection_method": "deactivate",
    }


def _check_address(address: str | None) -> None:
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InputError(ADDRESS, address, "must be host:port of process 0, such as node1:8476")


def _check_unused(address: str) -> None:
    """JAX would end this process by a fault in native code."""
    port = int(address.rpartition(":")[2])
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        remedy = f"process 0 cannot listen at this port ({reason}); choose another one for all processes"
        raise InputError(ADDRESS, address, remedy) from error


def _whole_number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        raise InputError(name, environment.get(name), "must be a whole number") from None


@contextmanager
def connected(*, heartbeat_seconds: int) -> Generator[None]:
    """The time in which the processes of a run work together; nothing for a process alone.

    Whatever is raised inside ends the process here, after the others have been told.

    Args:
        heartbeat_seconds: after so long without a sign of life a process counts as dead, and the others end.
    """
    found = find_cluster(os.environ)
    if found is None:
        yield
        return
    # A process that is asked to stop is noticed by the training loop (`wam_jax.training.interrupt`).
    jax.config.update("jax_enable_preemption_service", False)
    _initialize(heartbeat_seconds=heartbeat_seconds, **found)
    client = ocp.multihost.get_jax_distributed_client()
    with _FailureWatch(client):
        yield
        client.wait_at_barrier(_END, _END_SECONDS * 1000)  # Process 0 still draws the report, and may yet fail.
    jax.distributed.shutdown()


def _initialize(*, heartbeat_seconds: int, **found: Any) -> None:
    """Connects; a process that JAX cannot reach in five minutes ends in native code, with what that prints.

    Raises:
        InputError: JAX or this host says at once that it cannot be.
    """
    if found.get("process_id") == 0:
        _check_unused(found["coordinator_address"])
    try:
        jax.distributed.initialize(
            **found, heartbeat_timeout_seconds=heartbeat_seconds, shutdown_timeout_seconds=_PARTING_SECONDS
        )
    except (RuntimeError, ValueError) as error:
        remedy = (
            f"the processes do not find each other ({type(error).__name__}: {error}); all of them have to be started, "
            "and to reach process 0 at this address and port, which nothing else may use"
        )
        raise InputError(ADDRESS, os.environ.get(ADDRESS, "as the scheduler gives it"), remedy) from error


class _FailureWatch:
    """Ends this process when another one fails, and the others when this one does."""

    def __init__(self, client: Any) -> None:
        self._client, self._over = client, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._over.set()
        self._thread.join()
        if error is not None:
            self._fail(error)

    def _watch(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            self._leave_with_others()

    def _leave_with_others(self) -> None:
        try:
            message = self._client.key_value_try_get(_FAILURE)
        except jax.errors.JaxRuntimeError:  # Nobody failed; or process 0 is gone, which the heartbeat notices.
            return
        code, _, line = message.partition(" ")
        _leave(f"error: {line}", int(code))

    def _fail(self, error: BaseException) -> None:
        """Ends at once: waiting for the others, as Python would on its way out, is waiting for who waits for this."""
        self._leave_with_others()  # Then this failure, a broken connection perhaps, is only what follows from theirs.
        said, code = outcome(error) or ("".join(traceback.format_exception(error)), 1)
        line = " ".join(f"process {jax.process_index()}: {type(error).__name__}: {error}".split())
        with suppress(jax.errors.JaxRuntimeError):  # Another one failed first, or process 0 is gone.
            self._client.key_value_set(_FAILURE, f"{code} {line}")
        _leave(said, code)


def _leave(said: str, code: int) -> None:
    sys.stdout.flush()
    print(said, file=sys.stderr, flush=True)
    # The others have to learn why before their connections break; and all of them learn it through process 0.
    time.sleep((2 if is_main() else 1) * _POLL_SECONDS)
    os._exit(code)


def is_main() -> bool:
    """Whether this process writes and speaks for all."""
    return jax.process_index() == 0


def say(line: str) -> None:
    """One line to the user, beside the progress bar; from one process."""
    if is_main():
        print(line, file=sys.stderr, flush=True)


def meet(place: str) -> None:
    """Returns when all processes are here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(place)


def check_alike(facts: Mapping[str, str]) -> None:
    """Refuses to go on where processes were started differently, or see different data.

    Args:
        facts: what has to be the same on all, by the name of what gives it.
    Raises:
        InputError: on every process, naming the first that is not.
    """
    sums = np.array([zlib.crc32(fact.encode()) for fact in facts.values()], np.uint32)
    everywhere = multihost_utils.process_allgather(sums).reshape(-1, len(sums))
    for (name, fact), column in zip(facts.items(), everywhere.T, strict=True):
        others = np.flatnonzero(column != column[0])
        if len(others):
            remedy = f"process {others[0]} has another one than process 0; give all of them the same"
            raise InputError(name, fact, remedy)
