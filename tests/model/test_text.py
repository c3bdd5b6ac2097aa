"""Texts for people are short; a mistyped word finds the one that was meant."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.quantity import Quantity
from app.model.text import BOOLEANS, amount, change, nearest, percent, printable, size, span
from tests.cases import cases
from tests.make import quantity


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


@cases(
    "text shown",
    {
        "as it is": ("größer, 日本", "größer, 日本"),
        "lines": ("one\n two\r\n", "one two"),
        "an escape": ("evil \x1b[31m!", "evil [31m!"),
        "another direction": ("a\u202eb", "a b"),
        "half a character": ("\ud800", ""),
        "too long": ("x" * 501, "x" * 500 + "..."),
    },
)
def test_printable(text: str, shown: str) -> None:
    """Texts of others are one line that does nothing to a terminal."""
    assert printable(text) == shown


def test_booleans_are_those_of_go() -> None:
    """Six spellings each, and no others: `yes` is none, nor is `tRUE`."""
    true = {word for word, meaning in BOOLEANS.items() if meaning}
    assert true == {"1", "t", "T", "true", "True", "TRUE"}
    assert set(BOOLEANS) - true == {"0", "f", "F", "false", "False", "FALSE"}


@cases(
    "resource exact told",
    {
        "millicores": ("cpu", "250m", "250m"),
        "a core": ("cpu", "1", "1"),
        "cores": ("cpu", "1500m", "1.5"),
        "many cores": ("cpu", "12345m", "12.3"),
        "a cluster": ("cpu", "1234567m", "1235"),
        "none": ("cpu", "0", "0"),
        "less than none": ("cpu", "-250m", "-250m"),
        "hardly any": ("cpu", "1n", "1m"),
        "no memory": ("memory", "0", "0"),
        "mebibytes": ("memory", "300Mi", "300Mi"),
        "nearly a gibibyte": ("memory", "1023Mi", "1023Mi"),
        "less than a digit below a gibibyte": ("memory", "1048575Ki", "1Gi"),
        "bytes": ("memory", "4506574562", "4.2Gi"),
        "decimal": ("memory", "1G", "954Mi"),
        "cut off where Kubernetes does": ("memory", "100Ei", "8Ei"),
        "pages": ("hugepages-2Mi", "4Mi", "4Mi"),
        "counted": ("example.com/gpu", "2", "2"),
    },
)
def test_amounts(resource: str, exact: str, told: str) -> None:
    """An amount is told with three digits in the unit that people use."""
    assert amount(resource, quantity(exact)) == told


@given(st.integers(-(2**62), 2**62))
def test_a_size_is_read_back_nearly_as_it_was(count_bytes: int) -> None:
    """What is told is a quantity again, less than one percent away."""
    found = Quantity.parse(size(count_bytes)).nano / 10**9
    assert abs(found - count_bytes) <= abs(count_bytes) / 100


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [("100m", "350m", "+250m"), ("2", "500m", "-1.5"), ("1", "1000m", "0")],
)
def test_changes(before: str, after: str, told: str) -> None:
    """A change has a sign, unless there is none."""
    assert change("cpu", quantity(before), quantity(after)) == told


@pytest.mark.parametrize(("share", "told"), [(0.25, "25%"), (2.5, "250%"), (-0.1, "-10%")])
def test_shares(share: float, told: str) -> None:
    """A share is told in percent."""
    assert percent(share) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (999999, "11d"),
    ],
)
def test_spans(seconds: int, told: str) -> None:
    """A span is told in the largest unit of which there are two."""
    assert span(timedelta(seconds=seconds)) == told
