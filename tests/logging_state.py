"""Puts logging back as it was, after something has set it up as a process does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from app.runtime.logs import ROOMS

_SWITCHES = ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing")
_LOGGERS = ("", *ROOMS, "admission.reviews")


@contextmanager
def kept() -> Iterator[None]:
    """Let a block do with logging what it wants."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.handlers[:], logger.level) for logger in loggers]
    switched = {name: getattr(logging, name) for name in _SWITCHES}
    try:
        yield
    finally:
        for logger, (handlers, level) in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers
            logger.setLevel(level)
        for name, value in switched.items():
            setattr(logging, name, value)
