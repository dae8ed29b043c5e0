"""The report: numbers, table and picture of a run."""

import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from wam_jax.training.locate import Json
from wam_jax.training.metrics import Row
from wam_jax.training.plots import draw_report
from wam_jax.training.report import LOSSES, shapes_text, summarise, table, utilisation, write_report
from wam_jax.training.strips import Strip

SHAPES: Json = {
    "rungs": [
        {"samples": 4, "video_frames": 9, "action_frames": 8, "text_keys": 7, "proprio_keys": 0, "calls": 0.75},
        {"samples": 4, "video_frames": 90, "action_frames": 80, "text_keys": 7, "proprio_keys": 3, "calls": 0.25},
    ],
    "expected_utilisation": {"all": 0.875, "video": 0.9},
}
RECORD: Json = {"run_id": "id", "name": "demo", "parameters": {"total": 3}, "launches": [{}, {"shapes": SHAPES}]}


def held_out(step: int, loss: float | None) -> Row:
    zero = {f"zero_{name}": 2.0 for name in LOSSES}
    return {"phase": "val", "step": step, "num_samples": 5, **dict.fromkeys(LOSSES, loss), **zero}


def trained(step: int, seconds: float) -> Row:
    rates = {"data_wait_seconds": 0.0, "real_tokens_per_second": 100 / seconds}
    slots = {
        "video_slots": 100 * step,
        "video_utilisation": 0.5 * step / 3,
        "action_slots": 50,
        "action_utilisation": 1,
    }
    return {"phase": "train", "step": step, **dict.fromkeys(LOSSES, 1.5), "step_seconds": seconds, **rates, **slots}


ROWS = [held_out(0, 3.0), trained(1, 60.0), trained(2, 1.0), trained(3, 2.0), held_out(3, 0.5)]


def test_a_loss_is_compared_with_predicting_zero() -> None:
    report = summarise(ROWS, record=RECORD)
    assert report["validation"]["losses"]["video_loss"] == {"first": 3.0, "last": 0.5, "zero": 2.0, "ratio": 0.25}
    assert (report["validation"]["first_step"], report["validation"]["last_step"]) == (0, 3)
    assert report["train"]["median_step_seconds"] == 2.0
    assert report["train"]["median_real_tokens_per_second"] == 50.0


def test_the_table_shows_it() -> None:
    text = table(summarise(ROWS, record=RECORD))
    assert [line.split() for line in text.splitlines()][1] == ["loss", "3.0000", "0.5000", "2.0000", "0.2500"]
    assert "3 updates logged; median 2.000 s a step" in text
    assert "50 real tokens/s" in text
    assert text.splitlines()[-1] == (
        "token slots that were real: 51% (video 39%, action 100%); expected: 88% (video 90%)"
    )


def test_utilisation_of_a_run_weighs_its_updates_by_their_slots() -> None:
    found = utilisation([row for row in ROWS if row["phase"] == "train"])
    video, action = 100 * (1 + 4 + 9) / 6, 3 * 50
    assert found == pytest.approx({"all": (video + action) / 750, "video": video / 600, "action": 1})


def test_a_start_says_what_it_compiles() -> None:
    assert shapes_text(SHAPES).splitlines() == [
        "2 shapes to compile; token slots expected to be real: 88% (video 90%)",
        "   75% of calls: rows of 4 in 9 video frames, 8 action frames, 7 text keys",
        "   25% of calls: rows of 4 in 90 video frames, 80 action frames, 7 text keys, 3 proprio keys",
    ]


def test_losses_that_are_not_there_are_dashes() -> None:
    text = table(summarise([held_out(0, None)], record=RECORD))
    assert text.splitlines()[1].split() == ["loss", "-", "-", "2.0000", "-"]


def test_the_report_is_json(tmp_path: Path) -> None:
    write_report(tmp_path, summarise(ROWS, record=RECORD))
    assert json.loads((tmp_path / "report.json").read_text())["name"] == "demo"


@pytest.mark.parametrize("count", [0, 2])
def test_the_picture_grows_with_its_strips(tmp_path: Path, count: int) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (5, 8, 8, 3), dtype=np.uint8)
    draw_report(tmp_path / "r.png", ROWS, [Strip(frames, 255 - frames)] * count, title="demo", sigma=0.8)
    height, width, _ = matplotlib.image.imread(tmp_path / "r.png").shape
    assert width == 1320
    assert height == 110 * (3.2 + 1.9 * count)
