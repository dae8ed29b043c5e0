"""The benchmark command on a tiny run: modes see the same draws, the JSON says what the table says, and it can fail."""

import json
import math
from typing import Any

import pytest

from wam_jax import benchmark
from wam_jax.benchmarking import modes
from wam_jax.benchmarking.modes import ModeResult, compare_counts, mode_config
from wam_jax.benchmarking.packers import CAPACITY, measure_dealing, measure_packers, synthetic_lengths
from wam_jax.config import load
from wam_jax.errors import InputError

BUDGET = "--config.data.batching.max_tokens=36"
FIELDS = {
    "mode", "step_seconds_median", "slots_per_step", "tokens_per_step", "real_tokens_per_second", "utilisation",
    "utilisation_by_stream", "expected_utilisation", "rectangle_tokens_per_step", "compile_seconds", "compiled_shapes",
    "peak_memory", "largest_loss_difference",
}  # fmt: skip


def test_modes_are_measured_on_the_same_draws(config_file, tmp_path, capsys):
    out = tmp_path / "out.json"
    words = ["--config", config_file, "--modes", "padded,packed:best_fit", "--steps", "2", "--out", str(out), BUDGET]
    code = benchmark.main(words)
    report = json.loads(out.read_text())
    padded, packed = report["modes"]
    assert code == 0
    assert padded.keys() == packed.keys() == FIELDS
    assert report["losses_equal"]
    assert "equal to 0.0001 in all modes" in capsys.readouterr().out
    assert [padded["mode"], packed["mode"]] == ["padded", "packed:best_fit"]
    assert padded["tokens_per_step"] == packed["tokens_per_step"] > 0
    assert padded["utilisation"] == pytest.approx(padded["tokens_per_step"] / padded["slots_per_step"])
    assert packed["step_seconds_median"] > 0
    assert packed["compiled_shapes"] == 1
    assert padded["utilisation_by_stream"].keys() == {"video", "action", "text"}
    counts = report["tokens_per_step"]
    assert counts["padded"] == padded["rectangle_tokens_per_step"] <= padded["slots_per_step"]
    assert counts["packed"] == packed["tokens_per_step"]
    assert counts["ratio"] == counts["packed"] / counts["padded"] < 1


def test_the_counts_are_those_of_the_padded_stream(padded_data):
    """Two steps of B = 2 over the first shuffled lengths, by hand."""
    data = padded_data()
    counts = compare_counts(data, steps=2)
    rows = [data.planner.plan(step).draws.num_frames[0, 0].tolist() for step in range(2)]
    tokens = 2 * (1 + 2)  # A frame is one token of video and two of action, in two copies.
    assert counts.padded == tokens * sum(2 * max(row) for row in rows) / 2
    assert counts.packed == tokens * sum(map(sum, rows)) / 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--modes", "padded,ragged"],
            "--modes = 'ragged': must be of strict, padded, bucket, packed, packed:in_order",
        ),
        (["--modes", "packed:best"], "--modes = 'packed:best': must be of strict"),
        (
            ["--modes", "packed,packed:best_fit"],
            "--modes = 'packed:best_fit': needs a budget; give --config.data.batch",
        ),
        (["--steps", "0"], "--steps = 0: at least 1"),
        (["--planner-only", "--episodes", "0"], "--episodes = 0: at least 1"),
        (["--planner-only", "--episodes", "99"], "--episodes = 99: at least 4096, an update of 512 ranks"),
    ],
)
def test_what_cannot_be_measured_is_refused(config_file, words, message):
    with pytest.raises(InputError) as error:
        benchmark.main(["--config", config_file, *words])
    assert message in str(error.value)


def test_packed_ignores_the_budget_that_its_packers_keep(config_file):
    config = load(config_file, [BUDGET]).config
    batching = {name: mode_config(config, name).data.batching for name in ("packed", "packed:in_order", "padded")}
    assert (batching["packed"].max_tokens, batching["packed"].packer) == (None, None)
    assert (batching["packed:in_order"].max_tokens, batching["packed:in_order"].packer) == (36, "in_order")
    assert batching["padded"].max_tokens is None


def test_a_mode_that_does_not_go_with_the_recipe_is_refused(config_file):
    routes = "--config.data.routing.routes=(('real_demo','joint',1),('real_demo','video_conditioned_action',1))"
    program = "--config.policy.program=generalist_joint_denoising"
    order = "--config.data.sample_construction.sample_order_mode=replacement"
    with pytest.raises(InputError, match="mode = 'bucket': routes fix who trains"):
        benchmark.main(["--config", config_file, "--modes", "padded,bucket", routes, program, order])


def test_strict_accumulates_single_samples_to_the_same_update(config_file):
    config = load(config_file, []).config
    strict = mode_config(config, "strict")
    assert (strict.data.train_batch_size, strict.training.gradient_accumulation_steps) == (1, 2)
    assert strict.data.val_batch_size == 1


def test_a_loss_that_is_not_finite_fails_the_command_and_the_json_stays_json(
    config_file, tmp_path, capsys, monkeypatch
):
    losses = {"packed": 1.0, "padded": math.nan}
    figures: Any = dict.fromkeys(FIELDS - {"mode"}, 1.0)
    fake = lambda mode, *_, **__: (ModeResult(mode=mode, **figures), {(0, 0): 1.0, (0, 1): losses[mode]})  # noqa: E731
    monkeypatch.setattr(modes, "_measure", fake)
    out = tmp_path / "out.json"
    assert benchmark.main(["--config", config_file, "--modes", "packed,padded", "--out", str(out)]) == 1
    report = json.loads(out.read_text(), parse_constant=pytest.fail)
    assert not report["losses_equal"]
    assert [mode["largest_loss_difference"] for mode in report["modes"]] == [0, None]
    assert "NOT equal to 0.0001 in all modes; not finite: padded\n" in capsys.readouterr().out


def test_best_fit_reaches_the_density_that_the_documentation_states():
    results = {r.name: r for r in measure_packers(synthetic_lengths(60_000), batches=100)}
    assert results["best_fit"].utilisation > 0.985
    assert results["in_order"].utilisation < 0.85
    assert synthetic_lengths(1000).max() <= CAPACITY


def test_even_dealing_over_many_ranks_beats_dealing_in_order():
    in_order, even = measure_dealing(synthetic_lengths(60_000), ranks=64, updates=10)
    assert even.utilisation > 0.96 > 0.6 > in_order.utilisation
