"""Findings."""

from __future__ import annotations

from app.diagnosis.core.facts import Check, Level, Unasked, unknown


def test_what_could_not_be_looked_at() -> None:
    """A fact that could not be had is a finding that says why."""
    found = unknown(Check.SERVER, "API server", Unasked("403"))
    assert (found.level, found.message) == (Level.UNKNOWN, "could not be looked at: 403")
