"""Where others can reach the port a token is asked for."""

from __future__ import annotations

import pytest

from app.wiring.recommendation_api import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example.com", False),
        ("recommender", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    """Only addresses that no other machine reaches are exempt; names are not looked up."""
    assert is_loopback(host) is expected
