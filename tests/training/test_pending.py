"""Rows come one update late, in order, with the sizes of their own update."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.training.fakes import COUNTS
from wam_jax.training.metrics import Row
from wam_jax.training.nonfinite import NonFiniteError, check_finite
from wam_jax.training.pending import Pending, PendingUpdates


def update(step: int, *, bad: tuple[bool, bool] = (False, False)) -> Pending:
    metrics = {"loss": jnp.float32(step), "lr": jnp.float32(0.5), "nonfinite": jnp.array(bad)}
    return Pending(step, metrics, COUNTS, wait_seconds=0.25)


def pending(rows: list[Row], **options: Any) -> PendingUpdates:
    defaults: dict[str, Any] = {"stop": True, "log_every": 1}
    return PendingUpdates(rows.append, ["a/kernel", "b/bias"], **defaults | options)


def test_a_row_is_written_when_the_next_update_is_on_its_way() -> None:
    rows: list[Row] = []
    queue = pending(rows)
    queue.add(update(1))
    assert rows == []
    queue.add(update(2))
    queue.add(update(3))
    assert [row["step"] for row in rows] == [1, 2]
    queue.drain()
    assert [(row["step"], row["loss"]) for row in rows] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_row_holds_rates() -> None:
    rows: list[Row] = []
    queue = pending(rows)
    queue.add(update(1))
    queue.drain()
    row = rows[0]
    assert (row["phase"], row["lr"], row["data_wait_seconds"]) == ("train", 0.5, 0.25)
    assert row["slot_utilisation"] == pytest.approx(80 / 120)
    assert (row["video_utilisation"], row["video_slots"]) == (pytest.approx(60 / 90), 90)
    assert (row["text_utilisation"], row["text_slots"]) == (0, 1)
    assert "proprio_slots" not in row
    assert row["real_tokens_per_second"] == pytest.approx(80 / row["step_seconds"])
    assert "nonfinite" not in row


def test_what_happened_between_is_left_out_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 2.0, 100.0, 103.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    rows: list[Row] = []
    queue = pending(rows)
    queue.add(update(1))
    queue.drain()
    queue.restart_clock()
    queue.add(update(2))
    queue.drain()
    assert [row["step_seconds"] for row in rows] == [2.0, 3.0]


def test_only_every_nth_row_is_written_but_every_update_is_checked() -> None:
    rows: list[Row] = []
    queue = pending(rows, log_every=2)
    for step in (1, 2, 3):
        queue.add(update(step))
    assert [row["step"] for row in rows] == [2]
    queue.add(update(4, bad=(True, False)))
    with pytest.raises(NonFiniteError):
        queue.drain()


def test_skipping_goes_on_after_an_update_that_is_not_finite() -> None:
    rows: list[Row] = []
    queue = pending(rows, stop=False)
    queue.add(update(1, bad=(True, True)))
    queue.add(update(2))
    queue.drain()
    assert [row["step"] for row in rows] == [1, 2]


def test_the_message_names_draws_and_parameters() -> None:
    names = [f"layer{i}/kernel" for i in range(30)]
    with pytest.raises(NonFiniteError) as error:
        check_finite(3, float("nan"), np.arange(30) != 4, names, draws=range(16, 24))
    message = str(error.value)
    assert "update 3 is not finite (loss nan; draws 16 to 23)" in message
    assert "29 of 30 parameters: layer0/kernel, layer1/kernel" in message
    assert "layer4/" not in message
    assert "and 9 more" in message


def test_an_update_whose_draws_are_no_stretch_is_named_alone() -> None:
    queue = pending([], draws=None)
    queue.add(update(2, bad=(True, False)))
    with pytest.raises(NonFiniteError, match=r"update 2 is not finite \(loss 2\): gradients of 1 of 2"):
        queue.drain()


def test_a_loss_that_is_not_finite_is_enough() -> None:
    check_finite(1, 0.0, np.zeros(2, bool), ["a", "b"])
    with pytest.raises(NonFiniteError, match="0 of 2 parameters: none"):
        check_finite(1, float("inf"), np.zeros(2, bool), ["a", "b"])
