"""Log lines as JSON: a constant message, and the keys that belong to it."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import BinaryIO

import orjson

# What every record carries; all else came in by `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS = {0: logging.WARNING, 1: logging.INFO}  # from -v; above: everything of ours


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
    found: dict[str, object] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "message": record.getMessage(),
    }
    found |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
    if record.exc_info and record.exc_info[1] is not None:
        found["exception"] = logging.Formatter().formatException(record.exc_info)
    found["logger"] = record.name
    return orjson.dumps(found, default=str, option=orjson.OPT_APPEND_NEWLINE)


def start_logging(verbosity: int) -> None:
    """Send our own records to standard error; those of libraries only when they warn."""
    root = logging.getLogger()
    root.handlers[:] = [JsonLines()]
    root.setLevel(logging.WARNING)
    logging.getLogger("app").setLevel(_LEVELS.get(verbosity, logging.INFO))
    if verbosity >= _DEBUG_FROM:
        logging.getLogger("app").setLevel(logging.DEBUG)


_DEBUG_FROM = 6
