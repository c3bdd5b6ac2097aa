"""What is said about numbers is what they say."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import Found, Result, Row, Wanted, exponent, from_json, number, table, to_json
from bench.pages import HERE, ORDER, kept, page

HALF = Wanted("<=", 0.5)
SECONDS = Wanted("<=", 2, "ours")


@pytest.mark.parametrize(
    ("row", "ratio", "holds"),
    [
        pytest.param(Row("rate", "", (1, 9, 2), (4, 4, 4), Wanted(">=", 2)), 2, True, id="medians"),
        pytest.param(Row("p99", "", (4,), (3,), HALF), 0.75, False, id="missed"),
        pytest.param(Row("p99", "", (4,), (2,)), 0.5, None, id="nothing wanted"),
        pytest.param(Row("p99", "", (0,), (2,), HALF), None, None, id="nothing to divide by"),
        pytest.param(Row("p99", "", (4,), (), HALF), None, None, id="one side missing"),
        pytest.param(Row("unboosted", "s", (), (1.5,), SECONDS), None, True, id="ours alone"),
        pytest.param(Row("unboosted", "s", (1,), (2.5,), SECONDS), 2.5, False, id="not the ratio"),
    ],
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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0, "0", id="zero"),
        pytest.param(0.012345, "0.0123", id="small"),
        pytest.param(1.5, "1.50", id="ones"),
        pytest.param(12345.6, "12,346", id="large"),
        pytest.param(-124.4, "-124", id="below zero"),
    ],
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
        "wanted: 1 of 1 hold",
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
