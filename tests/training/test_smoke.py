"""Two updates of every program on two processes of two devices, in bfloat16 with rematerialised layers."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.training.processes import Processes
from tests.training.smoke import MIXED, STRICT, write_store
from wam_jax.sequence import Objective
from wam_jax.sequence.programs import PROGRAMS

DRAWS = 8


def objectives(case: str) -> set[str]:
    """What a case trains: all of the mixed one, of others one."""
    program = case.removeprefix("strict ")
    fixed = PROGRAMS[program].fixed_objective
    return {o.label for o in Objective} if program == MIXED else {(fixed or Objective.JOINT).label}


def check(shortest: int, longest: int, directory: Path) -> None:
    write_store(directory, longest)
    with Processes(str(shortest), str(longest), directory, module="tests.training.smoke") as both:
        ended = both.finish(timeout=580)
    assert [code for code, _ in ended] == [0, 0], ended
    rows, others = (json.loads((directory / f"{process}.json").read_text()) for process in (0, 1))
    assert rows == others
    assert rows.keys() == {*PROGRAMS, *(f"strict {program}" for program in STRICT)}
    for case, updates in rows.items():
        assert all(np.isfinite(row["loss"]) and row["loss"] > 0 for row in updates)
        counts = {name.removesuffix("/count"): sum(row[name] for row in updates) for name in updates[0] if "/" in name}
        assert sum(counts.values()) == 2 * DRAWS
        assert {label for label, count in counts.items() if count} == objectives(case)


def test_nine_to_seventeen_frames(tmp_path: Path) -> None:
    check(9, 17, tmp_path)


@pytest.mark.slow
@pytest.mark.long
def test_thirty_three_to_sixty_nine_frames(tmp_path: Path) -> None:
    check(33, 69, tmp_path)
