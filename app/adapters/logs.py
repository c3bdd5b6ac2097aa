"""Log lines as JSON: a constant message, and the keys that belong to it.

Strategy: a line is written for every pod that is changed, so a record carries only what the line
shows; where a call stands in the source, or in which thread, it does not.
"""

from __future__ import annotations

import logging
import sys
import time
from functools import lru_cache
from typing import BinaryIO

import orjson

# What every record carries; all else came in by `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error"}
_DEBUG_FROM = 6  # of -v; upstream's own tests run with 6
_QUIET_UP_TO = 0
_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


class JsonLines(logging.Handler):
    """Writes each record as one line of JSON."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        super().__init__()
        self._stream = stream or sys.stderr.buffer

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; a stream that is gone is not an error."""
        try:
            self._stream.write(line(record))
            self._stream.flush()
        except (OSError, ValueError):
            self.close()


def line(record: logging.LogRecord) -> bytes:
    """Return a record as a line of JSON."""
    carried = record.__dict__
    found: dict[str, object] = {
        "time": f"{_second(int(record.created))}{int(record.msecs):03d}Z",
        "level": _LEVELS.get(record.levelname, record.levelname.lower()),
        "message": record.getMessage(),
    }
    for key in carried:
        if key not in _STANDARD:
            found[key] = carried[key]
    if record.exc_info and record.exc_info[1] is not None:
        found["exception"] = logging.Formatter().formatException(record.exc_info)
    found["logger"] = record.name
    return orjson.dumps(found, default=str, option=_OPTIONS)


@lru_cache(2)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(moment))


def start_logging(verbosity: int) -> None:
    """Send our own records to standard error; those of libraries only when they warn."""
    # As the logging documentation advises where these are not shown.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [JsonLines()]
    root.setLevel(logging.WARNING)
    level = logging.DEBUG if verbosity >= _DEBUG_FROM else logging.INFO
    ours = logging.getLogger("app")
    ours.setLevel(logging.WARNING if verbosity <= _QUIET_UP_TO else level)
