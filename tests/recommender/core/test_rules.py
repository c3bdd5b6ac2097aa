"""Defaults are those of the flags."""

from __future__ import annotations

from app.recommender.core.rules import ResourceRules


def test_percentiles() -> None:
    """Percentiles are asked in the order of all columns."""
    assert ResourceRules().fractions == (0.9, 0.5, 0.95)
