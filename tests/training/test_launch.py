"""The launcher: the same line starts a run, and goes on with it once there is something to go on from."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wam_jax.training.run import NON_FINITE

LAUNCH = Path(__file__).parents[2] / "launch"
LAUNCHER, SLURM, JOBSET = LAUNCH / "local.sh", LAUNCH / "slurm.sbatch", LAUNCH / "jobset.yaml"
POD = {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0", "GPUS_PER_HOST": "8"}
PRINTS = 'printf "%s\\n" "$@"'


def stand_ins(directory: Path, programs: dict[str, str], path: str = os.environ["PATH"]) -> dict[str, str]:
    """An environment whose first programs are these shell scripts."""
    directory.mkdir(parents=True)
    for name, script in programs.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)
    return os.environ | {"PATH": f"{directory}{os.pathsep}{path}"}


def launched(directory: Path, *arguments: str | Path, **variables: str) -> list[str]:
    """The words that would be run: a stand-in for python3 prints them, or what `STAND_IN` says."""
    path = variables.pop("PATH", os.environ["PATH"])
    environment = stand_ins(directory / "bin", {"python3": variables.pop("STAND_IN", PRINTS)}, path) | variables
    done = subprocess.run(["bash", LAUNCHER, *arguments], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines()


def start_script() -> str:
    """What the pods of the JobSet run."""
    found = re.search(r"start.sh: \|\n(.*?)\n---", JOBSET.read_text(), re.DOTALL)
    assert found
    return textwrap.dedent(found[1])


@pytest.mark.parametrize(
    ("left", "resumes"),
    [((), False), (("0.orbax-checkpoint-tmp",), False), (("0",), True), (("40", "60.orbax-checkpoint-tmp"), True)],
)
def test_only_a_complete_checkpoint_is_gone_on_from(tmp_path: Path, *, left: tuple[str, ...], resumes: bool) -> None:
    run = tmp_path / "a run"
    for name in left:
        (run / "checkpoints" / name).mkdir(parents=True)
    words = launched(tmp_path, "c.py", run, "--config.seed=1")
    assert words[-1] == "--config.seed=1"
    assert words[words.index("--workdir") + 1] == str(run)
    assert (["--resume-from", str(run)] == words[-3:-1]) is resumes


@pytest.mark.parametrize("launcher", [LAUNCHER, SLURM, JOBSET], ids=lambda path: path.name)
@pytest.mark.parametrize("restarted", [False, True])
def test_options_of_the_first_start_are_not_given_again(tmp_path: Path, launcher: Path, *, restarted: bool) -> None:
    run = tmp_path / "run"
    (run / "checkpoints" / ("40" if restarted else "40.tmp")).mkdir(parents=True)
    programs = dict.fromkeys(("python3", "python", "srun"), PRINTS) | {"scontrol": ":"}
    first, every = ["--resume-from", "other", "--new-data-phase"], ["--config.seed=1", "--config.name=a"]
    variables = {"START_OPTIONS": " ".join(first), "SLURM_NTASKS": "16", "SLURM_JOB_ID": "7"}
    pod = {"CONFIG": "c.py", "WORKDIR": str(run), "OPTIONS": " ".join(every)} | POD
    environment = stand_ins(tmp_path / "bin", programs) | variables | pod
    words = ["bash", "-c", start_script()] if launcher is JOBSET else ["bash", launcher, "c.py", run, *every]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    said = done.stdout.splitlines()
    assert said[said.index("--resume-from") :] == [*(["--resume-from", str(run)] if restarted else first), *every]


def test_processes_are_told_of_each_other_and_of_their_gpu(tmp_path: Path) -> None:
    says = 'echo "$JAX_PROCESS_ID of $JAX_NUM_PROCESSES at $JAX_COORDINATOR_ADDRESS on ${JAX_LOCAL_DEVICE_IDS-any}"'
    gpus = tmp_path / "gpus"
    gpus.mkdir()
    lists = gpus / "nvidia-smi"
    for listed, device in (("", "any"), ("echo GPU 0; echo GPU 1", "{}")):
        lists.write_text(f"#!/bin/sh\n{listed}\n")
        lists.chmod(0o755)
        path = f"{gpus}{os.pathsep}{os.environ['PATH']}"
        lines = launched(tmp_path / (device + "run"), "c.py", "r", PROCESSES="2", STAND_IN=says, PATH=path)
        address = lines[0].split()[4]
        assert address.startswith("localhost:")
        assert sorted(lines) == [f"{n} of 2 at {address} on {device.format(n)}" for n in (0, 1)]


def test_a_process_that_fails_is_the_exit_code_of_all(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        launched(tmp_path, "c.py", "r", PROCESSES="3", STAND_IN='test "$JAX_PROCESS_ID" = 1 && exit 7; exit 0')
    assert error.value.returncode == 7


COUNTS_SIGNALS = """
import os, pathlib, signal, sys, time

