"""Being asked to stop: the first SIGTERM or Ctrl-C ends the loop after the current update, a second one at once."""

import signal
from types import FrameType
from typing import Any, Self

_CODES = {signal.SIGTERM: 0, signal.SIGINT: 130}


class StopRequest:
    """A context in which SIGTERM and SIGINT are noted instead of ending the process.

    Attributes:
        signal: what was received, or None.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._note) for number in _CODES}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    @property
    def requested(self) -> bool:
        """Whether to stop."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What the process ends with: 0 (nothing asked, or SIGTERM and all is saved), 130 after Ctrl-C."""
        return _CODES[self.signal] if self.signal else 0

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
