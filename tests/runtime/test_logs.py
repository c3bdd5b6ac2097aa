"""A log line is JSON whatever was logged, and no log can fail the work that logs."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runtime.logs import JsonLines, Sentences, line, start_logging, teller
from tests import logging_state
from tests.cases import cases
from tests.junk import ANYTHING

MOMENT = 1_767_607_200.25  # 2026-01-05T10:00:00.250Z


def record(message: object = "pod sized", *args: object, **extra: object) -> logging.LogRecord:
    """Return a record as a logger makes it."""
    made = logging.LogRecord("admission.reviews", logging.INFO, "f.py", 1, message, args, None)
    made.__dict__.update(extra)
    made.created, made.msecs = MOMENT, 250.0
    return made


def told(found: logging.LogRecord) -> dict[str, Any]:
    """Return a line as read again."""
    text = line(found)
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    value: dict[str, Any] = orjson.loads(text)
    return value


def test_a_line() -> None:
    """Time, level and message come first, then the keys, then who tells it."""
    assert line(record(pod="web-0", changes={"/spec/x": "250m"})) == (
        b'{"time":"2026-01-05T10:00:00.250Z","level":"info","message":"pod sized",'
        b'"pod":"web-0","changes":{"/spec/x":"250m"},"logger":"admission.reviews"}\n'
    )


def test_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """People who ask at a terminal read the message and its values, on one line, and no JSON."""
    Sentences().emit(record("object not used", place="a.yaml:3", problem="spec:\n  is missing"))
    assert capsys.readouterr().err == ("plumbline: object not used: a.yaml:3: spec: is missing\n")


def test_keys_that_are_taken() -> None:
    """A key does not hide what every line tells."""
    found = told(record(time="never", level="loud"))
    assert (found["time"], found["level"]) == ("2026-01-05T10:00:00.250Z", "info")


@pytest.mark.parametrize("level", ["DEBUG", "WARNING", "ERROR", "CRITICAL", "OTHER"])
def test_levels(level: str) -> None:
    """Levels are words in small letters, also those that others invent."""
    made = record()
    made.levelname = level
    assert told(made)["level"] == level.lower()


@cases(
    "message args text",
    {
        "filled in": ("%s and %d", ("a", 2), "a and 2"),
        "of the wrong type": ("%d", ("a",), "%d"),
        "too many": ("%s", (1, 2), "%s"),
        "another name": ("%(a)s", ({"b": 1},), "%(a)s"),
        "an error": (ValueError("x"), (), "x"),
    },
)
def test_messages_of_libraries(message: object, args: tuple[object, ...], text: str) -> None:
    """A message whose arguments do not fit is told as it is."""
    assert told(record(message, *args))["message"] == text


class Unspeakable:
    """Something that raises when it is written."""

    def __str__(self) -> NoReturn:
        raise RuntimeError("no words")

    __repr__ = __str__


def circle() -> list[object]:
    """Return a list in itself."""
    found: list[object] = []
    found.append(found)
    return found


@cases(
    "value shown",
    {
        "a class": (object, "<class 'object'>"),
        "a set": ({1, 2}, "{1, 2}"),
        "keys that are no texts": ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        "keys that are tuples": ({(1,): "a"}, "{(1,): 'a'}"),
        "a large number": (2**80, str(2**80)),
        "a number that Python refuses to print": (10**5000, "a very long int"),
        "half a character": ("\udc80", "\\udc80"),
        "bytes": (b"\xff", "b'\\xff'"),
        "no number": (float("nan"), None),
        "a circle": (circle(), "[[[[...]]]]"),
        "something that raises": (Unspeakable(), None),
    },
)
def test_values_that_are_no_json(value: object, shown: object) -> None:
    """Whatever a key carries, something is told of it, and all of the others."""
    found = told(record(value=value, other="kept"))
    assert found["other"] == "kept"
    assert found["message"] == "pod sized"
    if not isinstance(value, Unspeakable):
        assert found["value"] == shown
    else:
        assert "Unspeakable" in found["value"]


@cases(
    "value",
    {
        "a text": ("x" * 5_000_000,),
        "an object": ({f"/spec/{i}": "250m" for i in range(40_000)},),
        "a list": (["x" * 1000] * 1000,),
    },
)
def test_long_lines_are_cut(value: object) -> None:
    """A line is never longer than what is passed on as one line."""
    made = record(value=value, pod="web-0")
    assert len(line(made)) <= 16_384
    assert told(made)["pod"] == "web-0"


def fail() -> NoReturn:
    """Raise an error that says much."""
    raise ZeroDivisionError("x" * 100_000)


def test_exceptions() -> None:
    """An error comes with where it happened; of a long one both ends are kept."""
    try:
        fail()
    except ZeroDivisionError as error:
        made = record()
        made.exc_info = (type(error), error, error.__traceback__)
    found = told(made)["exception"]
    assert found.startswith("Traceback (most recent call last):\n")
    assert found.endswith("xxx")
    assert len(line(made)) <= 16_384


@given(st.dictionaries(st.text(min_size=1), ANYTHING | st.binary() | st.text()))
def test_any_record_is_told(extra: dict[str, object]) -> None:
    """Whatever is logged, it is one line of JSON."""
    made = record()
    made.__dict__.update({f"_{key}": value for key, value in extra.items()})
    assert told(made)["message"] == "pod sized"


@pytest.fixture
def kept_logging() -> Iterator[None]:
    """Put logging back as it was."""
    with logging_state.kept():
        yield


def logging_into(monkeypatch: pytest.MonkeyPatch, verbosity: int) -> io.BytesIO:
    """Start logging, and return what is written to standard error."""
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(buffer=stream))
    start_logging(verbosity)
    return stream


@pytest.mark.usefixtures("kept_logging")
def test_telling_is_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told by the short way makes the line that a logger makes, at the same levels."""
    for verbosity, count in ((0, 0), (4, 2)):
        stream = logging_into(monkeypatch, verbosity)
        keys = {"pod": "web-0", "changes": {"/spec/x": "250m"}}
        logging.getLogger("admission.reviews").info("pod sized", extra=keys)
        teller("admission.reviews")("pod sized", keys)
        lines = [orjson.loads(text) for text in stream.getvalue().splitlines()]
        assert len(lines) == count
        for found in lines:
            assert re.fullmatch(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("time"))
        assert lines[:1] == lines[1:]


