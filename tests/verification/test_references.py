"""A run can be compared with draws alone in float64, and with the recording of another run, in either precision."""

import dataclasses
import json

import pytest

from wam_jax.errors import InputError
from wam_jax.tracing.differences import first_diverged
from wam_jax.verification.recording import load_recording, save_recording
from wam_jax.verification.report import as_json, as_text
from wam_jax.verification.run import Verifier
from wam_jax.verification.subject import Subject


@pytest.fixture(scope="module")
def recorded(verifier, runs, tmp_path_factory):
    """The directory of a run that was recorded with its tensors."""
    path = tmp_path_factory.mktemp("recorded") / "run"
    save_recording(path, verifier.subject, runs, trace=True)
    return path


def test_another_run_of_the_same_is_bit_for_bit_the_same(verifier, runs, recorded):
    other = load_recording(recorded, verifier.subject, ["packed"])
    found = verifier.compare(runs, trace=True, against="other-run", other=other)
    assert found.passed
    assert {check.error.differing for check in found.modes[0].checks} == {0}
    assert {item.verdict for item in [*found.modes[0].way, *found.modes[0].gradient_way]} == {"exact"}
    assert "another run in the same mode" in as_text(found)


def test_where_another_run_was_different_is_named(verifier, runs, recorded):
    other, name = load_recording(recorded, verifier.subject, ["packed"]), "video_expert.block_01.attention.out"
    for draw, traced in other["packed"].traced.items():
        struck = [dataclasses.replace(p, value=p.value * 1.5) if p.name == name else p for p in traced.tensors]
        other["packed"].traced[draw] = dataclasses.replace(traced, tensors=struck)
    first = first_diverged(verifier.compare(runs, trace=True, against="other-run", other=other).modes[0].way)
    assert first is not None
    assert first.name == name


def test_a_run_that_was_not_traced_is_compared_without_a_way(verifier, runs, tmp_path):
    save_recording(tmp_path / "run", verifier.subject, runs, trace=False)
    other = load_recording(tmp_path / "run", verifier.subject, ["packed"])
    found = verifier.compare(runs, trace=True, against="other-run", other=other)
    assert found.passed
    assert not found.modes[0].way


def _check_that_errors_are_rounding(found):
    assert found.passed, as_text(found)
    assert as_json(found)["against"] == "fp64"
    for check in found.modes[0].checks:
        assert 0.2 < check.error.rms / check.alone.rms < 5, check


def test_against_float64_the_error_is_that_of_a_draw_alone(verifier, runs):
    _check_that_errors_are_rounding(verifier.compare(runs, trace=False, against="fp64"))


@pytest.mark.slow
def test_against_float64_in_bfloat16(recipe):
    verifier = Verifier(*recipe, draws=2, precision="bfloat16")
    _check_that_errors_are_rounding(verifier.compare(verifier.run(["packed"]), trace=True, against="fp64"))


@pytest.mark.parametrize(
    ("changed", "draws", "precision", "field"),
    [
        ({}, 2, "bfloat16", "precision"),
        ({}, 1, "float32", "draws"),
        ({"seed": 5}, 2, "float32", "parameters"),
    ],
)
def test_a_recording_of_something_else_is_refused(changed, draws, precision, field, recipe, recorded):
    config, store = recipe
    subject = Subject(dataclasses.replace(config, **changed), store, draws=draws, precision=precision)
    with pytest.raises(InputError, match=rf"recording\.json: {field}"):
        load_recording(recorded, subject, ["packed"])


def test_a_mode_that_was_not_recorded_is_refused(verifier, recorded):
    with pytest.raises(InputError, match="--modes = 'padded': the other run was in packed"):
        load_recording(recorded, verifier.subject, ["padded"])


@pytest.mark.parametrize("damage", ["no json", "cut", "another key"])
def test_a_damaged_recording_is_refused(damage, verifier, recorded, tmp_path):
    for file in recorded.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    summary, tensors = tmp_path / "recording.json", tmp_path / "tensors.safetensors"
    match damage:
        case "no json":
            summary.write_text("{")
        case "cut":
            tensors.write_bytes(tensors.read_bytes()[:-8])
        case "another key":
            summary.write_text(json.dumps(json.loads(summary.read_text()) | {"losses": []}))
    with pytest.raises(InputError):
        load_recording(tmp_path, verifier.subject, ["packed"])
