"""Shows a report: lines on standard output, notes on standard error, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO

from app.output.formats import Output, shown
from app.output.report import Report

PROBLEMS_FOUND = 1


def show(report: Report, output: Output, environment: Mapping[str, str]) -> int:
    """Print a report; return 1 if something serious was found."""
    is_coloured = wants_colours(sys.stdout, environment)
    for line in shown(report, output, is_coloured=is_coloured):
        print(line)
    if sys.stdout is not None:
        sys.stdout.flush()  # so that notes stand below
    if sys.stderr is not None:
        for note in report.notes:
            print(f"plumbline: {note}", file=sys.stderr)
    return PROBLEMS_FOUND if report.is_bad else 0


def wants_colours(stream: TextIO | None, environment: Mapping[str, str]) -> bool:
    """Whether somebody reads a stream on a terminal that shows colours, and wants them."""
    if stream is None or environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()
