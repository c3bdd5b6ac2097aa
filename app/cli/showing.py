"""Prints what a command found, for people or programs, and tells its exit code."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TextIO

from app.output import Output, Report, Text, line, shown

PROBLEMS_FOUND: Final = 1
FILE_UNREAD: Final = 2

Environment = Mapping[str, str]


def show(report: Report, output: Output, environment: Environment) -> int:
    """Print a report, its notes on standard error; return the exit code."""
    _say_first(report.problems)
    is_coloured = _wants_colours(sys.stdout, environment)
    width = _terminal_width(sys.stdout)
    for each in shown(report, output, is_coloured=is_coloured, width=width):
        print(each)
    return end(report)


def end(report: Report) -> int:
    """Say on standard error what a report notes, and return the exit code."""
    if sys.stdout is not None:
        sys.stdout.flush()  # so that notes stand below
    _say(report.notes)
    if report.is_partial:
        return FILE_UNREAD
    return PROBLEMS_FOUND if report.is_bad else 0


def _say_first(problems: Sequence[str]) -> None:
    """Say on standard error what stands first; a terminal wraps sentences, but not commands."""
    said = [line(part) for one in problems for part in f"plumbline: {one}".split("\n")]
    width = _terminal_width(sys.stderr)
    if sys.stderr is not None:
        for each in shown(Report(Text(said), (), ()), Output.TABLE, width=width):
            print(each, file=sys.stderr, flush=True)


def _say(sentences: Sequence[str]) -> None:
    if sys.stderr is not None:
        for sentence in sentences:
            print(f"plumbline: {sentence}", file=sys.stderr, flush=True)


def _wants_colours(stream: TextIO | None, environment: Environment) -> bool:
    """Whether a stream leads to a terminal that shows colours, and they are wanted."""
    if stream is None or environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()


def _terminal_width(stream: TextIO | None) -> int | None:
    """Return how many columns a stream shows, None if it leads to no terminal."""
    if stream is None or not stream.isatty():
        return None
    return shutil.get_terminal_size().columns


def print_lines(lines: Iterable[bytes]) -> int:
    """Print lines as they come, because there may be many."""
    for each in lines:
        sys.stdout.buffer.write(each)
    return 0
