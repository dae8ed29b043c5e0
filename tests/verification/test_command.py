"""The command: exit codes that tell the truth, files that say what the text says, refusals before any work."""

import json

import pytest

from tests.support.config_files import write_config
from wam_jax import verify
from wam_jax.errors import InputError


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    directory = tmp_path_factory.mktemp("command")
    return ["--config", write_config(directory), "--modes", "packed", "--draws", "2"]


@pytest.fixture
def ran(verifier, runs, monkeypatch):
    """The command finds that all has been run."""
    monkeypatch.setattr(verifier, "run", lambda _, **__: runs)
    monkeypatch.setattr("wam_jax.verification.run.Verifier", lambda *_, **__: verifier)


def _record_and_compare(words, directory):
    """The second report."""
    run = str(directory / "run")
    assert verify.main([*words, "--record", run]) == 0
    assert verify.main([*words, "--against", "other-run", "--other-run", run, "--out", str(directory)]) == 0
    return json.loads((directory / "verify.json").read_text())


@pytest.mark.usefixtures("ran")
def test_a_run_is_recorded_and_compared_with(words, tmp_path, capsys):
    report = _record_and_compare(words, tmp_path)
    assert report["passed"]
    assert report["against"] == "other-run"
    assert {check["differing"] for check in report["modes"][0]["checks"]} == {0}
    assert (tmp_path / "verify.html").read_text().startswith("<!doctype html>")
    assert capsys.readouterr().out.count("bit for bit the same") == len(report["modes"][0]["checks"])


@pytest.mark.slow
def test_the_same_with_nothing_run_before(words, tmp_path):
    assert _record_and_compare(words, tmp_path)["passed"]


@pytest.mark.usefixtures("ran")
def test_a_failure_is_an_exit_code_and_is_traced(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("wam_jax.verification.gates.FLOAT32_FACTOR", 1e-6)
    assert verify.main([*words, "--out", str(tmp_path)]) == 1
    assert json.loads((tmp_path / "verify.json").read_text())["modes"][0]["way"]
    assert "first tensor to diverge: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--draws", "0"], "--draws = 0"),
        (["--ranks", "0"], "--ranks = 0"),
        (["--modes", "packd"], "--modes = 'packd'"),
        (["--against", "other-run"], "--other-run = None"),
        (["--other-run", "x"], "--other-run"),
        (["--against", "other-run", "--other-run", "nowhere"], "recording.json"),
        (["--record", "."], "exists already"),
        (["--config.policy.program=jont"], "jont"),
    ],
)
def test_what_cannot_be_verified_is_refused(words, options, message):
    with pytest.raises(InputError, match=message):
        verify.main([*words, *options])
