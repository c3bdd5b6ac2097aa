"""What is said about numbers is what they say."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import Found, Result, Row, Wanted, exponent, from_json, number, table, to_json
from bench.pages import HERE, ORDER, kept, page
from tests.cases import cases

HALF = Wanted("<=", 0.5)
SECONDS = Wanted("<=", 2, "ours")


@cases(
    "row ratio holds",
    {
        "medians": (Row("rate", "", (1, 9, 2), (4, 4, 4), Wanted(">=", 2)), 2, True),
        "missed": (Row("p99", "", (4,), (3,), HALF), 0.75, False),
        "nothing wanted": (Row("p99", "", (4,), (2,)), 0.5, None),
        "nothing to divide by": (Row("p99", "", (0,), (2,), HALF), None, None),
        "one side missing": (Row("p99", "", (4,), (), HALF), None, None),
        "ours alone": (Row("unboosted", "s", (), (1.5,), SECONDS), None, True),
        "not the ratio": (Row("unboosted", "s", (1,), (2.5,), SECONDS), 2.5, False),
    },
)
def test_rows(row: Row, ratio: float | None, holds: bool | None) -> None:
    """A row compares medians, and says whether what is wanted is so."""
    assert (row.ratio, row.holds) == (ratio, holds)


@given(
    power=st.floats(-2, 3),
    factor=st.floats(1e-6, 1e6),
    sizes=st.lists(st.integers(1, 10**6), min_size=2, max_size=5, unique=True),
)
def test_exponent(power: float, factor: float, sizes: list[int]) -> None:
    """A cost that is a power of the size has that power, whatever its unit."""
    costs = [factor * size**power for size in sizes]
    assert exponent(sizes, costs) == pytest.approx(power, abs=1e-6)


@cases(
    "value text",
    {
        "zero": (0, "0"),
        "small": (0.012345, "0.0123"),
        "ones": (1.5, "1.50"),
        "large": (12345.6, "12,346"),
        "below zero": (-124.4, "-124"),
    },
)
def test_numbers(value: float, text: str) -> None:
    """Three digits count, and whole parts are whole."""
    assert number(value) == text


def test_table() -> None:
    """A line shows medians, spreads, the ratio, and what is missed."""
    found = Found()
    for side, value in (("upstream", 10), ("upstream", 30), ("upstream", 20), ("ours", 15)):
        found.add(side, "p99", value)
    rows = [found.row("p99", "p99 at that rate", "ms", HALF), found.row("none", "none", "")]

    assert table(rows).splitlines()[2:] == [
        "| p99 at that rate, ms | 20.0 (10.0–30.0) | 15.0 | 0.750 | ≤ 0.5 | **no** |",
        "| none |  |  |  |  |  |",
    ]


def test_kept() -> None:
    """What is kept as JSON is the same when it is read, and stands in the page."""
    rows = (Row("rate", "1/s", (1.0,), (2.0, 3.0), Wanted(">=", 1.2)), Row("echo", "", (), (9.0,)))
    found = Result(
        name="admission",
        title="Admission",
        date="2026-01-05 10:00 UTC",
        machine="2 cores",
        versions={"Go": "1.26"},
        is_quick=True,
        rows=rows,
        commands=("wrk",),
        notes=("Over TLS.",),
    )
    again = from_json(orjson.loads(orjson.dumps(to_json(found))))

    assert again == found
    for text in (
        "Goals: 1 of 1 met",
        "## Admission",
        "quick run",
        "2 cores; Go 1.26",
        "- Over TLS.",
        "≥ 1.2",
    ):
        assert text in page([again])


def test_page_is_of_what_was_kept() -> None:
    """The page of results tells what the files beside it hold, and of all benches."""
    results = kept(HERE / "results")
    assert [one.name for one in results] == [*ORDER]
    assert (HERE / "RESULTS.md").read_text("utf-8") == page(results)
