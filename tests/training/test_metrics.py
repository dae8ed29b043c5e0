"""Rows are whole, in order, and taken back as a whole."""

import json
from pathlib import Path

import pytest

from wam_jax.errors import InputError
from wam_jax.training.metrics import MetricsFile, read_rows, truncate_rows


def write(path: Path, *rows: dict) -> Path:
    file = MetricsFile(path)
    for row in rows:
        file.write(row)
    file.sync()
    file.close()
    return path


def row(step: int, phase: str = "train", **values: float | None) -> dict:
    return {"phase": phase, "step": step, **values}


def test_rows_come_back_exactly_and_in_order(tmp_path: Path) -> None:
    rows = [row(0, "val", loss=0.1 + 0.2), row(1, loss=1e-30), row(2, loss=3.0)]
    path = write(tmp_path / "m", *rows[:2])
    assert read_rows(write(path, rows[2])) == rows


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    path = write(tmp_path / "m", row(1, loss=float("nan"), grad_norm=float("inf")))
    assert json.loads(path.read_text(), parse_constant=pytest.fail) == row(1, loss=None, grad_norm=None)


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "m", row(1), row(2))
    path.write_text(path.read_text() + '{"phase": "tra')
    assert read_rows(path) == [row(1), row(2)]


def test_rows_beyond_a_step_are_taken_back(tmp_path: Path) -> None:
    path = write(tmp_path / "m", row(0, "val"), row(1), row(2), row(2, "val"), row(3))
    assert truncate_rows(path, step=2) == [row(0, "val"), row(1), row(2), row(2, "val")]
    assert read_rows(path) == [row(0, "val"), row(1), row(2), row(2, "val")]
    assert truncate_rows(path, step=-1) == read_rows(path) == []


def test_a_missing_file_has_no_rows(tmp_path: Path) -> None:
    assert truncate_rows(tmp_path / "none", step=3) == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("line", [b"nonsense", b"[]", b'{"phase": "train"}', b"\xff\xfe"])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: bytes) -> None:
    path = write(tmp_path / "m", row(1))
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match=r"m:2 = .*is no metrics row"):
        read_rows(path)
