"""Keeps what benches found, a file of JSON each, and makes one page of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import orjson

from bench.figures import Result, from_json, table, to_json

HERE: Final = Path(__file__).parent
QUICK: Final = HERE.parent / "build" / "bench"
ORDER: Final = ("admission", "creation", "recommender", "updater", "growth", "page")
_INTRODUCTION: Final = """\
# Compared with upstream

Written by `make bench`; `make bench-NAME` repeats one part. It needs Go and wrk, builds upstream's
programs itself, and cleans up after itself.

Both programs run on the same machine, alternately, against the same API server, objects and
metrics. Both may use all cores, and the limits on their API calls are lifted. The one that runs
first changes from round to round. A cell shows the median of all rounds and, in brackets, the
smallest and the largest value; a ratio is our median divided by upstream's. CPU is user and system
time of all processes of a program. Memory is resident memory (RSS); memory that several processes
of a program share counts once.

[Where a review's time goes](PROFILE.md) has a page of its own.
"""


def keep(result: Result) -> Path:
    """Write what a bench found, and the page; return where the page is."""
    place = QUICK if result.is_quick else HERE
    folder = place / "results"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.name}.json"
    path.write_bytes(orjson.dumps(to_json(result), option=orjson.OPT_INDENT_2) + b"\n")
    (place / "RESULTS.md").write_text(page(kept(folder)), "utf-8")
    return place / "RESULTS.md"


def kept(folder: Path) -> Sequence[Result]:
    """Return all that was found so far, in order."""
    paths = (folder / f"{name}.json" for name in ORDER)
    return [from_json(orjson.loads(path.read_bytes())) for path in paths if path.exists()]


def page(results: Sequence[Result]) -> str:
    """Return a page of results."""
    return "\n".join([_INTRODUCTION, *_judged(results), *map(_part, results)])


def _judged(results: Sequence[Result]) -> Iterator[str]:
    """Yield all that is wanted, in one table."""
    rows = [
        replace(row, what=f"{result.name}: {row.what}")
        for result in results
        for row in result.rows
        if row.holds is not None
    ]
    if rows:
        kept = sum(row.holds is True for row in rows)
        yield f"## Goals: {kept} of {len(rows)} met\n\n{table(rows)}\n"


def _part(result: Result) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    quick = "; a quick run of a small size" if result.is_quick else ""
    lines = [
        f"## {result.title}",
        "",
        f"`make bench-{result.name}`, {result.date}{quick}; {result.machine}; {versions}.",
        "",
        table(result.rows),
        "",
        *(f"- {note}" for note in result.notes),
    ]
    if result.commands:
        lines += ["", "```sh", *result.commands, "```"]
    return "\n".join(lines) + "\n"
