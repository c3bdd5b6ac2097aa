"""Lists of objects, read page by page; a shutdown does not wait for a page that is late.

Strategy: each page is read in a thread of its own, which ends with the call that it waits for.
Every 0.2 s the reader checks whether it may still wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Final, TypeVar

from app.model.errors import PlumblineError, Unavailable
from app.ports import Cluster, Json, Resource

log = logging.getLogger("recommender.reads")

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.2

_PAGE: Final = 500


def leavable(pages: Iterator[T], may_continue: Callable[[], bool]) -> Iterator[T]:
    """Yield pages as they come.

    Raises:
        Unavailable: the next one may not be waited for any longer.
    """
    while True:
        coming: Future[T | None] = Future()
        Thread(target=_read, args=(pages, coming), name="reading", daemon=True).start()
        page = _awaited(coming, may_continue)
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


def _awaited(coming: Future[T], may_continue: Callable[[], bool]) -> T:
    while True:
        try:
            return coming.result(_LOOK_SECONDS)
        except TimeoutError:
            if coming.done():
                return coming.result()
            if not may_continue():
                raise Unavailable(
                    "the rest is not read, for this process no longer leads"
                ) from None


def listed(
    cluster: Cluster, resource: Resource, namespace: str, may_continue: Callable[[], bool]
) -> Iterator[Sequence[Json]]:
    """Yield the objects of a kind, a page at a time.

    Raises:
        ClusterError: the rest cannot be read, or may not be read any longer.
    """
    token = ""
    while True:
        page = cluster.list(resource, namespace, limit=_PAGE, continue_token=token)
        yield page.items
        token = page.continue_token
        if not token:
            return
        if not may_continue():
            raise Unavailable("the rest is not read, for this is no longer the leader")
