"""Which checkpoint a path means."""

from pathlib import Path

import pytest

from wam_jax.errors import InputError
from wam_jax.training.locate import durable_steps, find_checkpoint, unfinished


def make_run(path: Path, *names: str) -> Path:
    for name in names:
        (path / "checkpoints" / name).mkdir(parents=True)
    return path


def test_a_run_means_its_newest_complete_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path, "4", "12", "8", "16.orbax-checkpoint-tmp")
    for path in (run, run / "checkpoints"):
        ref = find_checkpoint(str(path), flag="--f")
        assert (ref.step, ref.path, ref.run) == (12, run / "checkpoints" / "12", run)
    assert unfinished(run / "checkpoints") == ["16.orbax-checkpoint-tmp"]


def test_a_step_means_itself_and_knows_the_one_before(tmp_path: Path) -> None:
    ref = find_checkpoint(str(make_run(tmp_path, "4", "12", "8") / "checkpoints" / "8"), flag="--f")
    assert ref.step == 8
    assert ref.previous is not None
    assert ref.previous.step == 4
    assert ref.previous.previous is None


def test_a_run_whose_name_is_a_number_is_a_run(tmp_path: Path) -> None:
    assert find_checkpoint(str(make_run(tmp_path / "7", "4")), flag="--f").step == 4


@pytest.mark.parametrize(
    ("names", "path", "message"),
    [
        ((), "gone", "no such directory"),
        ((), ".", "holds no complete checkpoint; give a run"),
        (("3.orbax-checkpoint-tmp",), ".", r"holds no complete checkpoint \(1 were cut short"),
    ],
)
def test_what_holds_no_checkpoint_is_refused(tmp_path: Path, names: tuple[str, ...], path: str, message: str) -> None:
    with pytest.raises(InputError, match=f"--resume-from = .*{message}"):
        find_checkpoint(str(make_run(tmp_path, *names) / path), flag="--resume-from")


def test_a_missing_directory_has_no_steps(tmp_path: Path) -> None:
    assert durable_steps(tmp_path / "none") == []
