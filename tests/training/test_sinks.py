"""What the sinks make of rows."""

from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto import event_pb2
from tensorboardX.record_writer import RecordWriter

from tests.training.rigs import Spy
from wam_jax.training.metrics import Row
from wam_jax.training.sinks import ProgressBar, Recorder, TensorBoard

TRAIN: Row = {"phase": "train", "step": 3, "loss": 0.5, "real_tokens_per_second": 1234.0}
LOSSES = ("loss", "video_loss", "action_loss")
VAL: Row = {"phase": "val", "step": 3, **dict.fromkeys(LOSSES, 0.5), **{f"zero_{name}": 2.0 for name in LOSSES}}


def test_tensorboard_gets_every_number_under_its_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse: Any = vars(event_pb2)["Event"].FromString  # generated at import, so that no checker knows it
    events: list[Any] = []
    monkeypatch.setattr(RecordWriter, "write", lambda _, data: events.append(parse(data)))
    board = TensorBoard(tmp_path, kept=2)
    board.write(TRAIN)
    board.write(VAL | {"loss": None, "action_loss": float("nan")})
    board.sync()
    board.close()
    points = {(value.tag, event.step): value.simple_value for event in events for value in event.summary.value}
    assert points["train/loss", 3] == 0.5
    assert points["val/zero_loss", 3] == 2.0
    assert ("val/loss", 3) not in points
    assert ("val/action_loss", 3) not in points
    assert 3 in [event.step for event in events if event.HasField("session_log")]


def test_the_bar_shows_loss_rate_and_validations(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar(total=4, done=2)
    bar.write(TRAIN)
    bar.write(VAL)
    bar.close()
    shown = capsys.readouterr().err
    assert "loss 0.5000, 1,234 tokens/s" in shown
    assert "3/4" in shown
    assert "step 3: held-out loss 0.5000 (zero prediction 2.0000)" in shown


def test_the_bar_survives_losses_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar(total=4, done=2)
    bar.write(TRAIN | {"loss": float("nan")})
    bar.close()
    assert "loss nan" in capsys.readouterr().err


def test_a_recorder_hands_on_and_knows_the_validations() -> None:
    spy = Spy()
    with Recorder([spy], earlier=[VAL | {"step": 0}, TRAIN | {"step": 1}]) as recorder:
        recorder.write(TRAIN)
        assert recorder.validated == {0}
        recorder.write(VAL)
    assert recorder.validated == {0, 3}
    assert spy.rows == [TRAIN, VAL]
