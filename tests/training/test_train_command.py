"""The command with the real model and data: complete, killed, stopped and resumed runs, and what it refuses."""

import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.stores import rewrite_episode, rewrite_index
from tests.training.commands import make_experiment, numbers, run_command
from wam_jax import train
from wam_jax.errors import InputError
from wam_jax.training import run as runner
from wam_jax.training.checkpoint import read_meta
from wam_jax.training.locate import CHECKPOINTS, durable_steps, find_checkpoint
from wam_jax.training.metrics import MetricsFile, Row
from wam_jax.training.nonfinite import NonFiniteError
from wam_jax.training.phases import EPOCHS_APART

STEPS = 8


class Experiment(NamedTuple):
    """A configuration, and a run of it that nothing interrupted."""

    config: Path
    whole: Path

    def train(self, *arguments: str | Path) -> int:
        return train.main(["--config", str(self.config), *map(str, arguments)])


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    directory = tmp_path_factory.mktemp("experiment")
    made = Experiment(make_experiment(directory), directory / "whole")
    assert made.train("--workdir", made.whole) == 0
    return made


def final_checksums(workdir: Path) -> dict[str, list[int]]:
    ref = find_checkpoint(str(workdir), flag="--resume-from")
    assert ref.step == STEPS
    return read_meta(ref)["checksums"]


def test_a_run_leaves_its_record_rows_checkpoints_and_report(experiment: Experiment) -> None:
    whole = experiment.whole
    assert durable_steps(whole / CHECKPOINTS) == [3, 6, 8]
    assert [row["step"] for row in numbers(whole) if row["phase"] == "val"] == [0, 4, 8]
    assert {"loss", "video_loss", "action_loss", "grad_norm", "lr", "slot_utilisation"} <= numbers(whole)[1].keys()
    record = json.loads((whole / "run.json").read_text())
    report = json.loads((whole / "report.json").read_text())
    assert report["parameters"] == record["parameters"]
    assert record["parameters"]["total"] > 10_000
    assert report["shapes"] == record["launches"][-1]["shapes"]
    assert report["utilisation"].keys() == report["shapes"]["expected_utilisation"].keys()
    assert report["utilisation"]["video"] == numbers(whole)[1]["video_utilisation"] == 1
    assert (whole / "report.png").stat().st_size > 10_000
    assert list((whole / "tensorboard").iterdir())


def test_a_killed_run_goes_on_bitwise(experiment: Experiment, tmp_path: Path) -> None:
    step = random.SystemRandom().randint(1, STEPS)
    words = (step, "--config", experiment.config, "--workdir", tmp_path / "run")
    done = run_command(*map(str, words), module="tests.training.killed_command")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [row["step"] for row in numbers(tmp_path / "run")][-1] == step
    assert experiment.train("--resume-from", tmp_path / "run") == 0
    assert numbers(tmp_path / "run") == numbers(experiment.whole)
    assert final_checksums(tmp_path / "run") == final_checksums(experiment.whole)


@pytest.mark.parametrize("step", [4, STEPS])
def test_a_stopped_run_branches_off_bitwise(
    experiment: Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: int,
) -> None:
    write, run, branch = MetricsFile.write, tmp_path / "run", tmp_path / "branch"

    def stop(self: MetricsFile, row: Row) -> None:
        write(self, row)
        if row["step"] == step:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsFile, "write", stop)
        assert experiment.train("--workdir", run) == 0
    assert f"saved; go on by --resume-from {run}" in capsys.readouterr().err
    assert not (run / "report.json").exists()
    assert experiment.train("--resume-from", run, "--workdir", branch) == 0
    assert [*numbers(run), *numbers(branch)] == numbers(experiment.whole)
    assert final_checksums(branch) == final_checksums(experiment.whole)
    parent = json.loads((branch / "run.json").read_text())["parent"]
    assert parent["path"] == str(find_checkpoint(str(run), flag="--resume-from").path)


