"""Charts of usage over time, as HTML with SVG in it.

Strategy: a chart is as wide as the page lets it be, and its letters stay as large as all others:
they are placed by percent and pixel, and only the lines lie in a view box that is stretched. There
is no inline style; classes tell what is meant, and the style sheet what it looks like. Lines are
the only copy of the numbers: the script reads from them what is under the pointer. Marks are
letters, because colours alone do not tell everyone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from html import escape as escape_html
from typing import Final

import numpy as np

from app.page.core.axes import Tick, amount_ticks, shown_amount, spread, time_ticks, top_of
from app.page.core.usage_series import UsageSeries
from app.page.core.visible import visible
from app.recommender.core.histograms import Floats
from app.recommender.core.moments import SECOND, moment

WIDTH: Final = 1000  # of the view box of the lines
HEIGHT: Final = 1600  # likewise, tenths of a pixel
_PLOT: Final = 160  # pixels
_LANE: Final = 20  # pixels above it, where marks stand
_BELOW: Final = 22  # pixels below it, where times stand
_EDGE: Final = 0.04  # so near to an end texts begin or end there
_NEAR: Final = 0.018  # marks that are nearer share a letter
_MOST_TOLD: Final = 4  # marks in the words of one letter
_LONGEST: Final = 160  # characters of the words of a mark


class Drawing(str):
    """HTML that is safe as it stands: whatever came from outside is escaped in it."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


class LevelKind(StrEnum):
    """An amount that usage is compared with."""

    REQUEST = "request"
    TARGET = "target"
    LOWER = "lower bound"
    UPPER = "upper bound"
    LIMIT = "limit"
    PRESENT = "the present flags"  # what they would have requested
    UPSTREAM = "upstream's default"  # likewise


_DECIDING: Final = (  # how high a chart is
    LevelKind.REQUEST,
    LevelKind.TARGET,
    LevelKind.PRESENT,
    LevelKind.UPSTREAM,
)


_BOUNDS: Final = (LevelKind.LOWER, LevelKind.UPPER)


@dataclass(frozen=True, slots=True)
class ChartLevel:
    """An amount as it is now, and how it came to that."""

    now: int  # millicores or bytes
    changes: Sequence[tuple[datetime, int]] = ()  # oldest first; none: as if it was always so


class MarkKind(StrEnum):
    """What happened to a pod, the worst first."""

    KILL = "out of memory"
    EVICTION = "evicted"
    RESIZE = "resized"
    ROLLOUT = "new version"
    BOOST = "boosted"
    ROLE = "role moved"


