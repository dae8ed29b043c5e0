"""Planning at scale: the index is what it says, and a worker keeps pace in little memory."""

import json

import numpy as np
import pytest

from wam_jax import benchmark
from wam_jax.benchmarking import planning
from wam_jax.benchmarking.packers import synthetic_lengths
from wam_jax.benchmarking.planning import MODES, measure_planning, peak_memory, synthetic_index


def test_the_synthetic_index_has_the_synthetic_lengths():
    index = synthetic_index(500)
    frames = index.extents["video_latents"]
    np.testing.assert_array_equal(frames, np.maximum(2, synthetic_lengths(500) // 16))
    np.testing.assert_array_equal(index.extents["actions"], 2 * frames)
    assert (len(index), set(index.tasks), index.extents["text_context"].max()) == (500, {""}, -1)


def test_peak_memory_grows_by_what_is_held():
    before = peak_memory()
    held = np.ones(2 * before, np.uint8)
    assert peak_memory() >= before + held.nbytes // 2


def test_the_report_has_packing_and_planning(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(planning, "RANKS", 16)
    monkeypatch.setattr(planning, "MODES", {"packed": MODES["packed"]})
    out = tmp_path / "planner.json"
    words = ["--planner-only", "--episodes", "9000", "--steps", "2", "--out", str(out)]
    assert benchmark.main(words) == 0
    report = json.loads(out.read_text())
    assert [row["name"] for row in report["packing"]][:3] == ["in_order", "first_fit", "best_fit"]
    (row,) = report["planning"]
    assert (row["mode"], row["ranks"], row["draws_per_step"], row["episodes"]) == ("packed", 16, 128, 9000)
    assert row["utilisation"] > 0.9
    assert row["worker_peak_megabytes"] > 100
    assert 0 < row["main_step_milliseconds"] < 1000
    assert "worker_step_milliseconds" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_million_episodes_for_512_ranks_are_planned_in_step(mode):
    """One step a second in one worker, a hundredth of the main thread, two gigabytes: each far away."""
    result = measure_planning(mode, synthetic_index(1_000_000), ranks=512, steps=20)
    assert result.utilisation > {"bucket": 0.4, "packed": 0.95, "packed:best_fit": 0.9}[mode]
    assert result.draws_per_step == 512 * 8
    assert result.worker_step_milliseconds < 300
    assert result.main_step_milliseconds < 10
    assert result.worker_peak_megabytes < 2000
