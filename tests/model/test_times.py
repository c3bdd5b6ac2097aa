"""Times and durations are read and written as Kubernetes, Go and Prometheus do it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import BadObject
from app.model.times import (
    LATEST,
    PrometheusDuration,
    believed,
    doubled,
    later,
    parse_duration,
    rfc3339,
)
from tests.cases import cases
from tests.updater.core.scenes import NOW

BERLIN = timezone(timedelta(hours=2))


@cases(
    "moment",
    {
        "as it is": (datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC),),
        "cut to seconds": (datetime(2026, 3, 1, 9, 5, 7, 999_999, tzinfo=UTC),),
        "of another zone": (datetime(2026, 3, 1, 11, 5, 7, tzinfo=BERLIN),),
    },
)
def test_rfc3339(moment: datetime) -> None:
    """Whole seconds, in UTC, with a Z."""
    assert rfc3339(moment) == "2026-03-01T09:05:07Z"


FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("moment", "by", "expected"),
    [
        (NOW, DAY, NOW + DAY),
        (NOW, -DAY, NOW - DAY),
        (LAST, DAY, LATEST),
        (LAST, timedelta(), LATEST),
        (FIRST, -DAY, FIRST),
        (NOW, timedelta.max, LATEST),
    ],
)
def test_later(moment: datetime, by: timedelta, expected: datetime) -> None:
    """What lies beyond the calendar is cut off."""
    assert later(moment, by) == expected


@pytest.mark.parametrize(
    ("moment", "is_believed"),
    [
        (None, False),
        (FIRST, True),
        (NOW, True),
        (NOW + timedelta(minutes=1), True),
        (NOW + timedelta(seconds=61), False),
        (LAST, False),
    ],
)
def test_believed(moment: datetime | None, is_believed: bool) -> None:
    """What is clearly yet to come tells nothing; clocks may differ a little."""
    assert believed(moment, NOW) == (moment if is_believed else None)


def test_doubled() -> None:
    """A pause doubles with each failure in a row, up to the longest one."""
    pauses = [doubled(timedelta(seconds=1), count, timedelta(seconds=3)) for count in (1, 2, 3, 99)]
    assert [pause.total_seconds() for pause in pauses] == [1, 2, 3, 3]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("+0", 0),
        ("0s", 0),
        ("10s", 10),
        ("+10s", 10),
        ("-1s", -1),
        ("1m30s", 90),
        ("30s1m", 90),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("-1.5h0.5s", -5400.5),
        ("500ms", 0.5),
        ("10us", 10e-6),
        ("10µs", 10e-6),
        ("10μs", 10e-6),
        ("1500ns", 2e-6),
        ("1ns", 1e-6),
        ("-1ns", -1e-6),
        ("0.1ns", 0),
        ("000000000000000000000001s", 1),
        ("0.000000000000000000000001h", 0),
        ("100h", 360_000),
    ],
)
def test_go_durations(text: str, seconds: float) -> None:
    """Numbers with units add up; what is finer than a microsecond counts as one."""
    assert parse_duration(text) == timedelta(seconds=seconds)


GO_FLAWS = {
    "is no duration": ("", "-", "s", ".s", "soon", "--1s", "1s.", " 1s"),
    "has no unit": ("10", "1m30", "1..5s"),
    "has an unknown unit": ("1d", "1s ", "1 s", "1S", "1m-30s"),
    "is too long": ("2562048h", "-2562048h", "9" * 100_000 + "s"),
}
PROMETHEUS_FLAWS = {
    "is no duration": ("", "0", "8", "d", "-8d", "1.5h", "2d1w", "1h1h", "8d\n"),
    "is too long": ("293y", "9" * 100_000 + "s"),
    "is not above zero": ("0s", "0d0h"),
}


def flawed(flaws: dict[str, tuple[str, ...]]) -> pytest.MarkDecorator:
    """Run a test for each text, with what is wrong with it."""
    rows = [(text, why) for why, texts in flaws.items() for text in texts]
    return pytest.mark.parametrize(("text", "why"), rows, ids=lambda text: text[:12])


@flawed(GO_FLAWS)
def test_texts_that_are_no_go_duration(text: str, why: str) -> None:
    """The sentence shows the text, shortened, and says what is wrong with it."""
    with pytest.raises(BadObject) as refused:
        parse_duration(text)
    assert refused.value.message.startswith(f'"{text[:40]}')
    assert why in refused.value.message
    assert len(refused.value.message) < 120


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("30s", timedelta(seconds=30)),
        ("5ms", timedelta(milliseconds=5)),
        ("5m", timedelta(minutes=5)),
        ("5m5ms", timedelta(minutes=5, milliseconds=5)),
        ("1h", timedelta(hours=1)),
        ("8d", timedelta(days=8)),
        ("1w2d", timedelta(days=9)),
        ("1y", timedelta(days=365)),
        ("1y2w3d4h5m6s7ms", timedelta(365 + 17, 5 * 60 + 6, 0, 7, 0, 4)),
    ],
)
def test_prometheus_durations(text: str, duration: timedelta) -> None:
    """Units run from years to milliseconds, each at most once and in this order."""
    assert PrometheusDuration.parse(text) == (text, duration)


@flawed(PROMETHEUS_FLAWS)
def test_texts_that_are_no_prometheus_duration(text: str, why: str) -> None:
    """The sentence says what is wrong."""
    with pytest.raises(BadObject, match=why):
        PrometheusDuration.parse(text)


@given(st.text(max_size=12) | st.text("0123456789.smhdwyunµ-+", max_size=12))
def test_parsing_never_crashes(text: str) -> None:
    """A text is a duration or refused in a sentence, in either syntax."""
    for parse in (parse_duration, lambda text: PrometheusDuration.parse(text).span):
        try:
            assert isinstance(parse(text), timedelta)
        except BadObject as refused:
            message = refused.message
            assert message.startswith(f'"{text}"')