_LETTERS: Final = dict(zip(MarkKind, "KERVBM", strict=True))
_ORDER: Final = {kind: rank for rank, kind in enumerate(MarkKind)}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a moment."""

    at: datetime
    kind: MarkKind
    text: str  # such as the pod, and why
    pod: str = ""  # that was killed


@dataclass(frozen=True, slots=True)
class Chart:
    """One resource of one container over a time."""

    key: str  # what tells it from all others on the page
    title: str
    resource: str
    start: int  # seconds since 1970
    end: int
    usage: UsageSeries | None
    levels: Mapping[LevelKind, ChartLevel]
    marks: Sequence[Mark] = ()
    source: str = ""  # where usage comes from
    problem: str = ""  # why there is none, or not all of it


def escape(text: str) -> str:
    """Return a text of others as HTML."""
    return escape_html(visible(text))


@dataclass(frozen=True, slots=True)
class _Line:
    """One series with its name in the legend."""

    css: str
    name: str
    values: Floats


def chart_html(chart: Chart) -> Drawing:
    """Draw a chart, with its legend."""
    lines = list(_lines(chart.usage))
    top = _top(chart, lines)
    title = escape(chart.title)
    key = escape(chart.key)
    drawn = "".join((
        *_times(time_ticks(chart.start, chart.end)),
        f'<svg y="{_LANE}" width="100%" height="{_PLOT}" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' preserveAspectRatio="none">',
        *_grid(amount_ticks(chart.resource, top)),
        *_bounds(chart, top),
        *_areas(chart, lines, top),
        *_levels(chart, top),
        "</svg>",
        *_marks(chart),
    ))  # fmt: skip
    note = f'<p class="chart-note">{escape(chart.problem)}</p>' if chart.problem else ""
    height = _LANE + _PLOT + _BELOW
    return Drawing(
        f'<figure class="chart {escape(chart.resource)}"><figcaption>{title} '
        f'<span class="at">{moment(chart.end * SECOND):%Y-%m-%d %H:%M} UTC</span></figcaption>'
        f'<div class="chart-body"><svg class="axis" height="{height}" aria-hidden="true">'
        f"{''.join(_amounts(amount_ticks(chart.resource, top)))}</svg>"
        f'<svg class="plot" height="{height}" role="img" tabindex="0" '
        f'aria-labelledby="{key}-t {key}-d" data-resource="{escape(chart.resource)}" '
        f'data-top="{top:.6g}" data-start="{chart.start}" data-end="{chart.end}">'
        f'<title id="{key}-t">{title}</title><desc id="{key}-d">{escape(_words(chart))}</desc>'
        f"{drawn}</svg></div>{note}{_legend(chart, lines, top)}</figure>"
    )


def _lines(usage: UsageSeries | None) -> Iterator[_Line]:
    """Yield what is drawn of usage: one line, where all pods use the same or there is one."""
    if usage is None:
        return
    if not np.nanmax(usage.highest - usage.median, initial=0.0):
        yield _Line("median", "usage", usage.median)
        return
    yield _Line("highest", "highest pod", usage.highest)
    if np.nanmax(usage.highest - usage.high, initial=0.0):  # of fewer than 20 it is the same
        yield _Line("high", "95 % of pods", usage.high)
    yield _Line("median", "median pod", usage.median)


def _top(chart: Chart, lines: Sequence[_Line]) -> float:
    used = [float(np.nanmax(line.values, initial=0.0)) for line in lines]
    deciding, others = list[float](used), list[float]()
    for kind, level in chart.levels.items():
        amounts = [amount for _, amount in _steps(chart, level)]
        (deciding if kind in _DECIDING else others).extend(map(float, amounts))
    return top_of(deciding, others)


# --- axes


def _grid(ticks: Iterable[Tick]) -> Iterator[str]:
    drawn = "".join(f"M0 {_unit(tick.share)}H{WIDTH}" for tick in ticks if tick.share)
    yield f'<path class="grid" d="{drawn}"/><path class="base" d="M0 {HEIGHT}H{WIDTH}"/>'


def _amounts(ticks: Iterable[Tick]) -> Iterator[str]:
    for tick in ticks:
        yield f'<text x="100%" y="{_pixel(tick.share)}" dy=".32em">{tick.text}</text>'


def _times(ticks: Iterable[Tick]) -> Iterator[str]:
    y = _LANE + _PLOT + 16
    for tick in ticks:
        place = f'class="time{_anchor(tick.share)}" x="{_percent(tick.share)}" y="{y}"'
        yield f"<text {place}>{tick.text}</text>"


def _anchor(share: float) -> str:
    return " first" if share < _EDGE else " last" if share > 1 - _EDGE else ""


# --- lines


def _areas(chart: Chart, lines: Sequence[_Line], top: float) -> Iterator[str]:
    for line in lines:
        is_line = line.css == "median"
        parts = "".join(_path(part, top, is_line=is_line) for part in _parts(chart, line.values))
        if parts:
            yield f'<path class="{line.css}" d="{parts}"/>'


def _parts(chart: Chart, values: Floats) -> Iterator[list[tuple[int, float]]]:
    """Yield the stretches of which something is known: places and amounts."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return
    places = np.rint((known + 0.5) * WIDTH / len(values)).astype(int).tolist()
    amounts = values[known].tolist()
    begins = [0, *(np.flatnonzero(np.diff(known) > _gap(chart, len(values))) + 1).tolist()]
    for begin, end in zip(begins, [*begins[1:], len(known)], strict=True):
        yield list(zip(places[begin:end], amounts[begin:end], strict=True))


def _gap(chart: Chart, points: int) -> int:
    """Return how many steps may be missing in a line: one, where steps are short."""
    return 2 if (chart.end - chart.start) // points <= 60 else 1


def _path(part: Sequence[tuple[int, float]], top: float, *, is_line: bool) -> str:
    first, last = part[0][0], part[-1][0]
    if first == last:  # a point is as wide as can be seen
        first, last = max(first - 2, 0), min(last + 2, WIDTH)
        part = [(first, part[0][1]), (last, part[0][1])]
    drawn = " ".join(f"{x} {_unit(amount / top)}" for x, amount in part)
    return f"M{drawn}" if is_line else f"M{drawn}V{HEIGHT}H{first}Z"


def _levels(chart: Chart, top: float) -> Iterator[str]:
    for kind, level in chart.levels.items():
        points = _steps(chart, level)
        if max(amount for _, amount in points) > top:
            continue
        drawn = [f"{x} {_unit(amount / top)}" for x, amount in points]
        if points[0][0]:  # what was before the first look is not known
            before = drawn[0].partition(" ")[2]
            yield f'<path class="{_css(kind)} before" d="M0 {before} {drawn[0]}"/>'
        yield f'<path class="{_css(kind)}" d="M{" ".join(drawn)}"/>'


def _bounds(chart: Chart, top: float) -> Iterator[str]:
    """Yield the space between the bounds as they are now."""
    if not _are_bounds(chart.levels):
        return
    lower, upper = (chart.levels[kind] for kind in _BOUNDS)
    if lower.changes or upper.changes:
        return
    high, low = _unit(min(upper.now / top, 1.0)), _unit(min(lower.now / top, 1.0))
    yield f'<rect class="bounds" width="{WIDTH}" y="{high}" height="{max(low - high, 0)}"/>'


