"""The life of a process: what it begins with, and the signals that end it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from app.runtime.garbage import collect_seldom, give_back
from app.runtime.live import Running
from app.runtime.logs import start_logging

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_TERMINAL_SIGNALS: Final = (*_STOP_SIGNALS, signal.SIGHUP)  # the last when its window is closed


def run_until_signal(process: Callable[[], Running], verbosity: int, log: logging.Logger) -> int:
    """Make a process, let it go on until a signal, end it, and return the exit code."""
    start_logging(verbosity)
    give_back()
    collect_seldom()
    stopping, _ = stop_events()
    running = process()
    running.start()
    stopping.wait()
    log.info("stopping")
    running.stop()
    return 0


def stop_events() -> tuple[Event, Event]:
    """Return the event that the first signal to stop sets, and the one that the next one sets."""
    stopping, hurrying = Event(), Event()
    _relay(_STOP_SIGNALS, lambda: (hurrying if stopping.is_set() else stopping).set())
    return stopping, hurrying


def _relay(numbers: Collection[signal.Signals], act: Callable[[], None]) -> Callable[[], None]:
    """Let a thread act at each of these signals; return what ends that.

    The thread reads from a pipe what the interpreter writes as soon as a signal arrives. A handler
    would not do: of two signals at almost the same moment one may reach a thread that is not the
    main thread, which then goes on waiting; and where a handler interrupts the main thread, it
    may hold the very lock that setting an event needs.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def relay() -> None:
        while number := os.read(reading, 1):
            if number[0] in numbers:  # others have handlers too
                act()
        os.close(reading)

    thread = Thread(target=relay, name="signals", daemon=True)
    thread.start()
    outer = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}

    def end() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(outer)
        os.close(writing)
        thread.join()

    return end


def ignore_stop_signals() -> None:
    """Let another process say when this one stops, though a terminal tells both of them."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Keep signals to stop from this thread, and from processes that it starts meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def stopped_from_terminal(stopping: Event) -> Iterator[None]:
    """Let signals to stop, and the end of the terminal, set an event as long as the block lasts."""
    end = _relay(_TERMINAL_SIGNALS, stopping.set)
    try:
        yield
    finally:
        end()
