"""Threads for answers that take their time, so that probes never wait for one of them."""

from __future__ import annotations

import asyncio
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


class SharedPage:
    """A page that is the same for all, made once for those who ask while it is being made."""

    def __init__(self, page: Callable[[], bytes]) -> None:
        self._page = page
        self._threads = AnswerThreads(1)
        self._under_way: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        """Return it."""
        if self._under_way is None:
            self._under_way = asyncio.ensure_future(self._threads.answer(self._page))
            self._under_way.add_done_callback(self._forget)
        return await asyncio.shield(self._under_way)

    def _forget(self, _done: asyncio.Task[bytes]) -> None:
        self._under_way = None
