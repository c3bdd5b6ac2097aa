"""Asks a Prometheus with patience: one that is busy is given the time that it asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from app.model.errors import ClusterError, NotSent, Unavailable
from app.model.text import printable
from app.ports import Json, Prometheus
from app.recommender.core.reading import Question

Wait = Callable[[float], object]
Tell = Callable[[str], None]

_TOO_MUCH: Final = (413, 504)  # status codes
_EXECUTION: Final = 422  # whatever went wrong with a query
_TOO_MUCH_WORDS: Final = re.compile(
    r"too (many|much|large|long)|more than|exceed|limit|time[d ]*out|maximum"
)
_BUSY: Final = (429, 500, 502, 503)
_TRIES: Final = 8
_TRIES_IF_CUT: Final = 3  # of answers that end too early
_FIRST_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_LONGEST_WAIT_SECONDS: Final = 600.0  # that a server may ask for
_TOLD_SECONDS: Final = 4.0  # so long a wait is told
_CUT_SHORT: Final = ("truncated", "limit", "partial")  # in the warnings of an answer


def silent(_text: str) -> None:
    """Tell nobody."""


class TooMuch(ClusterError):
    """A question is more than the server answers."""


class Unanswerable(ClusterError):
    """A question has no answer, neither now nor in parts."""


class PatientPrometheus:
    """Asks a Prometheus, again if it is busy or away; not if it never was there."""

    def __init__(
        self, server: Prometheus, wait: Wait, tell: Tell = silent, *, is_reached: bool = False
    ) -> None:
        self._server = server
        self._wait = wait
        self._tell = tell
        self._is_reached = is_reached

    def ask(self, question: Question) -> Json:
        """Return the answer to a question.

        Raises:
            TooMuch: less should be asked for.
            Unanswerable: the server cannot execute it, and it is not too much.
            ClusterError: it is refused, or there was no answer several times.
        """
        seconds = _FIRST_RETRY_SECONDS
        for tries in range(1, _TRIES + 1):
            try:
                return self._asked(question)
            except ClusterError as error:
                is_cut = isinstance(error, Unavailable) and not isinstance(error, NotSent)
                is_cut = is_cut and not error.status
                is_failed = error.status == _EXECUTION
                is_much = error.status in _TOO_MUCH or isinstance(error, TooMuch)
                is_much |= is_failed and bool(_TOO_MUCH_WORDS.search(error.message.lower()))
                if is_much or (is_cut and tries == _TRIES_IF_CUT):
                    raise TooMuch(error.message, status=error.status) from None
                if is_failed:
                    raise Unanswerable(error.message, status=error.status) from None
                is_absent = isinstance(error, NotSent) and not self._is_reached
                is_busy = error.status in _BUSY or isinstance(error, Unavailable)
                if is_absent or not is_busy or tries == _TRIES:
                    raise
                asked = min(error.retry_after_seconds or 0.0, _LONGEST_WAIT_SECONDS)
                status = error.status
            self._say(status, max(seconds, asked))
            self._wait(max(seconds, asked))
            seconds = min(seconds * 2, _LONGEST_RETRY_SECONDS)
        raise AssertionError

    def _say(self, status: int, seconds: float) -> None:
        if seconds >= _TOLD_SECONDS:
            how = f"is busy (status {status})" if status else "does not answer"
            self._tell(f"Prometheus {how}, it is asked again in {seconds:.0f} s")

    def _asked(self, question: Question) -> Json:
        server, end = self._server, question.end
        if question.start is None:
            body = server.query(question.query, end)
        else:
            body = server.query_range(question.query, question.start, end, question.step)
        self._is_reached = True
        for text in body.get("warnings") or ():
            if any(word in str(text).lower() for word in _CUT_SHORT):
                raise TooMuch(f"the answer is not whole: {printable(str(text))}", status=_EXECUTION)
        return body
