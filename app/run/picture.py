"""What is shown while everything runs, as values, and their picture on a screen.

Strategy: a value in, lines out: as many as there is room for, none wider than the terminal.
Columns are as wide as their widest text ever is, so nothing jumps; what does not fit is left out
from the right, and the latest activities stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.model.text import cores, size, span
from app.output import Line, Piece, Tone, line

_NAME: Final = 16
_LEAST_ACTIVITIES: Final = 4
_WHO: Final = 26
_WHAT: Final = 9
_UNKNOWN: Final = "-"


class ActivityKind(StrEnum):
    """The kind of an activity, in one word."""

    RECOMMEND = "recommend"
    CREATE = "create"  # a pod that was sized as it was created
    BOOST = "boost"  # the same, with more CPU for its start
    RESIZE = "resize"
    UNBOOST = "unboost"
    EVICT = "evict"
    WAIT = "wait"  # something is wanted, and something stands in the way
    KILL = "kill"  # for memory
    REFUSE = "refuse"  # an object, by the cluster or by the webhook
    WRITE = "write"  # something that is told instead of being sent
    STORY = "story"  # done by the demonstration itself
    TROUBLE = "trouble"  # something of ours went wrong


TONES: Mapping[ActivityKind, Tone] = {
    ActivityKind.RECOMMEND: Tone.FAINT,
    ActivityKind.CREATE: Tone.GOOD,
    ActivityKind.BOOST: Tone.GOOD,
    ActivityKind.RESIZE: Tone.GOOD,
    ActivityKind.UNBOOST: Tone.GOOD,
    ActivityKind.EVICT: Tone.CAREFUL,
    ActivityKind.WAIT: Tone.CAREFUL,
    ActivityKind.KILL: Tone.BAD,
    ActivityKind.REFUSE: Tone.BAD,
    ActivityKind.WRITE: Tone.FAINT,
    ActivityKind.STORY: Tone.STRONG,
    ActivityKind.TROUBLE: Tone.BAD,
}


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that happened, and why."""

    at: datetime
    kind: ActivityKind
    who: str
    why: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ResourceAmounts:
    """One resource of a pod: millicores, or bytes; None is not known."""

    request: int | None = None
    usage: int | None = None
    target: int | None = None
    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True, slots=True)
class VpaRow:
    """The pods of one VPA; amounts are those of an average pod."""

    namespace: str
    vpa: str
    pods: int
    cpu: ResourceAmounts
    memory: ResourceAmounts
    standing: str  # why nothing is done about most of its pods, or what is


@dataclass(frozen=True, slots=True)
class Sums:
    """What all pods under VPAs request together."""

    cpu_millicores: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """What the webhook answered so far."""

    reviews: int = 0
    pods_changed: int = 0
    vpas_refused: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """What was done so far."""

    reviewed: ReviewCounts = ReviewCounts()
    done: Counter[ActivityKind] = field(default_factory=Counter)  # how often each
    refusals: Counter[str] = field(default_factory=Counter)  # pods that had to wait, by reason
    before: Sums = Sums()  # as the templates have it
    after: Sums = Sums()


@dataclass(frozen=True, slots=True)
class View:
    """Everything that is shown at a moment."""

    title: str
    now: datetime
    lasted: timedelta
    speed: str
    reviews_per_minute: float
    rows: Sequence[VpaRow]
    activities: Sequence[Activity]  # the latest last
    totals: Totals
    is_dry: bool = False  # what is counted would have been done


# --- how it is drawn


def picture(view: View, commands: Sequence[str], width: int, height: int) -> list[Line]:
    """Return the lines of a screen of this size; commands are shown where there is room."""
    head = [*_head(view), line("")]
    is_wide = len({row.namespace for row in view.rows}) > 1  # so names need their namespace
    table = [_columns(), *(_row(row, is_wide=is_wide) for row in view.rows)]
    below = [line(""), *map(_command, commands)] if _fit(commands, width) else []
    room = height - len(head) - 2 - _LEAST_ACTIVITIES
    if len(table) + len(below) > room:
        below = []
    if len(table) > room:
        left_out = len(table) - room + 1
        table = [*table[: max(room - 1, 1)], line(f"and {left_out} more", Tone.FAINT)]
    used = len(head) + len(table) + len(below) + 1
    happened = [_activity(one) for one in view.activities[-max(height - used, 0) :]]
    blank = [line("")] * max(height - used - len(happened), 0)
    found = [*head, *table, line(""), *happened, *blank, *below]
    return [_cut(each, width) for each in found[:height]]


def _head(view: View) -> Iterator[Line]:
    yield (
        Piece(view.title, Tone.STRONG),
        Piece(f"   {view.now:%H:%M:%S}, {span(view.lasted)} in   {view.speed}", Tone.PLAIN),
        Piece(
            f"   webhook {view.totals.reviewed.reviews} reviews, {view.reviews_per_minute:.1f}/min",
            Tone.PLAIN,
        ),
    )
    yield line(f"{requests_line(view.totals)} requested   {actions_line(view.totals)}")


def requests_line(totals: Totals) -> str:
    """Say how much is requested, and how much would be without us."""
    before, after = totals.before, totals.after
    return (
        f"{cores(before.cpu_millicores)} → {cores(after.cpu_millicores)} CPU, "
        f"{size(before.memory_bytes)} → {size(after.memory_bytes)}"
    )