def test_a_broken_stream() -> None:
    """A stream that is gone makes no call fail, now and later."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as stream:
        handler = JsonLines(stream)
        handler.emit(record())
        handler.tell("admission.reviews", "pod sized", {})
    handler.emit(record())


@pytest.mark.usefixtures("kept_logging")
@cases(
    "verbosity levels",
    {
        "less than least": (-1, ["warning"]),
        "least": (0, ["warning"]),
        "little": (1, ["info", "warning"]),
        "as usual": (4, ["info", "warning"]),
        "much": (6, ["debug", "info", "warning"]),
        "most": (10, ["debug", "info", "warning"]),
    },
)
def test_verbosity(verbosity: int, levels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """More is told of ourselves on demand; of libraries only what they warn of."""
    stream = logging_into(monkeypatch, verbosity)
    for name in ("updater.x", "library"):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            logging.getLogger(name).log(level, "said")
    lines = [orjson.loads(text) for text in stream.getvalue().splitlines()]
    assert [(found["logger"], found["level"]) for found in lines] == [
        *(("updater.x", level) for level in levels),
        ("library", "warning"),
    ]


@pytest.mark.usefixtures("kept_logging")
def test_no_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no standard error nothing is told, and nothing fails."""
    monkeypatch.setattr(sys, "stderr", None)
    start_logging(4)
    logging.getLogger("updater").warning("said")
    teller("admission.reviews")("pod sized", {})
