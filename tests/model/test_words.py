"""A mistyped word finds the one that was meant."""

from __future__ import annotations

import pytest

from app.model.words import BOOLEANS, nearest


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("webhok-port", '; did you mean "webhook-port"?'),
        ("INPLACE", '; did you mean "InPlace"?'),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_nearest(word: str, hint: str) -> None:
    """Only a word that is much alike is hinted at; case does not matter."""
    assert nearest(word, ["webhook-port", "InPlace", "address"]) == hint


def test_booleans_are_those_of_go() -> None:
    """Six spellings each, and no others: `yes` is none, nor is `tRUE`."""
    true = {word for word, meaning in BOOLEANS.items() if meaning}
    assert true == {"1", "t", "T", "true", "True", "TRUE"}
    assert set(BOOLEANS) - true == {"0", "f", "F", "false", "False", "FALSE"}
