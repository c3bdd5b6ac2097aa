"""Versions of API servers."""

from __future__ import annotations

from app.model.server_version import ServerVersion, read_version
from tests.cases import cases


@cases(
    "text expected",
    {
        "released": ("v1.36.3", (1, 36)),
        "of a provider": ("v1.32.4-gke.1106006", (1, 32)),
        "without its letter": ("1.33", (1, 33)),
        "none": ("unknown", None),
        "empty": ("", None),
    },
)
def test_read_version(text: str, expected: ServerVersion | None) -> None:
    """Major and minor are read, whatever a provider adds."""
    assert read_version(text) == expected
