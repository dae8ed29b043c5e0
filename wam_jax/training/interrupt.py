"""Being asked to stop: the first SIGTERM or Ctrl-C ends the loop after the current update, a second one at once.

One request often comes as several signals: a signal to a whole group of processes reaches this one directly and, passed
on, from what launched it. What follows within `REPEAT_SECONDS` is therefore the same request.

Of several processes any may be asked. Each update carries what every process was asked, so that all learn it with the
numbers of the same update, and stop and save after the same one.
"""

import signal
import time
from types import FrameType
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from wam_jax.training.mesh import process_rows, put_rows, replicated

REPEAT_SECONDS = 2.0
"""How long after a request another signal says the same again."""

_CODES = {signal.SIGTERM: 0, signal.SIGINT: 130}


class StopRequest:
    """A context in which SIGTERM and SIGINT are noted instead of ending the process.

    Attributes:
        signal: what this process received, or None.
        agreed: what all processes know that one of them received, or None.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.agreed: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._since = 0.0

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._note) for number in _CODES}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    @property
    def requested(self) -> bool:
        """Whether to stop; the same on all processes between the same updates."""
        return self._known is not None

    @property
    def exit_code(self) -> int:
        """What the process ends with: 0 (nothing asked, or SIGTERM and all is saved), 130 after Ctrl-C."""
        return _CODES[self._known] if self._known else 0

    def hear(self, number: int) -> None:
        """Takes what the processes were asked, as an update carried it (`Votes`); 0 is nothing."""
        if number:
            self.agreed = signal.Signals(number)

    @property
    def _known(self) -> signal.Signals | None:
        return self.agreed if jax.process_count() > 1 else self.signal

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal is None:
            self.signal, self._since = signal.Signals(number), time.monotonic()
        elif time.monotonic() - self._since >= REPEAT_SECONDS:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}


class Votes:
    """Collects what the processes were asked, on the devices, beside the updates."""

    def __init__(self, stop: StopRequest, mesh: Mesh) -> None:
        self._stop, self._mesh, self._rows = stop, mesh, len(process_rows(mesh))
        self._most = jax.jit(jnp.max, out_shardings=replicated(mesh))

    def cast(self) -> jax.Array | int:
        """The number of the signal that any process has received so far, 0 for none: int32[]; all must call it.

        A process alone need not ask itself.
        """
        if jax.process_count() == 1:
            return 0
        own = np.full(self._rows, self._stop.signal or 0, np.int32)
        return self._most(put_rows(self._mesh, own))