@pytest.mark.parametrize("stage", ["first_state", "compile_ahead"])
def test_a_run_that_is_stopped_before_its_first_update_saves(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    do = getattr(runner, stage)

    def asked(*words: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return do(*words, **options)

    monkeypatch.setattr(runner, stage, asked)
    assert experiment.train("--workdir", tmp_path / "run") == 0
    assert durable_steps(tmp_path / "run" / CHECKPOINTS) == [0]
    assert numbers(tmp_path / "run") == []


def test_an_update_that_is_not_finite_has_an_exit_code_of_its_own(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def diverge(*_: Any) -> Any:
        raise NonFiniteError("update 1 is not finite")

    monkeypatch.setattr(runner, "compile_ahead", lambda *_, **__: None)
    monkeypatch.setattr(runner.Loop, "run", diverge)
    assert experiment.train("--workdir", tmp_path / "run") == 3
    assert "stopped: update 1 is not finite\n" in capsys.readouterr().err


def test_a_new_run_takes_parameters(experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--initialize-weights-from", experiment.whole, "--workdir", tmp_path / "run")
    assert experiment.train(*words, "--config.training.num_steps=2") == 0
    assert "took all" in capsys.readouterr().err
    first, last = numbers(tmp_path / "run")[0], numbers(experiment.whole)[-1]
    assert (first["step"], first["loss"]) == (0, last["loss"])


def test_a_new_data_phase_goes_on_with_draws_of_its_own(experiment: Experiment, tmp_path: Path) -> None:
    branch, later = tmp_path / "branch", tmp_path / "later"
    words = ("--resume-from", experiment.whole / CHECKPOINTS / "6", "--workdir", branch)
    other = "--config.training.text_dropout=0.5"
    assert "text_dropout was 0.25 and is 0.5" in refused(experiment, *words, other)
    assert experiment.train(*words, other, "--new-data-phase") == 0
    before, after = numbers(experiment.whole), numbers(branch)
    assert [row["step"] for row in after] == [7, 8, 8]
    assert after[0]["loss"] not in [row["loss"] for row in before]
    assert after[0]["lr"] == next(row["lr"] for row in before if row["step"] == 7)
    meta = read_meta(find_checkpoint(str(branch), flag="--resume-from"))
    assert (meta["data_phase"]["number"], meta["data_phase"]["from_step"]) == (1, 6)
    assert meta["next_draw"] // meta["data_contract"]["draws_per_epoch"] == EPOCHS_APART
    assert experiment.train("--resume-from", branch, "--workdir", later, other, "--config.training.num_steps=9") == 0
    assert read_meta(find_checkpoint(str(later), flag="--resume-from"))["data_phase"] == meta["data_phase"]


def refused(experiment: Experiment, *arguments: str | Path) -> str:
    with pytest.raises(InputError) as error:
        experiment.train(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--config.policy.progam=joint",), "did you mean policy.program?"),
        (("--config.data.train_batch_size=two",), "must be an integer"),
        (("--config.data.store=nowhere",), "store = 'nowhere'"),
        (("--expected-world-size", "64"), "--expected-world-size = 64: 1 devices are there"),
        (("--expected-world-size", "many"), "arguments = "),
        (("--config.trainer.mesh=3,5",), "trainer.mesh = (3, 5): must multiply to"),
        (("--config.backbone.text_dim=5",), "backbone.text_dim"),
        (("--config.data.train_batch_size=64",), "one update takes 64"),
    ],
)
def test_what_cannot_work_leaves_no_trace(
    experiment: Experiment, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(experiment, "--workdir", tmp_path / "run", *arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workdir", "WHOLE"), "holds the run 'tiny' at step 8"),
        (("--resume-from", "WHOLE", "--initialize-weights-from", "WHOLE"), "excludes"),
        (("--resume-from", "EMPTY"), "holds no complete checkpoint"),
        (("--resume-from", "WHOLE", "--config.seed=1"), "the data differ (seed was 0 and is 1)"),
        (("--resume-from", "WHOLE", "--config.name=other"), "name = 'other'"),
        (("--resume-from", "WHOLE", "--config.training.num_steps=7"), "the checkpoint is at step 8 already"),
        (("--resume-from", "WHOLE", "--config.backbone.hidden_size=8"), "of another shape"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(
    experiment: Experiment, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    places = {"WHOLE": str(experiment.whole), "EMPTY": str(tmp_path)}
    assert message in refused(experiment, *(places.get(word, word) for word in arguments))


def nan_in_a_latent(store: Path) -> None:
    rewrite_episode(store, 1, video_latents=np.full((3, 5, 2, 2), np.nan, np.float16))


def wrong_mask(store: Path) -> None:
    rewrite_episode(store, 1, action_mask=np.ones((10, 3), np.float32))


def one_frame(store: Path) -> None:
    rewrite_index(store, "extent_video_latents", 1, 1)


def ragged_actions(store: Path) -> None:
    rewrite_index(store, "extent_actions", 1, 9)


def another_split(store: Path) -> None:
    rewrite_index(store, "split", 1, "val")


def truncated(store: Path) -> None:
    file = next((store / "episodes").iterdir())
    file.write_bytes(file.read_bytes()[:-1])


def newer_schema(store: Path) -> None:
    manifest = store / "store.json"
    manifest.write_text(manifest.read_text().replace("wam_jax.store.v1", "wam_jax.store.v9"))


@pytest.mark.parametrize(
    "damage",
    [nan_in_a_latent, wrong_mask, one_frame, ragged_actions, another_split, truncated, newer_schema],
)
def test_a_store_that_cannot_be_used_is_refused_before_the_model_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    made = Experiment(make_experiment(tmp_path), tmp_path / "run")
    damage(tmp_path / "store")
    monkeypatch.setattr("wam_jax.training.run.make_policy", pytest.fail)
    refused(made, "--workdir", made.whole)
    assert not made.whole.exists()


def test_the_process_ends_with_one_line_and_code_two(experiment: Experiment) -> None:
    done = run_command("--config", experiment.config, "--workdir", experiment.whole)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --workdir = ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
