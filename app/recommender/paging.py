"""Reads what may take long so that whoever has to end soon need not wait for it.

Strategy: each page is read in a thread of its own, which ends with the call that it waits for.
Whoever waits looks up now and then, and goes when there is no point in waiting any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Final, TypeVar

from app.model.errors import PlumblineError, Unavailable

log = logging.getLogger("recommender.reads")

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.2


def leavable(pages: Iterator[T], may_wait: Callable[[], bool]) -> Iterator[T]:
    """Yield pages as they come.

    Raises:
        Unavailable: nobody may wait for the next one any longer.
    """
    while True:
        coming: Future[T | None] = Future()
        Thread(target=_read, args=(pages, coming), name="reading", daemon=True).start()
        page = _awaited(coming, may_wait)
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


def _awaited(coming: Future[T], may_wait: Callable[[], bool]) -> T:
    while True:
        try:
            return coming.result(_LOOK_SECONDS)
        except TimeoutError:
            if coming.done():
                return coming.result()
            if not may_wait():
                raise Unavailable(
                    "the rest is not read, for this process no longer leads"
                ) from None
