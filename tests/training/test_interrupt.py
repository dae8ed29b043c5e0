"""The first request is noted, however many signals say it; the second one does what it always did."""

import os
import signal
from collections.abc import Iterator

import pytest

from wam_jax.training import interrupt
from wam_jax.training.interrupt import StopRequest


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_first_signal_is_noted(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert (stop.requested, stop.exit_code) == (False, 0)
        os.kill(os.getpid(), number)
        assert (stop.requested, stop.exit_code) == (True, code)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("first", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
def test_a_request_that_comes_twice_is_one(first: signal.Signals, code: int, again: signal.Signals) -> None:
    with StopRequest() as stop:
        for number in (first, again, again):
            os.kill(os.getpid(), number)
        assert (stop.signal, stop.exit_code) == (first, code)


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Ctrl-C raises, also where whoever started the tests ignores it, as shells do for jobs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_a_second_interrupt_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "REPEAT_SECONDS", 0)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_put_back_without_a_signal() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
