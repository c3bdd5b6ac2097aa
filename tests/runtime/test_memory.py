"""Garbage is collected seldom."""

from __future__ import annotations

import gc

from app.runtime.memory import collect_seldom


def test_what_is_kept_is_not_looked_through_again_and_again() -> None:
    """Ten thousand new objects that stay are no reason to collect garbage."""
    before = gc.get_threshold()
    try:
        collect_seldom()
        gc.collect()
        looks = [each["collections"] for each in gc.get_stats()]
        kept = [[number] for number in range(10_000)]
        assert [each["collections"] for each in gc.get_stats()] == looks
        assert len(kept) == 10_000
    finally:
        gc.set_threshold(*before)