def actions_line(totals: Totals) -> str:
    """Say what was done."""
    done = totals.done
    return (
        f"evicted {done[ActivityKind.EVICT]}, resized {done[ActivityKind.RESIZE]}, "
        f"unboosted {done[ActivityKind.UNBOOST]}, held back {totals.refusals.total()}, "
        f"OOMs {done[ActivityKind.KILL]}"
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """How the amounts of one resource are written, and how wide."""

    word: str
    shown: Callable[[int], str]
    width: int
    bounds_width: int

    def head(self) -> str:
        width = self.width
        return (
            f"{self.word:>{width}} {'used':>{width}} {'target':>6} {'bounds':<{self.bounds_width}}"
        )

    def pieces(self, found: ResourceAmounts) -> tuple[Piece, ...]:
        width = self.width
        bounds = _UNKNOWN
        if found.lower is not None and found.upper is not None:
            bounds = f"{self.shown(found.lower)}-{self.shown(found.upper)}"
        return (
            Piece(f"{self._told(found.request):>{width}} ", _tone(found)),
            Piece(f"{self._told(found.usage):>{width}} {self._told(found.target):>6} "),
            Piece(f"{_fitted(bounds, self.bounds_width)} ", Tone.FAINT),
        )

    def _told(self, amount: int | None) -> str:
        return _UNKNOWN if amount is None else self.shown(amount)


_CPU: Final = _Columns("CPU", cores, 5, 10)
_MEMORY: Final = _Columns("MEMORY", size, 6, 12)


def _columns() -> Line:
    cells = (f"{'VPA':<{_NAME}} PODS", _CPU.head(), _MEMORY.head(), "STANDING")
    return line(" ".join(cells), Tone.STRONG)


def _row(row: VpaRow, *, is_wide: bool) -> Line:
    name = f"{row.namespace}/{row.vpa}" if is_wide else row.vpa
    return (
        Piece(f"{_fitted(name, _NAME)} {row.pods:>4} "),
        *_CPU.pieces(row.cpu),
        *_MEMORY.pieces(row.memory),
        Piece(row.standing, Tone.FAINT),
    )


def _tone(found: ResourceAmounts) -> Tone:
    """Tell requests outside of their bounds from others."""
    if found.request is None or found.lower is None or found.upper is None:
        return Tone.PLAIN
    return Tone.GOOD if found.lower <= found.request <= found.upper else Tone.BAD


def _activity(found: Activity) -> Line:
    return (
        Piece(f"{found.at:%H:%M:%S} ", Tone.FAINT),
        Piece(f"{found.kind:<{_WHAT}} ", TONES[found.kind]),
        Piece(f"{_fitted(found.who, _WHO)} "),
        Piece(found.why),
    )


def _fit(commands: Sequence[str], width: int) -> bool:
    """Whether commands can be read, and so be copied, as a whole."""
    return bool(commands) and max(map(len, commands)) <= width


def _command(text: str) -> Line:
    return line(text, Tone.FAINT if text.startswith("#") else Tone.PLAIN)


def activity_line(found: Activity) -> str:
    """Return a happening as one plain line."""
    who = f"{found.namespace}/{found.who}" if found.namespace else found.who
    return f"{found.at:%H:%M:%S} {found.kind:<{_WHAT}} {who}: {found.why}"


def summary(view: View) -> Iterator[str]:
    """Yield the last words."""
    totals = view.totals
    reviews, done = totals.reviewed, totals.done
    would = ", in which nothing was written; this would have been done" if view.is_dry else ""
    yield f"After {span(view.lasted)} of the cluster's time{would}:"
    yield f"  requests of all pods under VPAs  {requests_line(totals)}  ({_saved(totals)})"
    changed = reviews.pods_changed
    yield f"  reviews answered                 {reviews.reviews}, {changed} pods changed"
    if reviews.vpas_refused:
        yield f"  VPAs refused                     {reviews.vpas_refused}"
    yield (
        f"  pods evicted, resized in place   {done[ActivityKind.EVICT]}, "
        f"{done[ActivityKind.RESIZE]}, and {done[ActivityKind.UNBOOST]} start-up boosts ended"
    )
    yield f"  containers killed for memory     {done[ActivityKind.KILL]}"
    yield f"  pods held back                   {_held_back(totals)}"
    if done[ActivityKind.TROUBLE]:
        yield f"  errors of ours                   {done[ActivityKind.TROUBLE]}"


def _saved(totals: Totals) -> str:
    cpu = totals.before.cpu_millicores - totals.after.cpu_millicores
    memory = totals.before.memory_bytes - totals.after.memory_bytes
    return ", ".join((
        f"{cores(abs(cpu))} CPU {'saved' if cpu >= 0 else 'added'}",
        f"{size(abs(memory))} {'saved' if memory >= 0 else 'added'}",
    ))  # fmt: skip


def _held_back(totals: Totals) -> str:
    found = [f"{count} {reason}" for reason, count in sorted(totals.refusals.items())]
    return ", ".join(found) or "none"


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def _cut(found: Line, width: int) -> Line:
    """Return a line no wider than the screen."""
    pieces: list[Piece] = []
    left = width
    for text, tone in found:
        if left <= 0:
            break
        shown = text if len(text) <= left else f"{text[: left - 1]}…"
        pieces.append(Piece(shown, tone))
        left -= len(shown)
    return tuple(pieces)