got, run, own = [], pathlib.Path(sys.argv[sys.argv.index("--workdir") + 1]), os.environ["JAX_PROCESS_ID"]
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: got.append(number))
(run / f"up{own}").touch()
while not got:
    time.sleep(0.01)
time.sleep(0.3)
(run / f"got{own}").write_text(str(got))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_signal_to_the_launcher_or_its_group_reaches_all_processes_once(
    tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    stand_in = tmp_path / "python3"
    stand_in.write_text(f"#!{sys.executable}\n{COUNTS_SIGNALS}")
    stand_in.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    # A shell cannot trap what it was started to ignore, as jobs in the background of whoever runs the tests are.
    words = ["env", "--default-signal=INT", "bash", LAUNCHER, "c.py", tmp_path]
    environment = os.environ | {"PATH": path, "PROCESSES": "2"}
    with subprocess.Popen(words, env=environment, start_new_session=True) as launcher:
        while len(list(tmp_path.glob("up*"))) < 2:
            time.sleep(0.02)
        send(launcher.pid, number)
        assert launcher.wait(30) == 0
    assert [(tmp_path / f"got{process}").read_text() for process in (0, 1)] == ["[15]", "[15]"]


@pytest.mark.parametrize("name", ["local.sh", "slurm.sbatch"])
def test_launchers_are_shell_that_parses(name: str) -> None:
    subprocess.run(["bash", "-n", LAUNCHER.with_name(name)], check=True)


def test_the_jobset_says_the_same_number_of_hosts_everywhere() -> None:
    text = JOBSET.read_text()
    (count,) = re.findall(r'JAX_NUM_PROCESSES, value: "(\d+)"', text)
    assert re.findall(r"(?:parallelism|completions): (\d+)", text) == [count] * 2
    subprocess.run(["bash", "-n"], input=start_script(), text=True, check=True)


@pytest.mark.parametrize(
    ("trained", "process", "code"),
    [
        ("exit 3", "0", 3),
        ("exit 2", "1", 2),
        ("exit 0", "0", 75),  # Stopped.
        ("exit 0", "1", 0),
        ('sleep 0.05; touch "$WORKDIR/report.json"', "0", 0),
    ],
)
def test_a_pod_ends_as_its_process_and_the_first_one_asks_for_the_rest(
    tmp_path: Path, trained: str, process: str, code: int
) -> None:
    variables = POD | {"CONFIG": "c.py", "WORKDIR": str(tmp_path), "JAX_PROCESS_ID": process}
    environment = stand_ins(tmp_path / "bin", {"python": trained}) | variables
    assert subprocess.run(["bash", "-c", start_script()], check=False, env=environment).returncode == code


def test_what_another_start_would_meet_again_ends_the_jobset() -> None:
    text = JOBSET.read_text()
    (codes,) = re.findall(r"onExitCodes: .*values: \[(.*)\]", text)
    assert codes == f"2, {NON_FINITE}"
    assert "onJobFailureReasons: [PodFailurePolicy]" in text
