"""The picture of a view on a screen.

Strategy: a value in, lines out: as many as there is room for, none wider than the terminal.
Widths depend on the terminal and on names alone, so nothing jumps. Sentences are wrapped, equal
activities folded into one; what finds no room are the older activities, and the VPAs with the
least to say, which are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from app.model.text import span
from app.output import Line, Piece, Tone, line, wrapped
from app.run.view import (
    TONES,
    Activity,
    ActivityKind,
    Totals,
    View,
    requests_texts,
)
from app.run.vpa_table import table_lines

_GAP: Final = "   "
_ROOMY_ROWS: Final = 30  # from which parts are set off by empty lines
_LEAST_ACTIVITY_LINES: Final = 4
_LEAST_TABLE_LINES: Final = 4
_TIME, _KIND = 8, 9
_WHO: Final = (18, 26)  # on narrow and on wide terminals
_WIDE: Final = 100
_LEAST_WHY: Final = 30
# About objects of all kinds, whose names are not cut; the others are about pods.
_LONG_NAMES: Final = (ActivityKind.REFUSE, ActivityKind.WRITE, ActivityKind.TROUBLE)
_FOLDED: Final = timedelta(minutes=10)  # most between two that are shown as one
_BOUND: Final = re.compile(r"(?<=bound )[\d.]+\w*")  # moves from one pod to the next
_SOON: Final = timedelta(minutes=10)
_NO_ROWS: Final = (
    "there is no VPA yet, so no pod is sized; plumbline init prints VPAs for workloads without one"
)
_ALL_REFUSED: Final = (
    "no VPA was accepted, so there is nothing to watch: end this, correct the files, run it again"
)
_LEGEND: Final = (
    "now → target of an average pod",
    "▲▼ now is outside its bounds, △▽ within them",
)


def picture(view: View, commands: Sequence[str], width: int, height: int) -> list[Line]:
    """Return the lines of a screen of this size; `commands` are worth trying elsewhere."""
    is_roomy = height >= _ROOMY_ROWS
    blank = [line("")] if is_roomy else []
    head = [*_flowed(_title(view), width), *_flowed(_totals(view.totals), width), *blank]
    legend = _flowed([Piece(text, Tone.FAINT) for text in _LEGEND], width) if view.rows else []
    tries = (part for one in commands[: None if is_roomy else 1] for part in wrapped(one, width))
    foot = [*_next(view), *map(line, tries)]
    room = height - len(head) - len(foot) - len(legend) - len(blank) - _LEAST_ACTIVITY_LINES
    if room < _LEAST_TABLE_LINES:  # what is worth trying can be read in the documentation
        legend, foot, blank = [], [*_next(view)], []
        room = height - len(head) - len(foot) - _LEAST_ACTIVITY_LINES
    if room < _LEAST_TABLE_LINES:  # too small for more than the table
        foot, room = [], height - len(head)
    table = table_lines(view.rows, width, room) if view.rows else _without_rows(view, width)
    above = [*head, *table, *legend, *blank]
    happened = _latest(view.activities, width, height - len(above) - len(foot))
    filling = [line("")] * (height - len(above) - len(happened) - len(foot))
    found = [*above, *happened, *filling, *foot]
    return [_cut(each, width) for each in found[:height]]


# --- around the table


def _title(view: View) -> Iterator[Piece]:
    yield Piece(view.title, Tone.STRONG)
    pace = view.pace
    speed = "real time" if pace.speed is None else speed_text(pace.speed)
    yield Piece(f"{view.now:%H:%M:%S}, {span(view.lasted)} in, {speed}")
    if pace.is_paused:
        yield Piece("PAUSED", Tone.CAREFUL)
    yield Piece("q ends" if pace.speed is None else "space pauses, + - speed, q ends", Tone.FAINT)


def speed_text(speed: float) -> str:
    """Return how fast time passes, as --speed has it."""
    return "max speed" if speed == float("inf") else f"{speed:g}x"


def _totals(totals: Totals) -> Iterator[Piece]:
    sums = (
        (totals.before.cpu_millicores, totals.after.cpu_millicores),
        (totals.before.memory_bytes, totals.after.memory_bytes),
    )
    for told, (before, after) in zip(requests_texts(totals), sums, strict=True):
        share = f" ({(after - before) / before:+.0%})" if before else ""
        yield Piece(f"{told}{share}", Tone.GOOD if after < before else Tone.PLAIN)
    done = totals.done
    yield Piece(f"{done[ActivityKind.EVICT]} evicted")
    yield Piece(f"{done[ActivityKind.RESIZE]} resized")
    yield Piece(f"{done[ActivityKind.UNBOOST]} boosts ended")
    last = f", last {totals.killed_at:%H:%M}" if totals.killed_at is not None else ""
    yield Piece(f"{done[ActivityKind.KILL]} OOM kills{last}")


def _next(view: View) -> Iterator[Line]:
    if view.upcoming is None:
        return
    at, pace = view.upcoming.at, view.pace
    until = at - view.now
    told = f"next: {at:%H:%M} {view.upcoming.what}"
    if not pace.is_paused and pace.speed != float("inf"):
        lasts = until / (pace.speed or 1.0)
        told += f" (in {lasts.total_seconds():.0f} s)" if lasts < _SOON else f" (in {span(lasts)})"
    yield line(told, Tone.STRONG)


def _without_rows(view: View, width: int) -> list[Line]:
    told = _ALL_REFUSED if view.totals.done[ActivityKind.REFUSE] else _NO_ROWS
    return [line(text, Tone.CAREFUL) for text in wrapped(told, width)]


# --- what happened


def _latest(activities: Sequence[Activity], width: int, room: int) -> list[Line]:
    """Return the latest activities that find room, each as a whole."""
    found: list[Line] = []
    for activity in reversed(_folded(activities)):
        lines = _activity(activity, width)
        if len(found) + len(lines) > room:
            break
        found = [*lines, *found]
    return found


def _folded(activities: Sequence[Activity]) -> list[Activity]:
    """Return activities with those that repeat soon as one, where the last of them stands."""
    found: list[Activity] = []
    seen: dict[tuple[ActivityKind, str, str, str], tuple[int, int, datetime]] = {}
    for one in reversed(activities):
        key = (one.kind, one.namespace, one.workload or one.who, _BOUND.sub("", one.why))
        place, count, at = seen.get(key, (0, 0, one.at))
        if count and at - one.at < _FOLDED:
            who = f"{one.workload or one.who} (x{count + 1})"
            found[place] = replace(found[place], who=who)
        else:
            place, count = len(found), 0
            found.append(one)
        seen[key] = (place, count + 1, one.at)
    return found[::-1]


def _activity(found: Activity, width: int) -> list[Line]:
    """Return an activity, its reason wrapped beside the rest, or beside its kind alone."""
    who, told, indent = "", f"{found.who}: {found.why}", _TIME + _KIND + 2
    wanted = _WHO[width >= _WIDE]
    if found.kind not in _LONG_NAMES and width - indent - wanted - 1 >= _LEAST_WHY:
        who, told = f"{_short(found.who, wanted):<{wanted}} ", found.why
        indent += wanted + 1
    first, *others = wrapped(told, width - indent)
    return [
        (
            Piece(f"{found.at:%H:%M:%S} ", Tone.FAINT),
            Piece(f"{found.kind:<{_KIND}} ", TONES[found.kind]),
            Piece(f"{who}{first}"),
        ),
        *(line(" " * indent + part) for part in others),
    ]


def _short(name: str, width: int) -> str:
    """Return the name of a pod with its own end, by which pods of a workload differ."""
    return name if len(name) <= width else f"{name[: width - 6]}…{name[-5:]}"


# --- lines


def _flowed(pieces: Iterable[Piece], width: int) -> list[Line]:
    """Return pieces one after the other, on as many lines as they need."""
    lines: list[Line] = []
    for piece in pieces:
        used = sum(len(one.text) for one in lines[-1]) if lines else width
        if used + len(_GAP) + len(piece.text) > width:
            lines.append((piece,))
        else:
            lines[-1] = (*lines[-1], Piece(_GAP), piece)
    return lines


def _cut(found: Line, width: int) -> Line:
    """Return a line no wider than the screen."""
    pieces: list[Piece] = []
    left = width
    for text, tone in _trimmed(found):
        if left <= 0:
            break
        shown = text if len(text) <= left else f"{text[: left - 1]}…"
        pieces.append(Piece(shown, tone))
        left -= len(shown)
    return tuple(pieces)


def _trimmed(found: Line) -> Line:
    """Return a line without blanks at its end, which need no room."""
    *pieces, last = found or (Piece(""),)
    return (*pieces, Piece(last.text.rstrip(), last.tone))
