"""Log lines as JSON: a constant message, and the keys that belong to it.

Strategy: a line is written for every pod that is changed, so a record carries only what the line
shows; where a call stands in the source, or in which thread, it does not. Nothing that is logged
may fail the work that logs it, nor flood whoever reads it: a record that JSON cannot tell, or
that is too long, is told in words and shortened.
"""

from __future__ import annotations

import logging
import reprlib
import sys
import time
from contextlib import suppress
from functools import lru_cache
from typing import BinaryIO, Final

import orjson

# What every record carries; all else came in by `extra`.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS: Final = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error"}
_INFO_FROM: Final = 1  # of -v
_DEBUG_FROM: Final = 6  # of -v; upstream's own tests run with 6
_OPTIONS: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
_LONGEST_BYTES: Final = 16_384  # container runtimes cut lines that are longer
_LONGEST_WORDS: Final = 1_000  # characters at each end of one value

_WORDS: Final = reprlib.Repr()
_WORDS.maxlevel, _WORDS.maxdict, _WORDS.maxlist, _WORDS.maxtuple = 3, 20, 20, 20
_WORDS.maxstring = _WORDS.maxother = 400


class JsonLines(logging.Handler):
    """Writes each record as one line of JSON."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; a stream that is gone is not an error."""
        found = line(record)
        with suppress(OSError, ValueError):
            self._stream.write(found)
            self._stream.flush()


def line(record: logging.LogRecord) -> bytes:
    """Return a record as a line of JSON; never raises."""
    carried = record.__dict__
    found: dict[str, object] = {
        "time": f"{_second(int(record.created))}{int(record.msecs):03d}Z",
        "level": _LEVELS.get(record.levelname, record.levelname.lower()),
        "message": _message(record),
    }
    for key in carried:
        if key not in _STANDARD:
            found.setdefault(key, carried[key])
    if record.exc_info and record.exc_info[1] is not None:
        found["exception"] = logging.Formatter().formatException(record.exc_info)
    found["logger"] = record.name
    with suppress(TypeError, ValueError):
        text = orjson.dumps(found, default=str, option=_OPTIONS)
        if len(text) <= _LONGEST_BYTES:
            return text
    in_words = {_in_words(key): _in_words(value) for key, value in found.items()}
    return orjson.dumps(in_words, option=_OPTIONS)


@lru_cache(2)
def _second(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(moment))


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # arguments that do not fit, of some library
        return _in_words(record.msg)


def _in_words(value: object) -> str:
    """Return some text about a value, whatever it is."""
    if not isinstance(value, str):
        try:
            value = _WORDS.repr(value)
        except ValueError:  # a number with thousands of digits
            value = f"a very long {type(value).__name__}"
    if len(value) > 2 * _LONGEST_WORDS:
        value = f"{value[:_LONGEST_WORDS]} ... {value[-_LONGEST_WORDS:]}"
    return value.encode("utf-8", "backslashreplace").decode()


def start_logging(verbosity: int) -> None:
    """Send our own records to standard error; those of libraries only when they warn."""
    # As the logging documentation advises where these are not shown.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    is_open = sys.stderr is not None
    root.handlers[:] = [JsonLines(sys.stderr.buffer) if is_open else logging.NullHandler()]
    root.setLevel(logging.WARNING)
    level = logging.WARNING
    if verbosity >= _INFO_FROM:
        level = logging.DEBUG if verbosity >= _DEBUG_FROM else logging.INFO
    logging.getLogger("app").setLevel(level)
