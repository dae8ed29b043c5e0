"""The table of cases notices every planted fault, in every backend that has the line; and races are found."""

import os
import subprocess
import sys

import pytest

from tests.kernels.faults import FAULTS, Fault, plant, planted

SUBTLE = (1, 0, 2, 3)
"""The cases that tell faults apart, the quickest first: full and asymmetric, random, invalid keys, empty rows."""

LINES = [(name, fault) for name, faults in FAULTS.items() for fault in faults]


def caught(name, fault, folder):
    """Whether a case fails (a result off by more than is allowed; an exception is no proof of a good table)."""
    dtype = "bfloat16" if name == "pallas_mosaic" else "float32"
    with planted(fault, folder) as (cases, backends):
        for number in SUBTLE:
            case = cases.CASES[number]
            if max(cases.errors(case, dtype, backends.backend(name, case.tile)).values()) > 1:
                return True
    return False


def test_there_are_enough_faults():
    assert min(len(faults) for faults in FAULTS.values()) >= 12


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault"), LINES, ids=lambda x: x if isinstance(x, str) else x.name)
def test_a_planted_fault_is_caught(name, fault, tmp_path):
    assert caught(name, fault, tmp_path)


@pytest.mark.parametrize("fault", FAULTS["xla"][:4], ids=lambda fault: fault.name)
def test_a_few_faults_are_caught_every_time(fault, tmp_path):
    assert caught("xla", fault, tmp_path)


RACES = [
    Fault(
        "slot overwritten before it is free", "mosaic_kernels.py", "plgpu.barrier_wait(stream.free.at[slot])", "pass"
    ),
    Fault("keys read before they arrive", "mosaic_kernels.py", "plgpu.barrier_wait(keys.ready.at[slot])", "pass"),
    Fault("values read before they arrive", "mosaic_kernels.py", "plgpu.barrier_wait(values.ready.at[slot])", "pass"),
    Fault("queries read before they arrive", "mosaic_kernels.py", "plgpu.barrier_wait(queries.ready.at[slot])", "pass"),
    Fault(
        "own queries read before they arrive",
        "mosaic_kernels.py",
        "plgpu.barrier_wait(q_ready.at[place.worker])",
        "pass",
    ),
    Fault("own keys read before they arrive", "mosaic_kernels.py", "plgpu.barrier_wait(ready)", "pass"),
    Fault("result copied before it is written", "mosaic_kernels.py", "plgpu.commit_smem()", "pass"),
]

PROGRAM = """
from tests.kernels.backends import backend
from tests.kernels.cases import CASES, errors
case = CASES[1]
print(errors(case, "bfloat16", backend("pallas_mosaic", case.tile, detect_races=True)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", RACES, ids=lambda fault: fault.name)
def test_a_missing_wait_is_found(fault, tmp_path):
    plant(fault, tmp_path)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode != 0
    assert "RACE DETECTED" in done.stderr
