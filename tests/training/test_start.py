"""Where a start works and what it continues, and every combination that is refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from wam_jax.errors import InputError
from wam_jax.training.locate import find_checkpoint
from wam_jax.training.start import plan_start, set_newer_aside


def make_run(path: Path, *steps: int, name: str = "a", run_id: str = "id-a") -> str:
    for step in steps:
        (path / "checkpoints" / str(step)).mkdir(parents=True)
    path.mkdir(exist_ok=True)
    (path / "run.json").write_text(json.dumps({"name": name, "run_id": run_id}))
    return str(path)


def test_a_new_run_goes_to_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = plan_start("demo"), plan_start("demo")
    assert first.workdir == tmp_path / "runs" / "demo"
    assert first.source is None
    assert first.run_id != second.run_id


def test_a_resumed_run_goes_on_where_it_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", 0, 4)
    for workdir in (None, run):
        start = plan_start("a", workdir=workdir, resume_from=run)
        assert (start.workdir, start.run_id) == (tmp_path / "r", "id-a")
        assert start.source is not None
        assert start.source.step == 4


def test_a_run_branches_into_another_directory(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", 0, 4)
    start = plan_start("b", workdir=str(tmp_path / "s"), resume_from=f"{run}/checkpoints/0")
    assert start.record is None
    assert start.run_id != "id-a"
    assert start.resume is not None
    assert start.resume.step == 0


def test_parameters_are_taken_into_a_new_run(tmp_path: Path) -> None:
    start = plan_start("b", workdir=str(tmp_path / "s"), initialize_from=make_run(tmp_path / "r", 4))
    assert start.resume is None
    assert start.source is start.initialize
    assert start.record is None


def test_a_directory_whose_run_saved_nothing_is_free(tmp_path: Path) -> None:
    make_run(tmp_path / "r")
    (tmp_path / "r" / "metrics.jsonl").write_text("")
    assert plan_start("other", workdir=str(tmp_path / "r")).run_id != "id-a"


def test_a_directory_with_files_of_others_is_free(tmp_path: Path) -> None:
    (tmp_path / "slurm.out").write_text("")
    assert plan_start("a", workdir=str(tmp_path)).workdir == tmp_path


def refused(name: str = "a", **options: Any) -> str:
    with pytest.raises(InputError) as error:
        plan_start(name, **options)
    return str(error.value)


def test_the_two_flags_exclude_each_other(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", 4)
    assert "excludes --initialize-weights-from" in refused(resume_from=run, initialize_from=run)


@pytest.mark.parametrize("option", ["workdir", "resume_from", "initialize_from"])
def test_an_option_from_an_unset_variable_is_refused(option: str) -> None:
    assert "is empty; give a directory" in refused(**{option: ""})


def test_a_new_data_phase_needs_a_run_that_goes_on(tmp_path: Path) -> None:
    assert refused(new_data_phase=True).startswith("--new-data-phase = True: needs --resume-from")
    run = make_run(tmp_path / "r", 4)
    assert plan_start("a", resume_from=run, new_data_phase=True).new_data_phase
    assert not plan_start("a", resume_from=run).new_data_phase


def test_a_directory_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    run, other = make_run(tmp_path / "r", 4), make_run(tmp_path / "s", 8, name="b", run_id="id-b")
    assert "holds the run 'a' at step 4; continue it by --resume-from" in refused(workdir=run)
    assert "which is not the one to resume" in refused(workdir=run, resume_from=other)
    assert "holds the run 'a' at step 4" in refused(workdir=run, initialize_from=other)


def test_a_run_is_not_resumed_in_place_under_another_name(tmp_path: Path) -> None:
    message = refused("b", resume_from=make_run(tmp_path / "r", 4))
    assert message.startswith("name = 'b': ")
    assert "holds the run 'a'" in message


def test_results_without_a_run_record_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("")
    assert "has a metrics.jsonl but no run.json" in refused(workdir=str(tmp_path))
    (tmp_path / "run.json").write_text("[]")
    assert "is no run record" in refused(workdir=str(tmp_path))


@pytest.mark.parametrize("inside", ["", "deeper/run"])
def test_a_file_is_no_run_directory(tmp_path: Path, inside: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    assert f"{tmp_path}/notes.txt is no directory" in refused(workdir=str(tmp_path / "notes.txt" / inside))


def test_a_link_to_nowhere_is_no_run_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert "link is no directory" in refused(workdir=str(tmp_path / "link"))


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    assert f"{tmp_path} cannot be written to" in refused(workdir=str(tmp_path / "deeper" / "run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "/absolute"])
def test_a_name_that_leads_out_of_the_runs_needs_a_directory(tmp_path: Path, name: str) -> None:
    assert refused(name).startswith(f"name = {name!r}: ")
    assert plan_start(name, workdir=str(tmp_path)).workdir == tmp_path


def test_an_empty_directory_is_not_resumed(tmp_path: Path) -> None:
    assert "holds no complete checkpoint" in refused(resume_from=str(tmp_path))


def test_going_back_sets_newer_checkpoints_aside(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", 0, 4, 8)
    ref = find_checkpoint(f"{run}/checkpoints/0", flag="--f")
    assert set_newer_aside(ref) == [tmp_path / "r/set_aside/4", tmp_path / "r/set_aside/8"]
    (tmp_path / "r/checkpoints/4").mkdir()
    assert set_newer_aside(ref) == [tmp_path / "r/set_aside/4.1"]
    assert [path.name for path in ref.directory.iterdir()] == ["0"]
