"""The numbers of updates whose results the host has not asked for yet.

Asking for a number waits for the device. So the numbers of an update are fetched when the next one has been handed to
the device: the host stays one update ahead and the device never waits for it. Rows come out in order. The time between
two fetches is the time of an update, since the second ends when that update does; that of a start's first update is
mostly compilation.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import jax
import numpy as np

from wam_jax.training.environment import peak_memory_bytes
from wam_jax.training.metrics import Row
from wam_jax.training.nonfinite import check_finite
from wam_jax.training.programs import Scalars

_AHEAD = 1


class Counts(Protocol):
    """What the plan of an update says of its size, over all ranks."""

    @property
    def tokens(self) -> int:
        """Self-attention tokens that are real."""
        ...

    @property
    def utilisation(self) -> float:
        """Those over the slots that are computed."""
        ...

    @property
    def streams(self) -> dict[str, tuple[int, int]]:
        """Real tokens and allocated slots of each stream."""
        ...


@dataclass(frozen=True)
class Pending:
    """One update on its way.

    Attributes:
        step: updates done with it.
        metrics: its numbers, on the device.
        counts: its size.
        wait_seconds: how long the host waited for its data.
        vote: what the processes have been asked by then, on the device (`wam_jax.training.interrupt`).
    """

    step: int
    metrics: Scalars
    counts: Counts
    wait_seconds: float
    vote: jax.Array | int = 0


class PendingUpdates:
    """Turns updates into rows, one update late."""

    def __init__(
        self,
        write: Callable[[Row], None],
        leaves: Sequence[str],
        *,
        draws: Callable[[int], range] | None = None,
        stop: bool,
        log_every: int,
        hear: Callable[[int], None] = lambda _: None,
    ) -> None:
        """
        Args:
            write: takes the rows.
            leaves: names of the parameters.
            draws: where in the stream an update's draws are, by its number; None where they are no stretch of it.
            stop: whether an update that is not finite ends the run.
            log_every: every how many updates one is written.
            hear: takes the vote of every update.
        """
        self._write, self._leaves = write, leaves
        self._draws, self._stop, self._log_every, self._hear = draws, stop, log_every, hear
        self._queue: deque[Pending] = deque()
        self.restart_clock()

    def add(self, update: Pending) -> None:
        """Takes an update that was handed to the device; finishes the one before it.

        Raises:
            NonFiniteError: that one was not finite.
        """
        self._queue.append(update)
        while len(self._queue) > _AHEAD:
            self._finish(self._queue.popleft())

    def drain(self) -> None:
        """Waits for all updates and writes them."""
        while self._queue:
            self._finish(self._queue.popleft())

    def restart_clock(self) -> None:
        """Leaves what happened since the last fetch (a validation, a checkpoint) out of the next update's time."""
        self._last = time.perf_counter()

    def _finish(self, update: Pending) -> None:
        values: dict[str, np.ndarray] = jax.device_get(update.metrics)
        self._hear(int(update.vote))
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        nonfinite = values.pop("nonfinite")
        if self._stop:
            draws = self._draws(update.step) if self._draws else None
            check_finite(update.step, float(values["loss"]), nonfinite, self._leaves, draws=draws)
        if update.step % self._log_every == 0:
            self._write(_row(update, {name: value.item() for name, value in values.items()}, seconds))


def _row(update: Pending, values: Row, seconds: float) -> Row:
    row = {"phase": "train", "step": update.step} | values
    row |= {
        "step_seconds": seconds,
        "data_wait_seconds": update.wait_seconds,
        "real_tokens_per_second": update.counts.tokens / seconds,
        "slot_utilisation": update.counts.utilisation,
    }
    for stream, (tokens, slots) in update.counts.streams.items():
        row |= {f"{stream}_utilisation": tokens / slots, f"{stream}_slots": slots}
    peak = peak_memory_bytes()
    return row if peak is None else row | {"peak_memory_bytes": peak}
