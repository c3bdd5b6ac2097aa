"""Garbage is collected seldom, and memory that is free goes back to the system."""

from __future__ import annotations

import gc
import platform

from app.runtime.garbage import collect_seldom, give_back


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


def test_give_back() -> None:
    """The GNU C library takes both settings; others are left as they are."""
    assert give_back() is (platform.libc_ver()[0] == "glibc")
