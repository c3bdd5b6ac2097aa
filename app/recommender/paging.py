"""Lists of objects, read page by page; a shutdown does not wait for a page that is late.

Strategy: each page is read in a thread of its own, which ends with the call that it waits for.
Every 0.2 s the reader checks whether it may still wait. Calls have deadlines of their own; a page
that takes far longer is given up all the same, for a round must end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Final, TypeVar

from app.kube.listing import pages
from app.model.errors import PlumblineError, Unavailable
from app.ports import Cluster, Json, Resource

log = logging.getLogger("recommender.reads")

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.2
_SLOW_SECONDS: Final = 30.0  # after which a page that does not come is told of
_LONGEST_SECONDS: Final = 120.0


def leavable(
    what: str,
    pages: Iterator[T],
    may_continue: Callable[[], bool],
    seconds: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """Yield pages of something as they come.

    Raises:
        Unavailable: the next one may not be waited for any longer.
    """
    while True:
        coming: Future[T | None] = Future()
        Thread(target=_read, args=(pages, coming), name="reading", daemon=True).start()
        page = _awaited(what, coming, may_continue, seconds)
        if page is None:
            return
        yield page


def _read(pages: Iterator[T], coming: Future[T | None]) -> None:
    try:
        coming.set_result(next(pages, None))
    except PlumblineError as error:
        coming.set_exception(error)
    except Exception:
        log.exception("reading failed unexpectedly")
        coming.set_exception(Unavailable("reading failed unexpectedly"))


def _awaited(
    what: str, coming: Future[T], may_continue: Callable[[], bool], seconds: Callable[[], float]
) -> T:
    began, is_told = seconds(), False
    while True:
        try:
            return coming.result(_LOOK_SECONDS)
        except TimeoutError:
            if coming.done():
                return coming.result()
        waited = seconds() - began
        if not may_continue():
            raise Unavailable("the rest is not read, for this process no longer leads")
        if waited > _LONGEST_SECONDS:
            raise Unavailable(f"{what}: no answer within {waited:.0f} s, so it is given up")
        if waited > _SLOW_SECONDS and not is_told:
            is_told = True
            log.warning("still waiting", extra={"what": what, "seconds": round(waited)})


def listed(
    cluster: Cluster, resource: Resource, namespace: str, may_continue: Callable[[], bool]
) -> Iterator[Sequence[Json]]:
    """Yield the objects of a kind, a page at a time.

    Raises:
        ClusterError: the rest cannot be read, or may not be read any longer.
    """
    for page in pages(cluster, resource, namespace):
        yield page.items
        if page.continue_token and not may_continue():
            raise Unavailable("the rest is not read, for this is no longer the leader")
