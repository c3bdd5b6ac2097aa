"""Threads for answers that take their time, so that probes never wait for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

from app.kube.lookup_limits import LimitReached
from app.runtime.bounds import PortLimit
from app.runtime.problems import Refusal

_MOST_WAITING: Final = 100
_LATER: Final = {"retry-after": "1"}

_Answer = TypeVar("_Answer")


class AnswerThreads:
    """Hands questions to a few threads of their own, in which they wait for one another."""

    def __init__(self, count: int, reached: LimitReached) -> None:
        self._reached = reached
        self._limiter = CapacityLimiter(count)
        self._most = count + _MOST_WAITING
        self._asked = 0  # being answered, or waiting

    async def answer(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return the answer to a question.

        Raises:
            Refusal: too many wait already, or what the question raises.
        """
        if self._asked >= self._most:
            self._reached(PortLimit.WAITING_QUESTIONS, most=_MOST_WAITING)
            raise Refusal(503, "too many questions at once", headers=_LATER)
        self._asked += 1
        try:
            return await to_thread.run_sync(ask, limiter=self._limiter)
        finally:
            self._asked -= 1


class SharedPage:
    """A page that is the same for all, made once for those who ask while it is being made."""

    def __init__(self, page: Callable[[], bytes]) -> None:
        self._page = page
        self._limiter = CapacityLimiter(1)
        self._under_way: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        """Return it."""
        if self._under_way is None:
            self._under_way = asyncio.ensure_future(
                to_thread.run_sync(self._page, limiter=self._limiter)
            )
            self._under_way.add_done_callback(self._forget)
        return await asyncio.shield(self._under_way)

    def _forget(self, _done: asyncio.Task[bytes]) -> None:
        self._under_way = None
