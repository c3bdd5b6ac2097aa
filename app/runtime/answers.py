"""Threads for answers that take their time, so that probes never wait for one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

from app.runtime.problems import Refusal

_MOST_WAITING: Final = 100
_LATER: Final = {"retry-after": "1"}

_Answer = TypeVar("_Answer")


class AnswerThreads:
    """Hands questions to a few threads of their own, in which they wait for one another."""

    def __init__(self, count: int) -> None:
        self._limiter = CapacityLimiter(count)

    async def answer(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return the answer to a question.

        Raises:
            Refusal: too many wait already, or what the question raises.
        """
        if self._limiter.statistics().tasks_waiting >= _MOST_WAITING:
            raise Refusal(503, "too many questions at once", headers=_LATER)
        return await to_thread.run_sync(ask, limiter=self._limiter)
