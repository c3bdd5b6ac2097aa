"""Label keys and values are judged as API servers judge them."""

from __future__ import annotations

import pytest

from app.model.labels import key_flaws, value_flaws


@pytest.mark.parametrize(
    ("key", "flaws"),
    [
        ("app", 0),
        ("a", 0),
        ("My_name.is-1", 0),
        ("app.kubernetes.io/name", 0),
        ("x" * 63, 0),
        (f"{'x' * 253}/name", 0),
        ("", 1),
        ("-app", 1),
        ("app.", 1),
        ("a b", 1),
        ("é", 1),
        ("app\n", 1),
        ("x" * 64, 1),
        ("/name", 1),
        ("prefix/", 1),
        ("Prefix/name", 1),
        ("-prefix/name", 1),
        ("a..b/name", 1),
        ("a/b/name", 1),
        (f"{'x' * 254}/name", 1),
        ("Prefix/", 2),
    ],
)
def test_keys(key: str, flaws: int) -> None:
    """Prefix and name of a key are judged apart."""
    assert len(key_flaws(key)) == flaws


@pytest.mark.parametrize(
    ("value", "flaws"),
    [("", 0), ("1.0_b-C", 0), ("x" * 63, 0), ("x" * 64, 1), ("a b", 1), ("-a", 1), ("a/b", 1)],
)
def test_values(value: str, flaws: int) -> None:
    """A value may be empty, and has no prefix."""
    assert len(value_flaws(value)) == flaws
