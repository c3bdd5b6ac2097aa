"""The page that tells what a run showed, and whether the one that is committed tells the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.acceptance.results import Result, row_of, together
from tests.acceptance.table import BESIDE, WHAT
from tests.acceptance.worker import QUIET_ROUNDS
from tests.cluster.parts import KUBERNETES, pinned

PAGE: Final = Path(__file__).parents[2] / "docs" / "acceptance.md"
_HEAD: Final = """\
# Acceptance

Behaviour that users of the upstream autoscaler rely on (rows AC, UP, ACT, F, RE, LI and GI are
cases from its own test suites), behaviour that its design documents promise (SX), what happens
beside HPAs (HPA), and roles by Leases (RO), tested on a real cluster: API server, controllers,
scheduler, kubelets and metrics-server of Kubernetes {version}. Only the containers are not real:
the kubelets use an in-memory container runtime.
Webhook, updater, recommender and page run as separate programs, with the RBAC that ships with
them.

`make acceptance` runs all rows. The pipeline does the same, and fails if this page lists other rows
than it ran. `make acceptance ARGS=--acceptance-page` writes the page. A row that fails is retried
once, alone, at the end, and is then marked "second try" here; if it fails again, the run fails.

Rows run in parallel, so the sum of their seconds is longer than the run.
What upstream's suites watch for minutes is watched here for at least {rounds} rounds of the
updater, and what lasts minutes there, such as a boost or the minimum age of a pod, lasts seconds
here. `ARGS="--crowd-vpas=400"` runs the last test with 400 instead of 2,000 VPAs.
"""
_MODULES: Final = "tests/acceptance/"


def page(results: Mapping[str, Result]) -> str:
    """Return the page."""
    head = _HEAD.format(version=pinned(KUBERNETES).removeprefix("v"), rounds=QUIET_ROUNDS)
    figures = [f"- {text}" for result in results.values() for text in result.figures]
    lines = (
        *("", "| Row | What | Seconds |", "|---|---|---:|", *_rows(results)),
        *("", "## What only a real cluster shows", ""),
        *("| Test | What | Seconds |", "|---|---|---:|", *_beside(results)),
        *(
            "",
            "## Figures",
            "",
            "Measured in the same run, on two cores that all programs share.",
            "",
        ),
        *sorted(figures),
    )
    return head + "\n".join(lines) + "\n"


def _rows(results: Mapping[str, Result]) -> Iterator[str]:
    for row, what in WHAT.items():
        found = together(result for name, result in results.items() if row_of(name) == row)
        yield f"| {row} | {what} | {_told(found)} |"


def _beside(results: Mapping[str, Result]) -> Iterator[str]:
    for test, what in BESIDE.items():
        module, _, function = test.partition("::")
        start = f"{_MODULES}{module}.py::{function}"
        found = together(
            result for name, result in results.items() if name.partition("[")[0] == start
        )
        yield f"| {test} | {what} | {_told(found)} |"


def _told(found: Result | None) -> str:
    if found is None:
        return _NOT_PLAYED
    told = "failed" if found.outcome == "failed" else f"{found.seconds:.0f}"
    return f"{told}, second try" if found.is_second else told


_NOT_PLAYED: Final = "not played"


def played(text: str) -> set[tuple[str, str]]:
    """Return the rows that a page tells of as played, and what they are about."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {(cells[0], cells[1]) for cells in rows if cells[2] != _NOT_PLAYED}


def differences(results: Mapping[str, Result]) -> list[str]:
    """Return in which rows the committed page and a run differ; seconds do not count."""
    told, seen = played(PAGE.read_text("utf-8")), played(page(results))
    return sorted(
        f"{row} ({what}): {'told of, not played' if (row, what) in told else 'played, not told of'}"
        for row, what in told ^ seen
    )
