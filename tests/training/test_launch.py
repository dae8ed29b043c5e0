"""The launcher: the same line starts a run, and goes on with it once there is something to go on from."""

import os
import subprocess
from pathlib import Path

import pytest

LAUNCHER = Path(__file__).parents[2] / "launch" / "local.sh"


def launched(directory: Path, *arguments: str | Path) -> list[str]:
    """The words that would be run: a stand-in for python3 prints them."""
    stand_in = directory / "bin" / "python3"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", LAUNCHER, *arguments], capture_output=True, text=True, check=True, env=os.environ | {"PATH": path}
    )
    return done.stdout.splitlines()


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
