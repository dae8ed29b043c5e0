"""Whenever a process is killed while it writes a checkpoint, the newest durable one is whole."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.training.killed_save import abstract_of, state_of
from tests.training.processes import simulated
from wam_jax.training.checkpoint import restore_state
from wam_jax.training.locate import CHECKPOINTS, find_checkpoint, unfinished


def kill_at(seconds: float, directory: Path) -> None:
    """Kills so long after an asynchronous save has begun."""
    words = [sys.executable, "-m", "tests.training.killed_save", str(directory)]
    with subprocess.Popen(words, env=simulated(1), stdout=subprocess.PIPE, text=True) as saving:
        assert saving.stdout
        assert saving.stdout.readline() == "1\n"
        time.sleep(seconds)
        saving.kill()


@pytest.mark.slow
def test_twenty_kills_leave_twenty_whole_checkpoints(tmp_path: Path) -> None:
    abstract, cut_short, moments = abstract_of(state_of(0)), 0, random.SystemRandom()
    for number in range(20):
        run = tmp_path / str(number)
        kill_at(moments.uniform(0, 0.3), run / CHECKPOINTS)
        ref = find_checkpoint(str(run), flag="--resume-from")
        np.testing.assert_array_equal(restore_state(ref, abstract).params["kernel"], ref.step)
        cut_short += bool(unfinished(ref.directory))
    assert cut_short  # Some of the moments were inside of a write.
