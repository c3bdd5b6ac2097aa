"""Durations are read and written as Go and Prometheus do it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.durations import parse_duration, parse_prometheus_duration
from app.model.errors import BadObject


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
    "is no duration": ("", "8", "d", "-8d", "1.5h", "2d1w", "1h1h", "8d\n"),
    "is too long": ("293y", "9" * 100_000 + "s"),
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
        ("0", timedelta()),
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
    assert parse_prometheus_duration(text) == duration


@flawed(PROMETHEUS_FLAWS)
def test_texts_that_are_no_prometheus_duration(text: str, why: str) -> None:
    """The sentence says what is wrong."""
    with pytest.raises(BadObject, match=why):
        parse_prometheus_duration(text)


@given(st.text(max_size=12) | st.text("0123456789.smhdwyunµ-+", max_size=12))
def test_parsing_never_crashes(text: str) -> None:
    """A text is a duration or refused in a sentence, in either syntax."""
    for parse in (parse_duration, parse_prometheus_duration):
        try:
            assert isinstance(parse(text), timedelta)
        except BadObject as refused:
            message = refused.message
            assert message.startswith(f'"{text}"')
