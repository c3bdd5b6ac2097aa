"""Versions of API servers, and which of them can do what not all can."""

from __future__ import annotations

import re
from typing import Final

ServerVersion = tuple[int, int]  # major and minor

RESIZES_PODS: Final[ServerVersion] = (1, 33)  # running ones, unless switched off

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def read_version(text: str) -> ServerVersion | None:
    """Read a version such as v1.36.3, None if it is none."""
    found = _VERSION.match(text)
    return None if found is None else (int(found[1]), int(found[2]))
