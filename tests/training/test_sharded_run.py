"""The same samples on one device, on eight, with the parameters whole and split."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


def run(data: int, fsdp: int, directory: Path) -> dict:
    words = [sys.executable, "-m", "tests.training.sharded_run", str(data), str(fsdp), str(directory)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ), timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_run_is_the_same_on_every_mesh(tmp_path: Path) -> None:
    alone = run(1, 1, tmp_path / "alone")
    assert alone["held"] == [[2, 4, 4]]
    for data, fsdp, held in ((8, 1, [2, 4, 4]), (2, 4, [2, 1, 4]), (2, 2, [2, 2, 4])):
        spread = run(data, fsdp, tmp_path / f"{data}x{fsdp}")
        assert spread["held"] == [held]
        np.testing.assert_allclose(spread["rows"], alone["rows"], rtol=1e-5)
