"""`python -m wam_jax.plan`: exit codes, the page, the JSON."""

import dataclasses
import json

import pytest

from wam_jax import plan as command
from wam_jax.errors import InputError
from wam_jax.planning import planner
from wam_jax.planning.changes import Change
from wam_jax.planning.report import page, verdict
from wam_kernels.resources import Resources

CHANGE = Change("remat", {"backbone.remat": "block", "trainer.mesh": (1, 8)}, 2**30, fits=True, by="compiled")


def test_a_run_that_fits(config_file, tmp_path, capsys):
    out = tmp_path / "plan.json"
    arguments = ["--config", config_file, "--target", "cpu", "--devices", "1", "--out", str(out)]
    assert command.main(arguments) == 0
    content = json.loads(out.read_text())
    assert content["fits"]
    assert content["memory"]["peak"] + content["memory"]["spare"] == content["memory"]["usable"]
    assert content["gradients"][0]["arguments"] > content["memory"]["parameters"]
    assert content["work"]["matmul"] > 0
    assert "fits: " in capsys.readouterr().out


def test_a_run_that_does_not(config_file, monkeypatch, plan, capsys):
    small = dataclasses.replace(plan, memory=dataclasses.replace(plan.memory, usable=0))
    monkeypatch.setattr(planner, "make_plan", lambda *_, **__: small)
    monkeypatch.setattr("wam_jax.planning.changes.changes", lambda *_: [CHANGE])
    assert command.main(["--config", config_file, "--target", "cpu", "--devices", "1"]) == 1
    said = capsys.readouterr().out
    assert "does not fit" in said
    assert "--config.backbone.remat=block --config.trainer.mesh=(1,8)   fits with 1.00 GiB (compiled)" in said


@pytest.mark.parametrize(
    ("size", "said"),
    [(999, "999 B"), (12_900, "12.6 KiB"), (2**29, "512 MiB"), (2**30, "1.00 GiB"), (2**40, "1024.00 GiB")],
)
def test_sizes_keep_their_digits(plan, size, said):
    memory = dataclasses.replace(plan.memory, usable=plan.memory.peak + size)
    assert verdict(dataclasses.replace(plan, memory=memory), []) == f"fits: {said} to spare"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "cpu", "--devices", "1", "--memory-fraction", "0"], "--memory-fraction"),
        (["--target", "cpu", "--devices", "1", "--memory-fraction", "nan"], "--memory-fraction"),
        (["--target", "cpu", "--devices", "many"], "arguments = .*--devices: invalid int value: 'many'"),
        (["--target", "cpu"], "arguments = .*--devices.*: see python -m wam_jax.plan --help"),
        (["--target", "abacus", "--devices", "1"], "--target = 'abacus'"),
        (["--target", "cpu", "--devices", "1", "--config.data.store=nowhere"], "describe the data in a file, --data"),
        (["--target", "cpu", "--devices", "1", "--data", "nowhere.json"], "no such file"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(config_file, arguments, said):
    with pytest.raises(InputError, match=said):
        command.main(["--config", config_file, *arguments])


@pytest.mark.parametrize("place", ["missing/p.json", "."])
def test_a_plan_that_cannot_be_written_is_not_made(config_file, tmp_path, monkeypatch, place):
    monkeypatch.setattr(planner, "make_plan", pytest.fail)
    arguments = ["--config", config_file, "--target", "cpu", "--devices", "1", "--out", str(tmp_path / place)]
    with pytest.raises(InputError, match=r"--out = .*: a file in a directory that exists"):
        command.main(arguments)


@pytest.mark.parametrize("value", ["", "most", "0", "1.5", "nan"])
def test_a_variable_that_is_no_fraction_is_named(monkeypatch, value):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", value)
    with pytest.raises(InputError, match=f"XLA_PYTHON_CLIENT_MEM_FRACTION = '{value}': must be a number"):
        command._fraction(None)
    assert command._fraction(0.7) == 0.7


def test_the_fraction_is_the_one_that_jax_will_use(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5")
    assert command._fraction(None) == 0.5
    assert command._fraction(0.7) == 0.7


def test_the_page_has_kernels_by_name_at_their_worst(plan):
    kernels = {"range_attention_dq_1": Resources(168, 0, 100), "range_attention_dq_2": Resources(100, 4, 200)}
    gradients = [dataclasses.replace(plan.gradients[0], kernels=kernels)]
    text = page(dataclasses.replace(plan, gradients=gradients), [])
    assert [line.split() for line in text.splitlines() if "range_attention" in line] == [
        ["range_attention_dq", "168", "4", "200"]
    ]
