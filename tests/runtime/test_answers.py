"""Pages that take a while are made few at a time, and keep no probe waiting."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from functools import partial

import httpx
import pytest

from app.runtime.answers import AnswerThreads, Refusal, SharedPage
from app.runtime.bounds import PortLimit
from app.runtime.probes import probes
from tests.reached_limits import ReachedLimits
from tests.runtime.serving import WAIT_SECONDS, serving


def test_a_shared_page_is_made_once() -> None:
    """Those who ask while a page is being made get that one, the next gets another one."""
    made: list[bytes] = []

    def page() -> bytes:
        made.append(b"page %d" % len(made))
        return made[-1]

    async def ask() -> list[bytes]:
        shared = SharedPage(page)
        together = await asyncio.gather(*(shared.get() for _ in range(5)))
        return [*together, await shared.get()]

    assert asyncio.run(ask()) == [b"page 0"] * 5 + [b"page 1"]


def test_a_page_that_fails_is_tried_again() -> None:
    """A fault is told to those who asked, and not kept."""

    async def ask() -> bytes:
        page = iter((ZeroDivisionError(), b"page"))

        def made() -> bytes:
            found = next(page)
            if isinstance(found, Exception):
                raise found
            return found

        shared = SharedPage(made)
        with pytest.raises(ZeroDivisionError):
            await shared.get()
        return await shared.get()

    assert asyncio.run(ask()) == b"page"


def test_few_pages_at_a_time() -> None:
    """Many who ask for different pages get as many at a time as there are threads."""
    lock, now, most = threading.Lock(), [0], [0]
    both = threading.Barrier(2)

    def page() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        both.wait(WAIT_SECONDS)
        with lock:
            now[0] -= 1

    async def ask() -> None:
        threads = AnswerThreads(2, ReachedLimits())
        await asyncio.gather(*(threads.answer(page) for _ in range(10)))

    asyncio.run(ask())
    assert most == [2]


def test_too_many_who_wait() -> None:
    """Beyond a hundred who wait for a thread others are refused at once, and counted."""
    reached, may_end = ReachedLimits(), threading.Event()

    async def ask() -> list[int | None]:
        threads = AnswerThreads(1, reached)

        async def status() -> int | None:
            try:
                await threads.answer(partial(may_end.wait, WAIT_SECONDS))
            except Refusal as refusal:
                return refusal.status
            finally:
                may_end.set()
            return None

        return await asyncio.gather(*(status() for _ in range(103)))

    found = asyncio.run(ask())
    assert (found.count(503), found.count(None)) == (2, 101)
    assert reached.counts == {PortLimit.WAITING_QUESTIONS: 2}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health-check"])
def test_probes_do_not_wait(path: str) -> None:
    """A probe is answered while a hundred clients wait for a page that never comes."""
    begun, told = threading.Event(), threading.Event()

    def page() -> bytes:
        begun.set()
        told.wait(WAIT_SECONDS)
        return b""

    app = probes(lambda: "", lambda: "", page)
    with serving(app) as at, ExitStack() as stack:
        stack.callback(told.set)
        for _ in range(100):
            client = stack.enter_context(at.connected())
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert begun.wait(WAIT_SECONDS)
        assert httpx.get(f"http://127.0.0.1:{at.port}{path}", timeout=5).status_code == 200
