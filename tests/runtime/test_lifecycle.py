"""A process ends with a signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from app.runtime.lifecycle import (
    ignore_stop_signals,
    stop_events,
    stopped_from_terminal,
)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Bring back what signals did before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_the_second_signal_hurries() -> None:
    """The first signal to stop stops, whichever it is, and the next one says that it hurries."""
    stopping, hurrying = stop_events()
    seen = [(stopping.is_set(), hurrying.is_set())]
    for number, event in ((signal.SIGTERM, stopping), (signal.SIGINT, hurrying)):
        signal.raise_signal(number)
        event.wait(10)
        seen.append((stopping.is_set(), hurrying.is_set()))
    assert seen == [(False, False), (True, False), (True, True)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_stops(number: signal.Signals) -> None:
    """A signal of the terminal sets the event, and what signals did before comes back."""
    before, stopping = signal.getsignal(number), Event()
    with stopped_from_terminal(stopping):
        signal.raise_signal(number)
    assert stopping.is_set()
    assert signal.getsignal(number) == before


def test_a_flood_of_signals_stops() -> None:
    """Signals that arrive while others are handled hold up nothing, and other signals count not."""
    before, stopping = signal.getsignal(signal.SIGCONT), Event()
    signal.signal(signal.SIGCONT, lambda *_: None)
    try:
        with stopped_from_terminal(stopping):
            signal.raise_signal(signal.SIGCONT)
            assert not stopping.wait(0.01)
            flood = Thread(target=interrupt_often)
            flood.start()
            while flood.is_alive():
                stopping.set()
                stopping.clear()
            flood.join()
            signal.raise_signal(signal.SIGINT)
        assert stopping.is_set()
    finally:
        signal.signal(signal.SIGCONT, before)


def interrupt_often() -> None:
    """Interrupt the main thread again and again."""
    for _ in range(20_000):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("handlers")
def test_signals_that_another_process_handles() -> None:
    """They do nothing here."""
    ignore_stop_signals()
    signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
