"""Recorded samples become series."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.model.errors import BadObject
from app.model.quantity import CPU, MEMORY
from app.page.core.recorded_usage import UsageSamples, read_recorded, read_samples
from app.page.core.usage_series import ChartRange
from app.recommender.core.moments import nanoseconds
from app.recommender.core.usage import ABSENT, REFUSED
from tests.make import NOW
from tests.page.core.usage_samples import minutes, question, used_at

NAMES = [
    ("default", "web-0", "app"),
    ("default", "web-1", "app"),
    ("default", "db-0", "app"),
    ("other", "web-0", "app"),
]


def samples(*rows: tuple[float, int, int, int]) -> UsageSamples:
    """Lay samples out: minutes before NOW, index of the container, CPU, memory."""
    return UsageSamples(
        NAMES,
        np.array([row[1] for row in rows], np.intp),
        np.array([nanoseconds(NOW - minutes(row[0])) for row in rows], np.int64),
        np.array([row[2] for row in rows], np.int64),
        np.array([row[3] for row in rows], np.int64),
    )


def test_series() -> None:
    """CPU is averaged in a step, memory is its peak; other pods and namespaces stay away."""
    found = read_samples(
        samples(
            (7, 0, 100, 40),
            (6, 0, 200, 90),
            (6, 1, 400, ABSENT),
            (6, 1, ABSENT, 10),
            (6, 2, 9000, 9000),
            (6, 3, 9000, 9000),
            (2000, 0, 9000, 9000),
        ),
        question("web-.*", ChartRange.DAY),
    )

    assert used_at(found, NOW - minutes(7)) == [150, 400, 400]
    assert used_at(found, NOW - minutes(7), MEMORY) == [10, 90, 90]
    assert used_at(found, NOW - minutes(1)) == [None] * 3


def test_one_resource_alone() -> None:
    """A resource that was never measured has no series."""
    found = read_samples(samples((6, 0, 100, ABSENT), (6, 0, 100, REFUSED)), question())

    assert set(found) == {("app", CPU)}


def test_nothing() -> None:
    """Without samples there are no series."""
    assert read_samples(samples(), question()) == {}


def test_a_file_that_is_not_whole() -> None:
    """What stands before the break is read."""

    def lines() -> Iterator[bytes]:
        yield b'{"type":"usage","time":"2026-01-05T10:00:00Z","pod":"a","container":"b","cpu":"1"}'
        yield b'{"type":"oom","time":"2026-01-05T10:00:00Z","pod":"a","container":"b"}'
        yield b"  "
        raise BadObject("", "damaged")

    found, problems = read_recorded(lines(), "file")

    assert (list(found.containers), problems) == (
        [("default", "a", "b")],
        ["file: damaged behind line 3"],
    )
