"""A loop keeps its task going, whatever the task does."""

from __future__ import annotations

import logging
import threading
from datetime import datetime

import pytest

from app.model.errors import Unavailable
from app.runtime.loop import Loop
from tests.cases import cases
from tests.stepped_clock import START, SteppedClock


class Script:
    """A task that returns or raises what is written, notes when, and then stops its loop."""

    def __init__(self, *lines: float | Exception) -> None:
        self.lines = list(lines)
        self.seconds: list[int] = []
        self.ended = False
        self.loop: Loop | None = None

    def tick(self, now: datetime) -> float:
        """Play the next line."""
        self.seconds.append(round((now - START).total_seconds()))
        line = self.lines.pop(0)
        if not self.lines and self.loop:
            self.loop.stop()
        if isinstance(line, Exception):
            raise line
        return line

    def end(self, now: datetime) -> None:
        """Note the end."""
        assert now > START
        self.ended = True


@cases(
    "lines seconds",
    {
        "as the task wishes": ((5.0, 2.0, 0.0, 1.0), [0, 5, 7, 7]),
        "later, up to a limit": ((Unavailable("x"),) * 6, [0, 1, 3, 7, 11, 15]),
        "success resets": ((ValueError(), 1.0, ValueError(), 1.0), [0, 1, 2, 3]),
    },
)
def test_run(lines: tuple[float | Exception, ...], seconds: list[int]) -> None:
    """Calls come when the task wishes, or with growing pauses while it fails."""
    script = Script(*lines)
    loop = Loop("task", script.tick, SteppedClock(), longest_retry_seconds=4, at_end=script.end)
    script.loop = loop
    loop.run()
    assert script.seconds == seconds
    assert script.ended


def test_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An expected failure is a sentence, an unexpected one comes with its trace."""
    script = Script(Unavailable("refused"), ValueError("bug"), 1.0)
    script.loop = Loop("task", script.tick, SteppedClock())
    script.loop.run()
    told, traced = caplog.records[:2]
    assert (told.levelno, told.exc_info) == (logging.WARNING, None)
    assert vars(told)["error"] == "refused"
    assert traced.levelno == logging.ERROR
    assert traced.exc_info is not None


def test_the_same_failure_is_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """It counts how often it failed; another failure is told at once, and so is the end."""
    caplog.set_level(logging.INFO)
    same = (Unavailable("away"),) * 10  # after 0, 1, 3, 7, 15, 25 .. s
    script = Script(*same, Unavailable("other"), 1.0)
    script.loop = Loop("task", script.tick, SteppedClock(), longest_retry_seconds=10)
    script.loop.run()

    lines = [vars(record) for record in caplog.records]
    assert script.seconds[-2:] == [75, 85]
    assert [(line["message"], line.get("error"), line["times"]) for line in lines] == [
        ("task failed", "away", 1),
        ("task failed", "away", 9),
        ("task failed", "other", 1),
        ("task works again", None, 0),
    ]
    assert lines[-1]["seconds"] == 85


def test_failing_end(caplog: pytest.LogCaptureFixture) -> None:
    """A loop ends also when its last act fails."""

    def end(_now: datetime) -> None:
        raise Unavailable("refused")

    loop = Loop("task", lambda _now: 1.0, SteppedClock(), at_end=end)
    loop.stop()
    loop.run()
    assert len(caplog.records) == 1


def test_thread() -> None:
    """A started loop runs beside its starter, and has ended when stop returns."""
    ran, ended = threading.Event(), threading.Event()

    def tick(_now: datetime) -> float:
        ran.set()
        return 0.0

    loop = Loop("task", tick, SteppedClock(), at_end=lambda _now: ended.set())
    loop.start()
    assert ran.wait(10)
    loop.stop(10)
    assert ended.is_set()
