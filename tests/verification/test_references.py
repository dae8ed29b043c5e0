"""A run can be compared with draws alone in float64, and with the recording of another run, in either precision."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.stores import write_tiny_store
from wam_jax.data.storage.store import open_store
from wam_jax.errors import InputError
from wam_jax.tracing.differences import first_diverged
from wam_jax.verification.gates import FLOAT32_FACTOR, HALF_FACTOR
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
    other = load_recording(recorded, verifier.subject)
    found = verifier.compare(runs, trace=True, against="other-run", other=other)
    assert found.passed
    assert {check.differing for check in found.modes[0].checks} == {0}
    assert {item.verdict for item in [*found.modes[0].way, *found.modes[0].gradient_way]} == {"exact"}
    assert "another run in the same mode" in as_text(found)


def test_where_another_run_was_different_is_named(verifier, runs, recorded):
    other, name = load_recording(recorded, verifier.subject), "video_expert.block_01.attention.out"
    traced = other.runs["packed"].traced
    for draw, parts in traced.items():
        struck = [dataclasses.replace(p, value=p.value * 1.5) if p.name == name else p for p in parts.tensors]
        traced[draw] = dataclasses.replace(parts, tensors=struck)
    first = first_diverged(verifier.compare(runs, trace=True, against="other-run", other=other).modes[0].way)
    assert first is not None
    assert first.name == name


def test_a_run_that_was_not_traced_is_compared_without_a_way(verifier, runs, tmp_path):
    save_recording(tmp_path / "run", verifier.subject, runs, trace=False)
    other = load_recording(tmp_path / "run", verifier.subject)
    found = verifier.compare(runs, trace=True, against="other-run", other=other)
    assert found.passed
    assert not found.modes[0].way


def test_the_parameters_are_those_that_were_recorded(verifier, recipe, recorded):
    subject = Subject(*recipe, draws=2, precision="float32")
    subject.params = jax.tree.map(jnp.zeros_like, subject.params)
    load_recording(recorded, subject)
    jax.tree.map(np.testing.assert_array_equal, subject.params, verifier.subject.params)


def _check_that_errors_are_rounding(found, alone):
    """Neither more than rounding costs, nor so little that two of a kind were compared."""
    assert found.passed, as_text(found)
    assert as_json(found)["against"] == "fp64"
    for check in found.modes[0].checks:
        assert check.worst is not None
        assert 0.02 < check.ratio * alone < 5, check


def test_against_float64_the_error_is_that_of_a_draw_alone(verifier, runs):
    _check_that_errors_are_rounding(verifier.compare(runs, trace=False, against="fp64"), FLOAT32_FACTOR)


@pytest.mark.slow
def test_against_float64_in_bfloat16(recipe):
    verifier = Verifier(*recipe, draws=2, precision="bfloat16")
    found = verifier.compare(verifier.run(["packed"]), trace=True, against="fp64")
    _check_that_errors_are_rounding(found, HALF_FACTOR)
    assert first_diverged(found.modes[0].way) is None


@pytest.mark.parametrize(
    ("changed", "draws", "precision", "field"),
    [
        ({}, 2, "bfloat16", "precision"),
        ({}, 1, "float32", "draws"),
        ({"seed": 5}, 2, "float32", "config.seed"),
    ],
)
def test_a_recording_of_something_else_is_refused(changed, draws, precision, field, recipe, recorded):
    config, store = recipe
    subject = Subject(dataclasses.replace(config, **changed), store, draws=draws, precision=precision)
    with pytest.raises(InputError, match=rf"recording\.json: {field}"):
        load_recording(recorded, subject)


def test_a_recording_of_other_data_is_refused(recipe, recorded, tmp_path):
    config, _ = recipe
    store = open_store(write_tiny_store(tmp_path / "store", lengths=(7, 9, 6, 8), seed=3))
    with pytest.raises(InputError, match=r"recording\.json: fingerprint of the data"):
        load_recording(recorded, Subject(config, store, draws=2, precision="float32"))


def test_a_recording_of_other_batching_is_taken(recipe, recorded):
    config, store = recipe
    data = dataclasses.replace(config.data, batching=dataclasses.replace(config.data.batching, pad_to_multiple_of=2))
    subject = Subject(dataclasses.replace(config, data=data, name="another"), store, draws=2, precision="float32")
    assert set(load_recording(recorded, subject).runs) == {"packed"}


def test_a_mode_that_was_not_recorded_is_not_compared(verifier, runs, recorded):
    other = load_recording(recorded, verifier.subject)
    found = verifier.compare({"padded": runs["packed"]}, trace=False, against="other-run", other=other)
    assert found.modes[0].skipped == "the other run was in packed"
    assert not found.passed


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
        load_recording(tmp_path, verifier.subject)
