"""Ageing of samples: powers of two, references, shifts."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recommender.core.histograms import decay_factor, exp2, nearest_reference, shift_factor
from app.recommender.core.moments import DAY, HOUR, LATEST, UNSET, nanoseconds


def at(text: str) -> int:
    """Return a time of day of January 2026, "05T10:00", in nanoseconds."""
    return nanoseconds(datetime.fromisoformat(f"2026-01-{text}").replace(tzinfo=UTC))


@given(st.floats(-1000, 1000))
def test_exp2(exponent: float) -> None:
    """The power is right to the last but one bit."""
    assert exp2(np.array([exponent]))[0] == pytest.approx(2.0**exponent, rel=4e-16)


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        pytest.param(0.0, 1.0, id="zero"),
        pytest.param(10.0, 1024.0, id="whole"),
        pytest.param(-3.0, 0.125, id="negative"),
        pytest.param(-1e9, 0.0, id="far below"),
        pytest.param(2.0, 4.0, id="two"),
    ],
)
def test_exp2_of_whole_numbers_is_exact(exponent: float, expected: float) -> None:
    """Whole exponents shift and nothing else."""
    assert exp2(np.array([exponent]))[0] == expected


@pytest.mark.parametrize(
    ("sample", "half_life_ns", "expected"),
    [
        pytest.param("05T10:00", DAY, "05T00:00", id="W17: the morning looks back"),
        pytest.param("05T11:59:59", DAY, "05T00:00", id="W18: a second before noon"),
        pytest.param("05T12:00:00", DAY, "06T00:00", id="W18: noon looks ahead"),
        pytest.param("05T18:00", DAY, "06T00:00", id="W19: the evening looks ahead"),
        pytest.param("05T10:20", HOUR, "05T10:00", id="W21: an hour"),
        pytest.param("05T10:20", 48 * HOUR, "05T00:00", id="W21: two days"),
        pytest.param("05T10:20", 168 * HOUR, "05T00:00", id="W21: a week"),
    ],
)
def test_nearest_reference(sample: str, half_life_ns: int, expected: str) -> None:
    """References are whole half-lives since year 1."""
    assert nearest_reference(np.array([at(sample)]), half_life_ns)[0] == at(expected)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        pytest.param("06T10:00", 2.66967970834, id="W20: a day later"),
        pytest.param("08T10:00", 10.67871883336, id="W20: three days later"),
        pytest.param("04T00:00", 0.5, id="a day before"),
    ],
)
def test_factor(sample: str, expected: float) -> None:
    """A sample weighs twice as much for each half-life it is younger."""
    found = decay_factor(np.array([at(sample)]), np.array([at("05T00:00")]), DAY)

    assert found[0] == pytest.approx(expected, rel=1e-11)


def test_shift_factor() -> None:
    """Shifts by whole half-lives are exact, others real; without a reference nothing stays."""
    before = np.array([0, 0, UNSET])
    after = np.array([3 * DAY, DAY // 2, LATEST])

    found = shift_factor(before, after, DAY)

    assert found == pytest.approx([0.125, 2**-0.5, 0.0], rel=1e-15)
