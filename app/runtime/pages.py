"""Pages that take a while: made in threads of their own, so that no probe waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")

_AT_ONCE: Final = 2


class PageThreads:
    """Makes pages, few at a time; others wait, which takes no thread."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(_AT_ONCE)

    async def make(self, page: Callable[[], T]) -> T:
        """Return what a function makes."""
        return await to_thread.run_sync(page, limiter=self._limiter)


class SharedPage:
    """A page that is the same for all, made once for those who ask while it is being made."""

    def __init__(self, page: Callable[[], bytes]) -> None:
        self._page = page
        self._threads = PageThreads()
        self._under_way: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        """Return it."""
        if self._under_way is None:
            self._under_way = asyncio.ensure_future(self._threads.make(self._page))
            self._under_way.add_done_callback(self._forget)
        return await asyncio.shield(self._under_way)

    def _forget(self, _done: asyncio.Task[bytes]) -> None:
        self._under_way = None
