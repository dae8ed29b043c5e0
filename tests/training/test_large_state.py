"""A sharded state is saved and restored by each process in its own shards, with little memory beyond them."""

import json
from pathlib import Path

import pytest

from tests.training.processes import Processes

COUNT, NUMBERS = 4, 12 * 1024 * 24416
SLACK = 200 * 2**20


@pytest.mark.slow
@pytest.mark.long
def test_no_process_takes_more_than_one_copy_of_its_own_shards(tmp_path: Path) -> None:
    arguments = (tmp_path, str(NUMBERS))
    with Processes(*arguments, count=COUNT, devices=1, module="tests.training.large_state") as all_of_them:
        ended = all_of_them.finish(timeout=900)
    assert [code for code, _ in ended] == [0] * COUNT, ended
    for process in range(COUNT):
        found = json.loads((tmp_path / f"{process}.json").read_text())
        print(f"process {process}: {found}")  # The figures, with `pytest -s`.
        assert "None, None, 'fsdp'" in found["sharding"]
        assert found["live"] == pytest.approx(3 * 4 * NUMBERS / COUNT, rel=0.01)
        assert found["restored_sums"] == found["sums"]
        assert found["saving"] < found["live"] + SLACK
        assert found["restoring"] < 2 * found["live"] + SLACK