def _are_bounds(levels: Mapping[LevelKind, ChartLevel]) -> bool:
    return all(kind in levels for kind in _BOUNDS)


def _steps(chart: Chart, level: ChartLevel) -> list[tuple[int, int]]:
    """Return the corners of a level over time."""
    if not level.changes:
        return [(0, level.now), (WIDTH, level.now)]
    corners: list[tuple[int, int]] = []
    for at, amount in level.changes:
        share = (at.timestamp() - chart.start) / (chart.end - chart.start)
        x = round(min(max(share, 0.0), 1.0) * WIDTH)
        if corners and corners[-1][0] == x:
            corners.pop()
        elif corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, amount))
    return [*corners, (WIDTH, corners[-1][1])]


# --- marks


def _marks(chart: Chart) -> Iterator[str]:
    length = chart.end - chart.start
    inside = _inside(chart)
    shares = [(mark.at.timestamp() - chart.start) / length for mark in inside]
    for group in spread(shares, _NEAR):
        marks = [inside[index] for index in group]
        worst = min(marks, key=lambda one: _ORDER[one.kind])
        x = _percent(shares[group[0]])
        count = len(marks) if len(marks) > 1 else ""
        told = [
            f"{mark.at:%H:%M} {mark.kind}: {mark.text[:_LONGEST]}" for mark in marks[:_MOST_TOLD]
        ]
        if len(marks) > _MOST_TOLD:
            told.append(f"and {len(marks) - _MOST_TOLD} more")
        yield (
            f'<g class="mark {_css(worst.kind)}"><title>{escape(chr(10).join(told))}</title>'
            f'<line x1="{x}" x2="{x}" y1="{_LANE - 2}" y2="{_LANE + _PLOT}"/>'
            f'<text class="{_anchor(shares[group[0]])}" x="{x}" y="{_LANE - 7}">'
            f"{_LETTERS[worst.kind]}{count}</text></g>"
        )


def _inside(chart: Chart) -> list[Mark]:
    return [mark for mark in chart.marks if chart.start <= mark.at.timestamp() <= chart.end]


# --- words


def _legend(chart: Chart, lines: Sequence[_Line], top: float) -> str:
    """Return the names of all that is drawn, with their amounts now."""
    levels = chart.levels
    rows = [
        (line.css, line.name, _told(chart.resource, line.css, _newest(line.values)))
        for line in reversed(lines)
    ]
    rows += [
        (_css(kind), str(kind), _level_told(chart, kind, top))
        for kind in levels
        if not _are_bounds(levels) or kind not in _BOUNDS
    ]
    if _are_bounds(levels):
        told = " to ".join(_level_told(chart, kind, top) for kind in _BOUNDS)
        rows.append(("bounds", "bounds", told))
    kinds = sorted({mark.kind for mark in _inside(chart)}, key=lambda one: _ORDER[one])
    rows += [(f"mark {_css(kind)}", f"<b>{_LETTERS[kind]}</b>", str(kind)) for kind in kinds]
    drawn = (f'<div class="{css}"><dt>{name}</dt><dd>{told}</dd></div>' for css, name, told in rows)
    return f'<dl class="legend">{"".join(drawn)}</dl>'


def _level_told(chart: Chart, kind: LevelKind, top: float) -> str:
    now = float(chart.levels[kind].now)
    return _told(chart.resource, _css(kind), now) + " (above the chart)" * (now > top)


def _told(resource: str, css: str, amount: float) -> str:
    """Return an amount that the script replaces by the one under the pointer."""
    text = "unknown" if np.isnan(amount) else shown_amount(resource, amount)
    return f'<span data-of="{css}">{text}</span>'


def _newest(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else float("nan")


def _words(chart: Chart) -> str:
    """Say in a sentence or two what the chart shows."""
    found: list[str] = []
    if chart.usage is None or np.isnan(chart.usage.highest).all():
        found.append("No usage is known.")
    else:
        place = int(np.nanargmax(chart.usage.highest))
        at = moment((chart.usage.start + place * chart.usage.step_seconds) * SECOND)
        highest = shown_amount(chart.resource, float(chart.usage.highest[place]))
        found.append(f"Usage: highest {highest} at {at:%Y-%m-%d %H:%M} UTC.")
    if chart.levels:
        told = (
            f"{kind} {shown_amount(chart.resource, level.now)}"
            for kind, level in chart.levels.items()
        )
        found.append(f"Now: {', '.join(told)}.")
    found.append(f"Marks: {len(_inside(chart))}.")
    return " ".join(found)


def _css(kind: LevelKind | MarkKind) -> str:
    return kind.name.lower()


def _unit(share: float) -> int:
    return round((1.0 - share) * HEIGHT)


def _pixel(share: float) -> str:
    return f"{_LANE + (1.0 - share) * _PLOT:.1f}"


def _percent(share: float) -> str:
    return f"{share * 100:.2f}%"
