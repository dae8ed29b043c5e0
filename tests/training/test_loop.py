"""A resumed run does what an uninterrupted one does: the same rows, and bitwise the same state."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from tests.training.fakes import FakeData
from tests.training.rigs import Rig, make_rig, run_loop
from wam_jax.training.checkpoint import restore_state
from wam_jax.training.checksums import checksums
from wam_jax.training.locate import CHECKPOINTS, durable_steps, find_checkpoint
from wam_jax.training.metrics import Row, read_rows
from wam_jax.training.nonfinite import NonFiniteError
from wam_jax.training.start import METRICS_FILE


@pytest.fixture(scope="module")
def rig() -> Rig:
    return make_rig()


@pytest.fixture(scope="module")
def whole(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[int], list[Row]]:
    """Checksums of the final state of an uninterrupted run of 10 updates, and its rows."""
    workdir = tmp_path_factory.mktemp("whole")
    state, step, _ = run_loop(rig, workdir, rig.fresh(), 0)
    assert step == 10
    return checksums(state), numbers(workdir)


def numbers(workdir: Path) -> list[Row]:
    """Rows without times."""
    dropped = ("seconds", "per_second")
    return [{k: v for k, v in row.items() if not k.endswith(dropped)} for row in read_rows(workdir / METRICS_FILE)]


def resume(rig: Rig, workdir: Path) -> tuple[list[int], list[Row]]:
    ref = find_checkpoint(str(workdir), flag="--resume-from")
    state, _, _ = run_loop(rig, workdir, restore_state(ref, rig.abstract), ref.step)
    return checksums(state), numbers(workdir)


def test_everything_is_done_when_it_is_due(rig: Rig, tmp_path: Path, whole: tuple[list[int], list[Row]]) -> None:
    rows = whole[1]
    assert [row["step"] for row in rows if row["phase"] == "train"] == list(range(1, 11))
    assert [row["step"] for row in rows if row["phase"] == "val"] == [0, 5, 10]
    run_loop(rig, tmp_path, rig.fresh(), 0, max_checkpoints_to_keep=9)
    assert durable_steps(tmp_path / CHECKPOINTS) == [0, 4, 8, 10]
    assert numbers(tmp_path) == rows


def send(number: signal.Signals, *, phase: str, step: int) -> Callable[[Row], None]:
    def act(row: Row) -> None:
        if (row["phase"], row["step"]) == (phase, step):
            os.kill(os.getpid(), number)

    return act


@pytest.mark.parametrize(("phase", "step"), [("val", 0), ("train", 1), ("train", 4), ("val", 5), ("train", 9)])
def test_a_run_that_was_asked_to_stop_goes_on_as_if_it_had_not(
    rig: Rig, tmp_path: Path, whole: tuple[list[int], list[Row]], phase: str, step: int
) -> None:
    _, stopped, _ = run_loop(rig, tmp_path, rig.fresh(), 0, act=send(signal.SIGTERM, phase=phase, step=step))
    assert step <= stopped <= step + 2
    assert durable_steps(tmp_path / CHECKPOINTS)[-1] == stopped
    assert resume(rig, tmp_path) == whole


class Killed(BaseException):
    """Ends the loop as a kill does: nothing is saved or flushed on the way."""


@pytest.mark.parametrize("step", [2, 6, 10])
def test_a_run_that_was_killed_goes_on_from_its_newest_checkpoint(
    rig: Rig, tmp_path: Path, whole: tuple[list[int], list[Row]], step: int
) -> None:
    def act(row: Row) -> None:
        if row["step"] == step:
            raise Killed

    with pytest.raises(Killed):
        run_loop(rig, tmp_path, rig.fresh(), 0, act=act)
    assert resume(rig, tmp_path) == whole


def test_resuming_reads_no_data_again(tmp_path: Path) -> None:
    rig = make_rig()
    run_loop(rig, tmp_path, rig.fresh(), 0, act=send(signal.SIGTERM, phase="train", step=6))
    rig.data.read.clear()
    resume(rig, tmp_path)
    assert rig.data.read[0] >= 6


def test_nothing_moves_between_host_and_device_unasked(rig: Rig, tmp_path: Path) -> None:
    state = rig.fresh()
    with jax.transfer_guard("disallow"):
        _, step, _ = run_loop(rig, tmp_path, state, 0)
    assert step == 10


def test_a_finished_run_has_nothing_left_to_do(rig: Rig, tmp_path: Path, whole: tuple[list[int], list[Row]]) -> None:
    run_loop(rig, tmp_path, rig.fresh(), 0)
    assert resume(rig, tmp_path) == whole


def test_a_run_that_is_not_finite_stops_and_keeps_its_checkpoints(tmp_path: Path) -> None:
    rig = make_rig(FakeData(poisoned=frozenset({5})))
    with pytest.raises(NonFiniteError, match=r"update 6 .* draws 30 to 35.*blocks/mix/bias, blocks/mix/kernel"):
        run_loop(rig, tmp_path, rig.fresh(), 0)
    assert durable_steps(tmp_path / CHECKPOINTS) == [0, 4]
    assert numbers(tmp_path)[-1]["step"] == 5


def test_updates_that_are_not_finite_can_be_skipped_and_counted(tmp_path: Path) -> None:
    rig = make_rig(FakeData(poisoned=frozenset({5, 7})))
    state, step, rows = run_loop(rig, tmp_path, rig.fresh(), 0, nonfinite="skip")
    assert step == 10
    assert int(state.skipped) == 2
    assert [row["skipped"] for row in rows if row["phase"] == "train"] == [0, 0, 0, 0, 0, 1, 1, 2, 2, 2]
    assert [row["loss"] for row in numbers(tmp_path) if row["step"] == 6] == [None]
