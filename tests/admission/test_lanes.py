"""Reviews that cannot be answered at once get their turn, whatever others send."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest
from starlette.types import Message

from app.admission.app import Lane, while_wanted
from app.admission.metrics import Drop


class Work:
    """Work that ends when it is told to, and notes who began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ends = threading.Semaphore(0)
        self.began = threading.Semaphore(0)

    def __call__(self, name: str) -> str:
        """Begin, and wait for the end."""
        self.begun.append(name)
        self.began.release()
        assert self.ends.acquire(timeout=30)
        return name


def order(lane_places: int, share: int, names: list[str]) -> list[str]:
    """Return in which order work begins; its namespace is the first letter of a name."""

    async def play() -> list[str]:
        lane, work = Lane(lane_places, share), Work()
        tasks = []
        for name in names:
            tasks.append(asyncio.create_task(lane.run(name[0], partial(work, name))))
            await asyncio.sleep(0)
        for _ in range(lane_places):
            assert await asyncio.to_thread(work.began.acquire, True, 30)
        work.ends.release(len(names))
        assert await asyncio.gather(*tasks) == names
        assert not lane._shares
        return work.begun

    return asyncio.run(play())


def test_namespaces_take_turns() -> None:
    """The work of another namespace waits for one before it, however many there are."""
    assert order(1, 1, ["a1", "a2", "a3", "b1"])[:2] == ["a1", "b1"]


def test_a_namespace_has_a_share() -> None:
    """Some places stay free for others; work in different places begins in any order."""
    assert sorted(order(3, 2, ["a1", "a2", "a3", "b1"])[:3]) == ["a1", "a2", "b1"]


async def forever() -> Message:
    """Receive nothing more."""
    await asyncio.Event().wait()
    raise AssertionError


async def gone() -> Message:
    """Tell that the client has gone."""
    return {"type": "http.disconnect"}


async def wait() -> str:
    """Wait for a turn that never comes."""
    return await asyncio.wait_for(asyncio.Event().wait(), 30) and "done"


async def done() -> str:
    """Need no time."""
    return "done"


def test_what_is_done_is_returned() -> None:
    """Work that ends in time has its result."""
    assert asyncio.run(while_wanted(forever, 30.0, done)) == "done"


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01])
def test_time_that_is_over(seconds: float) -> None:
    """Work that waits longer than it may is given up."""
    assert asyncio.run(while_wanted(forever, seconds, wait)) is Drop.TIME_OVER


def test_a_client_that_has_gone() -> None:
    """Work that waits for nobody is given up."""
    assert asyncio.run(while_wanted(gone, 30.0, wait)) is Drop.CLIENT_GONE


def test_work_that_has_begun_is_finished() -> None:
    """A thread cannot be stopped: its place is free when it ends, and not before."""

    async def play() -> tuple[object, object]:
        lane, work = Lane(1, 1), Work()
        first = asyncio.create_task(
            while_wanted(forever, 0.01, lambda: lane.run("a", lambda: work("1")))
        )
        assert await asyncio.to_thread(work.began.acquire, True, 30)
        second = await while_wanted(forever, 0.02, lambda: lane.run("b", lambda: work("2")))
        work.ends.release()
        return await first, second

    assert asyncio.run(play()) == ("1", Drop.TIME_OVER)
