"""Log lines as JSON: a constant message, and the keys that belong to it.

Strategy: a record carries only what the line shows; where a call stands in the source, or in
which thread, it does not. What is told thousands of times a second goes past the logging of the
standard library, which would cost more than the line. Nothing that is logged may fail the work
that logs it, nor flood its readers: what JSON cannot tell, or what is too long, is told in
words and shortened.
"""

from __future__ import annotations

import logging
import reprlib
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import BinaryIO, Final

import orjson

# The first part of the names of our loggers; the names are stable, because users filter by them.
ROOMS: Final = (
    "admission",
    "cli",
    "commands",
    "kube",
    "page",
    "recommender",
    "run",
    "runtime",
    "updater",
)
# What every record carries; all else came in by `extra`.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS: Final = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error"}
_INFO_FROM: Final = 1  # of -v
_DEBUG_FROM: Final = 6  # of -v; upstream's own tests run with 6
# The second one writes whatever stands as a key, and is slower.
_OPTIONS: Final = (orjson.OPT_APPEND_NEWLINE, orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)
_LONGEST_BYTES: Final = 16_384  # container runtimes cut lines that are longer
_LONGEST_WORDS: Final = 1_000  # characters at each end of one value
_PAUSE_SECONDS: Final = 60.0  # between two lines of `OncePerMinute` about the same

_WORDS: Final = reprlib.Repr()
_WORDS.maxlevel, _WORDS.maxdict, _WORDS.maxlist, _WORDS.maxtuple = 3, 20, 20, 20
_WORDS.maxstring = _WORDS.maxother = 400


class JsonLines(logging.Handler):
    """Writes each record as one line of JSON."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self._write(line(record))

    def tell(self, logger: str, message: str, keys: Mapping[str, object]) -> None:
        """Write the line that a logger makes of a message at level info."""
        moment = _moment(time.time())
        found = {"time": moment, "level": "info", "message": message, **keys, "logger": logger}
        self._write(_written(found))

    def _write(self, text: bytes) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass  # a stream that is gone is not an error


class Sentences(logging.Handler):
    """Writes each record as a sentence, for people who asked something at a terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line: the message, and what belongs to it."""
        carried = [value for key, value in vars(record).items() if key not in _STANDARD]
        told = ": ".join(map(_in_words, (_message(record), *carried)))
        if record.exc_info and record.exc_info[1] is not None:
            told += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        with suppress(OSError, ValueError):  # a stream that is gone is not an error
            sys.stderr.write(f"plumbline: {' '.join(told.split())}\n")


def line(record: logging.LogRecord) -> bytes:
    """Return a record as a line of JSON; never raises."""
    carried = record.__dict__
    found: dict[str, object] = {
        "time": _moment(record.created),
        "level": _LEVELS.get(record.levelname, record.levelname.lower()),
        "message": _message(record),
    }
    for key in carried:
        if key not in _STANDARD:
            found.setdefault(key, carried[key])
    if record.exc_info and record.exc_info[1] is not None:
        found["exception"] = logging.Formatter().formatException(record.exc_info)
    found["logger"] = record.name
    return _written(found)


def _written(found: Mapping[str, object]) -> bytes:
    for option in _OPTIONS:
        try:
            text = orjson.dumps(found, default=str, option=option)
        except (TypeError, ValueError):
            continue
        if len(text) <= _LONGEST_BYTES:
            return text
        break
    in_words = {_in_words(key): _in_words(value) for key, value in found.items()}
    return orjson.dumps(in_words, option=_OPTIONS[0])


def _moment(seconds: float) -> str:
    whole = int(seconds)
    return f"{_second(whole)}{int((seconds - whole) * 1000):03d}Z"


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


class OncePerMinute:
    """Says when it is time for a line about what may happen very often; from any thread."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._untold: dict[str, int] = {}
        self._quiet_until: dict[str, float] = {}

    def due(self, word: str, times: int = 1) -> int:
        """Note that something happened; return how often since its last line, 0 for no line now.

        There must be few words: all of them are kept.
        """
        now = self._seconds()
        with self._lock:
            self._untold[word] = self._untold.get(word, 0) + times
            if now < self._quiet_until.get(word, now):
                return 0
            self._quiet_until[word] = now + _PAUSE_SECONDS
            return self._untold.pop(word)


def start_logging(verbosity: int) -> None:
    """Send our own records to standard error; those of libraries only when they warn."""
    is_open = sys.stderr is not None
    level = logging.WARNING
    if verbosity >= _INFO_FROM:
        level = logging.DEBUG if verbosity >= _DEBUG_FROM else logging.INFO
    _start(JsonLines(sys.stderr.buffer) if is_open else logging.NullHandler(), level)


def start_sentences(verbosity: int = 0) -> None:
    """Send warnings to standard error in words that people read; all else only if asked to."""
    is_open = sys.stderr is not None
    level = logging.DEBUG if verbosity >= _DEBUG_FROM else logging.WARNING
    _start(Sentences() if is_open else logging.NullHandler(), level)


def _start(handler: logging.Handler, level: int) -> None:
    # As the logging documentation advises where these are not shown.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for room in ROOMS:
        logging.getLogger(room).setLevel(level)


def teller(logger: str) -> Callable[[str, Mapping[str, object]], None]:
    """Return what writes a message and its keys as a logger would at level info, but sooner."""
    lines = [found for found in logging.getLogger().handlers if isinstance(found, JsonLines)]
    if not lines or not logging.getLogger(logger).isEnabledFor(logging.INFO):
        return lambda _message, _keys: None
    return partial(lines[0].tell, logger)
