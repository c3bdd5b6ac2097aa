"""Lets a recommender work while its process leads, and begin again with every term.

Strategy: history that stood still while another process led is out of date, so it is stored when
a term ends and read again when the next one begins. It is stored only while no other process can
have stepped in; after that what the next leader stores stands. A process that must end soon says
so, and a round under way writes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from app.ports import Clock
from app.recommender.recommender import Recommender
from app.runtime.election import Leadership

_LOOK_SECONDS: Final = 0.2
_END_SECONDS: Final = 20.0  # for storing history when told to stop

Begin = Callable[[Callable[[], bool]], Recommender]  # told when it may write


class LeaderLoop:
    """One recommender a term; `tick` and `close` are for a loop."""

    def __init__(
        self,
        leadership: Leadership,
        is_ready: Callable[[], bool],  # whether the cluster is known
        begin: Begin,
        clock: Clock,
        patience_seconds: float,  # without a finished round, until something must be wrong
    ) -> None:
        self._leadership = leadership
        self._is_ready = is_ready
        self._patience_seconds = patience_seconds
        self._begin = begin
        self._clock = clock
        self._recommender: Recommender | None = None
        self._term = 0
        self._began = 0.0
        self._hurried: float | None = None  # since when

    def tick(self, now: datetime) -> float:
        """Work if we lead; return the seconds until the next look."""
        if not self._leadership.is_leading():
            self._end(now)
            return _LOOK_SECONDS
        if self._recommender is not None and self._term != self._leadership.term:
            self._recommender = None  # another process led, and knows better
        if not self._is_ready():
            return _LOOK_SECONDS
        if self._recommender is None:
            self._term, self._began = self._leadership.term, self._clock.monotonic()
            self._recommender = self._begin(self._may_continue)
        return self._recommender.tick(now)

    def hurry(self) -> None:
        """Let the round that is under way end soon; from any thread."""
        self._hurried = self._clock.monotonic()

    def close(self, now: datetime) -> None:
        """Store history, as the last deed of the term."""
        self._end(now)

    def problem(self) -> str:
        """Say since when no round was finished, if that is too long; a standby is well."""
        recommender = self._recommender
        if recommender is None:
            return ""
        last = self._began if recommender.finished is None else recommender.finished
        seconds = self._clock.monotonic() - last
        if seconds <= self._patience_seconds:
            return ""
        return f"no round was finished for {seconds:.0f} s"

    def _may_continue(self) -> bool:
        return self._hurried is None and self._is_our_term(self._leadership.is_leading())

    def _is_our_term(self, is_leading: bool) -> bool:
        return is_leading and self._term == self._leadership.term

    def _end(self, now: datetime) -> None:
        recommender, self._recommender = self._recommender, None
        if recommender is None:
            return
        seconds = _END_SECONDS
        if self._hurried is not None:
            seconds -= self._clock.monotonic() - self._hurried
        recommender.flush(now, seconds, lambda: self._is_our_term(self._leadership.may_finish()))
