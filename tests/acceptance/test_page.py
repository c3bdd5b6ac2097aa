"""How a run is divided, and how what it showed is told; no cluster is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.page import page, played
from tests.acceptance.results import Result, Results, failed, load
from tests.acceptance.shares import Share

ROW = "tests/acceptance/test_x.py::test_row[UP-01]"
OTHER = "tests/acceptance/test_x.py::test_row[SX-17 Off]"
BESIDE = "tests/acceptance/test_failures.py::test_the_leader_dies[updater]"


def report(name: str, when: str, outcome: str, **properties: object) -> pytest.TestReport:
    """Return what pytest says of a part of a test."""
    told = list(properties.items())
    return pytest.TestReport(name, ("", 0, ""), {}, outcome, None, when, user_properties=told)  # type: ignore[arg-type]  # words that pytest spells out as literals


def line(results: dict[str, Result], start: str) -> str:
    """Return a line of the page."""
    return next(line for line in page(results).splitlines() if line.startswith(f"| {start} "))


def test_several_runs_make_one(tmp_path: Path) -> None:
    """What a run writes down is read as it was: seconds of the row, figures, the worst outcome."""
    results = Results()
    results.note(report(ROW, "setup", "passed"))
    results.note(report(ROW, "call", "passed", row=12.4, figure="a figure"))
    results.note(report(ROW, "teardown", "failed", row=12.4, figure="a figure"))
    results.note(report(OTHER, "setup", "skipped"))
    results.save(tmp_path / "results")

    found = load(tmp_path / "results")
    assert found == {ROW: Result("failed", 12.4, ("a figure",)), OTHER: Result("skipped")}
    assert failed(found) == [ROW]
    assert load(tmp_path / "none") == {}


def test_page() -> None:
    """A row is told with its seconds; what failed, was tried twice or not at all, with that."""
    passed = Result(seconds=3.2)
    tested = {ROW: passed, OTHER: replace(passed, is_second=True), BESIDE: Result("failed")}
    assert line(tested, "UP-01").endswith("| 3 |")
    assert line(tested, "SX-17").endswith("| 3, second try |")
    assert line(tested, "test_failures::test_the_leader_dies").endswith("| failed |")
    assert line(tested, "UP-02").endswith("| not played |")
    assert line({ROW: Result("skipped")}, "UP-01").endswith("| not played |")
    told = {row for row, _ in played(page(tested))} - {"Row", "Test"}
    assert told == {"UP-01", "SX-17", "test_failures::test_the_leader_dies"}


def test_shares(tmp_path: Path) -> None:
    """Each module is taken by one run, which keeps it; a run without a share takes all."""
    one, other = Share(str(tmp_path)), Share(str(tmp_path))
    assert one.takes("a")
    assert not other.takes("a")
    assert other.takes("b")
    assert [one.takes("a"), one.takes("b"), Share("").takes("a")] == [True, False, True]
