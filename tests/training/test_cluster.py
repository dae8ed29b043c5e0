"""How a process finds the others, and what it refuses to start with."""

from typing import Any

import numpy as np
import pytest

from tests.training.processes import plain, slurm
from wam_jax.errors import InputError
from wam_jax.training import cluster
from wam_jax.training.cluster import check_alike, find_cluster

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3"}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"JAX_NUM_PROCESSES": "1"},
        slurm("node1:1234", 1, 0),
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"},  # Inside of `sbatch`, but of no step.
        {"OMPI_COMM_WORLD_SIZE": "1"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        POD | {"JAX_NUM_PROCESSES": "1"},
    ],
)
def test_a_process_alone_connects_to_nobody(environment: dict[str, str]) -> None:
    assert find_cluster(environment) is None


def test_plain_variables_say_it_all() -> None:
    found = find_cluster(POD | plain("host:1234", 4, 3))
    assert found == {
        "coordinator_address": "host:1234",
        "num_processes": 4,
        "process_id": 3,
        "cluster_detection_method": "deactivate",
    }


@pytest.mark.parametrize("environment", [slurm("node1:1234", 2, 1), {"OMPI_COMM_WORLD_SIZE": "2"}])
def test_schedulers_are_left_to_jax(environment: dict[str, str]) -> None:
    assert find_cluster(environment) == {}


@pytest.mark.parametrize("installed", [True, False])
def test_a_pod_of_an_indexed_job_needs_the_package_or_the_variables(
    monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda _: "found" if installed else None)
    if installed:
        assert find_cluster(POD) == {}
    else:
        with pytest.raises(InputError, match="JOB_COMPLETION_INDEX = '3': a pod of an indexed job: set JAX_COOR"):
            find_cluster(POD)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"JAX_PROCESS_ID": "4"}, r"JAX_PROCESS_ID = 4: must be at least 0 and below JAX_NUM_PROCESSES 4"),
        ({"JAX_PROCESS_ID": "one"}, r"JAX_PROCESS_ID = 'one': must be a whole number"),
        ({"JAX_NUM_PROCESSES": ""}, r"JAX_NUM_PROCESSES = '': must be a whole number"),
        ({"JAX_COORDINATOR_ADDRESS": ""}, r"JAX_COORDINATOR_ADDRESS = '': must be host:port of process 0"),
    ],
)
def test_half_a_description_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_cluster(plain("host:1234", 4, 3) | changes)


def test_processes_that_were_started_differently_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(own: Any) -> Any:
        other = own.copy()
        other[1] += 1
        return np.stack([own, own, other])

    check_alike({"--config": "a", "--workdir": "b"})
    monkeypatch.setattr(cluster.multihost_utils, "process_allgather", gather)
    with pytest.raises(InputError, match="--workdir = 'b': process 2 was started with another one than process 0"):
        check_alike({"--config": "a", "--workdir": "b"})
