"""What became of the tests of a run, kept in a file so that several runs make one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.rows import FIGURE, PROPERTY
from tests.acceptance.table import WHAT

_KINDS: Final = "|".join(sorted({row.partition("-")[0] for row in WHAT}))
_ID: Final = re.compile(rf"(?:\b|_)({_KINDS})[-_](\d\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a test."""

    outcome: str = "passed"  # or failed, or skipped: the worst of set-up, test and end
    seconds: float = 0.0
    figures: tuple[str, ...] = ()
    is_second: bool = False  # it was tried once more


class Results:
    """What became of all tests, by their ids."""

    def __init__(self) -> None:
        self.found: dict[str, Result] = {}

    def note(self, report: pytest.TestReport) -> None:
        """Take in a part of a test."""
        known = self.found.get(report.nodeid, Result())
        if report.outcome != "passed":
            known = replace(known, outcome=report.outcome)
        if report.when == "call":
            told = dict(report.user_properties)
            seconds = float(str(told.get(PROPERTY, report.duration)))
            figures = tuple(str(text) for name, text in report.user_properties if name == FIGURE)
            known = replace(known, seconds=seconds, figures=figures)
        self.found[report.nodeid] = known

    def save(self, path: Path) -> None:
        """Write them down."""
        found = {name: asdict(result) for name, result in self.found.items()}
        path.write_text(json.dumps(found), "utf-8")


def load(path: Path) -> dict[str, Result]:
    """Return what was written down; nothing, if a run came to no end."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text("utf-8"))
    return {
        name: Result(**{**fields, "figures": tuple(fields["figures"])})
        for name, fields in found.items()
    }


def failed(results: Mapping[str, Result]) -> list[str]:
    """Return the tests that failed."""
    return [name for name, result in results.items() if result.outcome == "failed"]


def row_of(name: str) -> str | None:
    """Return the row that a test is about, by the test's name."""
    found = _ID.search(name.rpartition("::")[2])
    row = f"{found[1].upper()}-{found[2]}" if found else ""
    return row if row in WHAT else None


def together(results: Iterable[Result]) -> Result | None:
    """Return what became of tests that make one row; None if none of them was played."""
    played = [result for result in results if result.outcome != "skipped"]
    if not played:
        return None
    return Result(
        "failed" if any(result.outcome == "failed" for result in played) else "passed",
        max(result.seconds for result in played),
        is_second=any(result.is_second for result in played),
    )
