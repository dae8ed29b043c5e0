"""Where rows of metrics go: the file, TensorBoard, the progress bar."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from tensorboardX import SummaryWriter
from tqdm import tqdm

from wam_jax.training.metrics import Row

_TERMINAL_SECONDS, _LOG_SECONDS = 0.2, 20.0


class Sink(Protocol):
    """Something that takes rows, in order."""

    def write(self, row: Row) -> None:
        """Takes one row."""
        ...

    def sync(self) -> None:
        """Makes what was taken durable."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


class TensorBoard:
    """Every finite number of a row as the scalar PHASE/NAME; points beyond step `kept` of earlier starts are discarded.

    The mean over no sample is no number, and so no point.
    """

    def __init__(self, directory: Path, *, kept: int) -> None:
        self._writer = SummaryWriter(str(directory), purge_step=kept + 1)

    def write(self, row: Row) -> None:
        for name, value in row.items():
            if isinstance(value, int | float) and math.isfinite(value) and name != "step":
                self._writer.add_scalar(f"{row['phase']}/{name}", value, row["step"])

    def sync(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class ProgressBar:
    """Steps, loss, steps/s and real tokens/s on standard error; a line now and then where that is no terminal."""

    def __init__(self, *, total: int, done: int) -> None:
        interval = _TERMINAL_SECONDS if sys.stderr.isatty() else _LOG_SECONDS
        self._bar = tqdm(total=total, initial=done, unit="step", mininterval=interval, dynamic_ncols=True)
        self._bar.set_description_str("compiling")

    def write(self, row: Row) -> None:
        if row["phase"] == "val":
            self._bar.write(describe_validation(row), file=sys.stderr)
            return
        self._bar.set_description_str("training", refresh=False)
        tokens = row["real_tokens_per_second"]
        self._bar.set_postfix_str(f"loss {row['loss']:.4f}, {tokens:,.0f} tokens/s", refresh=False)
        self._bar.update(row["step"] - self._bar.n)

    def sync(self) -> None:
        """Nothing to keep."""

    def close(self) -> None:
        self._bar.close()


def describe_validation(row: Row) -> str:
    """One line on a validation, with the loss of predicting zero beside each loss."""
    parts = [f"{name} {row[name]:.4f} (zero prediction {row['zero_' + name]:.4f})" for name in _LOSSES]
    return f"step {row['step']}: held-out {', '.join(parts)}"


_LOSSES = ("loss", "video_loss", "action_loss")


class Recorder:
    """Hands rows to all sinks, and knows which validations there are.

    Attributes:
        validated: steps of the validations among the rows, earlier starts included.
    """

    def __init__(self, sinks: Sequence[Sink], *, earlier: Sequence[Row] = ()) -> None:
        self._sinks = sinks
        self.validated = {row["step"] for row in earlier if row["phase"] == "val"}

    def write(self, row: Row) -> None:
        """Takes one row."""
        if row["phase"] == "val":
            self.validated.add(row["step"])
        for sink in self._sinks:
            sink.write(row)

    def sync(self) -> None:
        """Makes all rows durable, as a checkpoint that counts on them needs."""
        for sink in self._sinks:
            sink.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sink in self._sinks:
            sink.close()
