"""Memory that is free goes back to the system."""

from __future__ import annotations

import platform

from app.runtime.allocator import give_back


def test_give_back() -> None:
    """The GNU C library takes both settings; others are left as they are."""
    assert give_back() is (platform.libc_ver()[0] == "glibc")
