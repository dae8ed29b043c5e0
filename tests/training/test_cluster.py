"""How a process finds the others, and what it refuses to start with."""

import dataclasses
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.runs import tiny_config
from tests.training.processes import plain, slurm
from wam_jax.errors import InputError
from wam_jax.training import cluster
from wam_jax.training.cluster import check_alike, find_cluster
from wam_jax.training.locate import CheckpointRef
from wam_jax.training.run import given_to_all
from wam_jax.training.start import Start

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3"}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"JAX_NUM_PROCESSES": "1"},
        {"JAX_NUM_PROCESSES": "1", "JAX_COORDINATOR_ADDRESS": "host:1234"},
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
        ({"JAX_NUM_PROCESSES": "0"}, r"JAX_NUM_PROCESSES = 0: must be at least 1"),
        ({"JAX_NUM_PROCESSES": "-4"}, r"JAX_NUM_PROCESSES = -4: must be at least 1"),
        *(
            ({"JAX_COORDINATOR_ADDRESS": address}, f"JAX_COORDINATOR_ADDRESS = '{address}': must be host:port")
            for address in ("", "host", "host:", ":1234", "host:port", "host:0", "host:65536")
        ),
    ],
)
def test_half_a_description_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_cluster(plain("host:1234", 4, 3) | changes)


@pytest.mark.parametrize("left", plain("host:1234", 4, 3).items())
def test_one_of_the_three_variables_is_no_description(left: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="JAX_"):
        find_cluster(dict([left]))


@pytest.mark.parametrize("missing", plain("host:1234", 4, 3))
def test_two_of_the_three_variables_are_none(missing: str) -> None:
    with pytest.raises(InputError, match=missing):
        find_cluster({name: value for name, value in plain("host:1234", 4, 3).items() if name != missing})


def test_an_address_that_a_scheduler_leaves_to_jax_is_checked_too() -> None:
    step = slurm("node1:1234", 2, 1)
    assert find_cluster(step | {"JAX_COORDINATOR_ADDRESS": "[::1]:1234"}) == {}
    with pytest.raises(InputError, match="must be host:port"):
        find_cluster(step | {"JAX_COORDINATOR_ADDRESS": "node1"})


@pytest.mark.parametrize("defect", [RuntimeError("DEADLINE_EXCEEDED"), ValueError("address in use")])
def test_processes_that_do_not_meet_say_where(monkeypatch: pytest.MonkeyPatch, defect: Exception) -> None:
    def fail(**_: Any) -> None:
        raise defect

    for name, value in plain("host:1234", 4, 3).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cluster.jax.distributed, "initialize", fail)
    monkeypatch.setattr(cluster.jax.config, "update", lambda *_: None)
    message = f"JAX_COORDINATOR_ADDRESS = 'host:1234': the processes do not find each other .*{defect}"
    with pytest.raises(InputError, match=message), cluster.connected(heartbeat_seconds=10):
        pass


def test_a_port_that_is_taken_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        for name, value in plain(address, 2, 0).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(cluster.jax.config, "update", lambda *_: None)
        message = f"JAX_COORDINATOR_ADDRESS = '{address}': process 0 cannot listen at this port"
        with pytest.raises(InputError, match=message), cluster.connected(heartbeat_seconds=10):
            pass


def test_processes_that_were_started_differently_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(own: Any) -> Any:
        other = own.copy()
        other[1] += 1
        return np.stack([own, own, other])

    check_alike({"--config": "a", "--workdir": "b"})
    monkeypatch.setattr(cluster.multihost_utils, "process_allgather", gather)
    with pytest.raises(InputError, match="--workdir = 'b': process 2 has another one than process 0"):
        check_alike({"--config": "a", "--workdir": "b"})


def test_all_that_plans_are_made_from_is_compared() -> None:
    ref = CheckpointRef(Path("/r/checkpoints"), 4, "--resume-from")
    start, store = Start(Path("/r"), "id", ref, None, None), SimpleNamespace(fingerprint="abc")
    given: dict[str, Any] = {"config": tiny_config(), "start": start, "store": store}
    changes: dict[str, dict[str, Any]] = {
        "--config": {"config": tiny_config(seed=1)},
        "--workdir": {"start": dataclasses.replace(start, workdir=Path("/s"))},
        "the checkpoint to start from": {
            "start": dataclasses.replace(start, resume=dataclasses.replace(ref, step=8)),
        },
        "--new-data-phase": {"start": dataclasses.replace(start, new_data_phase=True)},
        "data.store": {"store": SimpleNamespace(fingerprint="abd")},
    }
    alike = given_to_all(**given)
    assert alike.keys() == changes.keys()
    for name, change in changes.items():
        assert {fact for fact, value in given_to_all(**given | change).items() if value != alike[fact]} == {name}
