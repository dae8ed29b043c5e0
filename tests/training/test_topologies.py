"""The same draws give the same losses on every mesh, and a run goes on on another one as if it had not been moved."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.processes import simulated
from tests.training.topologies import LENGTHS, SAVED, SAVED_AFTER, TOPOLOGIES, UPDATES, WHOLE


def run(directory: Path, modes: str, *names: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "tests.training.topologies", modes, str(directory), *names]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=simulated(8), timeout=580)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_alike(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [row["draws"] for row in found] == [row["draws"] for row in expected]
    for name in ("loss", "grad_norm"):
        np.testing.assert_allclose([row[name] for row in found], [row[name] for row in expected], rtol=1e-5)


def check(results: dict[str, Any]) -> None:
    expected = results["whole"][WHOLE]
    assert len(expected) == UPDATES < len(LENGTHS)
    assert all(len(row["draws"]) == 24 for row in expected)
    for rows in results["whole"].values():
        check_alike(rows, expected)
    for rows in results["resumed"].values():
        check_alike(rows, expected[SAVED_AFTER:])


def check_collectives(found: dict[str, Any]) -> None:
    """Ranks gather weights and scatter gradients over "fsdp"; over "data" nothing is said but once an update."""
    assert found["1"] == {"gradient": {}, "update": {}}
    assert found["8x1"]["gradient"] == {}
    assert found["8x1"]["update"].keys() == found["2x4"]["update"].keys() == {"all_reduce"}
    gradient = found["2x4"]["gradient"]
    assert gradient.keys() == {"all_gather", "reduce_scatter", "all_reduce"}
    assert gradient["reduce_scatter"] < gradient["all_gather"] < 2 * gradient["reduce_scatter"]


def test_packed_updates_on_eight_devices_are_those_of_one(tmp_path: Path) -> None:
    results = run(tmp_path, "packed", WHOLE, "1x8", "2x4", "8x1")
    check(results["packed"])
    check_collectives(results["packed"]["collectives"])


@pytest.mark.slow
def test_a_padded_run_moves_from_four_devices_to_any_other_topology(tmp_path: Path) -> None:
    names = (WHOLE, SAVED, "2x2 in halves", "1x2", "2x4")
    results = run(tmp_path, "padded", *names)["padded"]
    assert set(results["resumed"]) == set(names) - {SAVED}
    check(results)


@pytest.mark.slow
@pytest.mark.long
def test_every_mode_on_every_topology(tmp_path: Path) -> None:
    for results in run(tmp_path, "padded,packed", *TOPOLOGIES).values():
        check(results)
