"""What a run showed of the table's rows, and the page that tells it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.rows import PROPERTY
from tests.acceptance.table import IMPOSSIBLE, WHAT

PAGE: Final = Path(__file__).parents[2] / "docs" / "acceptance.md"
_ID: Final = re.compile(r"(?:\b|_)(ac|up|act|f|re|li|gi|sx)[-_](\d\d)", re.IGNORECASE)
_HEAD: Final = """\
# Acceptance

What users of the upstream autoscaler rely on (rows AC, UP, ACT, F, RE, LI, GI are the cases of its
own suites) and what its design papers promise (SX), played on a real cluster: API server,
controllers, scheduler, kubelets and metrics-server of Kubernetes {version}. Only containers are not
real: a runtime in memory stands for them. Webhook, updater and recommender are programs with the
roles that are shipped. `make acceptance` plays all rows, `--acceptance-page` writes this page.

Rows are played side by side, so their seconds do not add up.
What suites watch for minutes is watched here for at least {rounds} rounds of the updater.

| Row | What | Seconds |
|---|---|---:|
"""


@dataclass(slots=True)
class Result:
    """What became of a row, all its tests together."""

    seconds: float = 0.0
    failed: bool = False


class Results:
    """What became of all rows."""

    def __init__(self) -> None:
        self._found: dict[str, Result] = {}

    def note(self, report: pytest.TestReport) -> None:
        """Take in a test, if it is one of a row."""
        row = row_of(report.nodeid)
        if row is None or (report.when != "call" and not report.failed) or report.skipped:
            return
        seconds = dict(report.user_properties).get(PROPERTY, report.duration)
        found = self._found.setdefault(row, Result())
        found.seconds = max(found.seconds, float(str(seconds)))
        found.failed |= report.failed

    def write(self, version: str, rounds: int) -> None:
        """Write the page."""
        lines = [f"| {row} | {what} | {self._told(row)} |" for row, what in WHAT.items()]
        head = _HEAD.format(version=version, rounds=rounds)
        PAGE.write_text(head + "\n".join(lines) + "\n", "utf-8")

    def _told(self, row: str) -> str:
        found = self._found.get(row)
        if found is None:
            return IMPOSSIBLE.get(row, "not played")
        return "failed" if found.failed else f"{found.seconds:.0f}"


def row_of(name: str) -> str | None:
    """Return the row that a test is about, by the test's name."""
    found = _ID.search(name.rpartition("::")[2])
    row = f"{found[1].upper()}-{found[2]}" if found else ""
    return row if row in WHAT else None
