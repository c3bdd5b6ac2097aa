"""Ctrl-Z and `fg`: what a shell asks of a program on its terminal.

Strategy: a signal leaves a mark and nothing else, for it may come in the middle of a line; what
it asks for is done between two frames.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Job:
    """This program, as the shell sees it."""

    def __init__(self) -> None:
        self._is_to_stop = False
        self._is_continued = False

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Take note of what the shell asks for; the former handlers come back."""
        marks = {signal.SIGTSTP: self._asked, signal.SIGCONT: self._continued}
        before = {number: signal.signal(number, mark) for number, mark in marks.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def is_to_stop(self) -> bool:
        """Whether the shell has asked for it since this was asked last."""
        asked, self._is_to_stop = self._is_to_stop, False
        return asked

    def is_continued(self) -> bool:
        """Whether we were stopped, by whomever, since this was asked last."""
        continued, self._is_continued = self._is_continued, False
        return continued

    def stop(self) -> None:
        """Stop, until somebody continues us."""
        mark = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, mark)

    def _asked(self, *_: object) -> None:
        self._is_to_stop = True

    def _continued(self, *_: object) -> None:
        self._is_continued = True
