"""Two processes of two devices each are one run: the same numbers, stopped, killed and resumed together.

Parameters are split over all four devices, so that gathering and summing them crosses the boundary of processes.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.commands import make_experiment, numbers
from tests.training.processes import Processes, simulated, slurm
from wam_jax.training.locate import CHECKPOINTS, durable_steps
from wam_jax.training.metrics import Row

HEARTBEAT = 10
MESH = ("--config.trainer.mesh=(1,4)", f"--config.trainer.heartbeat_seconds={HEARTBEAT}", "--expected-world-size=4")
FAILING = "tests.training.failing_command"
UPDATES = 8


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_experiment(tmp_path_factory.mktemp("experiment"))


def check_alike(found: list[Row], expected: list[Row]) -> None:
    assert [(row["phase"], row["step"]) for row in found] == [(row["phase"], row["step"]) for row in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        values = [[row[name] for name in row if name != "phase"] for row in (one, other)]
        np.testing.assert_allclose(*values, rtol=2e-5)


def uninterrupted(config: Path, workdir: Path) -> list[Row]:
    """Rows of the same run by one process of four devices."""
    words = [sys.executable, "-m", "wam_jax.train", "--config", str(config), "--workdir", str(workdir), *MESH]
    done = subprocess.run(words, env=simulated(4), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return numbers(workdir)


def start(config: Path, *arguments: str | Path, trap: tuple[str, ...] = (), **options: Any) -> Processes:
    module = FAILING if trap else "wam_jax.train"
    return Processes(*trap, "--config", config, *MESH, *arguments, module=module, **options)


def test_a_run_of_two_processes_is_killed_stopped_and_ends_as_that_of_one(config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with start(config, "--workdir", run, trap=("1", "kill", "4")) as both:
        assert both.members[1].wait(300) == -9
        killed = time.monotonic()
        assert both.members[0].wait(HEARTBEAT + 30) != 0
        assert time.monotonic() - killed < HEARTBEAT + 30
    kept = durable_steps(run / CHECKPOINTS)[-1]
    assert kept in (0, 3)  # The one of step 3 is written while updates go on; it counts when it is complete.
    with start(config, "--resume-from", run, trap=("1", "term", "1")) as both:
        (code, said), (other, quiet) = both.finish()
        assert (code, other) == (0, 0), said + quiet
    stopped = durable_steps(run / CHECKPOINTS)[-1]
    assert kept < stopped < UPDATES
    assert f"stopped at step {stopped} and saved; go on by --resume-from {run}" in said
    assert "saved" not in quiet
    with start(config, "--resume-from", run, found_by=slurm) as both:
        assert [code for code, _ in both.finish()] == [0, 0]
    check_alike(numbers(run), uninterrupted(config, tmp_path / "alone"))
    assert (run / "report.json").exists()


def test_what_one_process_cannot_do_ends_the_others_with_its_message(config: Path, tmp_path: Path) -> None:
    with start(config, "--workdir", tmp_path / "run", trap=("1", "raise", "0")) as both:
        (code, said), (failed, own) = both.finish()
    assert (code, failed) == (2, 2)
    assert own.endswith("error: data.store = 'shard-3': cannot be read from this host\n")
    assert "error: process 1: InputError: data.store = 'shard-3': cannot be read from this host\n" in said


def test_what_fails_after_the_others_are_done_ends_them_with_its_message() -> None:
    with Processes(module="tests.training.failing_late") as both:
        ended = both.finish(timeout=60)
    message = "report.json = '/full': cannot be written\n"
    assert [code for code, _ in ended] == [2, 2]
    assert ended[0][1].endswith(f"error: {message}")
    assert ended[1][1].endswith(f"error: process 0: InputError: {message}")


@pytest.mark.slow
@pytest.mark.parametrize("process", ["0", "1"])
def test_a_defect_in_one_process_ends_the_others_with_its_message(config: Path, tmp_path: Path, process: str) -> None:
    with start(config, "--workdir", tmp_path / "run", trap=(process, "raise", "2")) as both:
        ended = both.finish()
    assert [code for code, _ in ended] == [1, 1]
    assert "RuntimeError: the disk is on fire" in ended[int(process)][1]
    assert f"process {process}: RuntimeError: the disk is on fire" in ended[1 - int(process)][1]


@pytest.mark.slow
def test_the_main_process_is_missed_too(config: Path, tmp_path: Path) -> None:
    with start(config, "--workdir", tmp_path / "run", trap=("0", "kill", "2")) as both:
        assert both.members[0].wait(300) == -9
        assert both.members[1].wait(HEARTBEAT + 30) != 0


def test_processes_that_were_started_differently_refuse(config: Path, tmp_path: Path) -> None:
    with start(config, own=lambda process: ("--workdir", tmp_path / str(process))) as both:
        ended = both.finish()
    assert [code for code, _ in ended] == [2, 2]
    assert "process 1 has another one than process 0" in ended[0][1]
    assert not list(tmp_path.iterdir())
