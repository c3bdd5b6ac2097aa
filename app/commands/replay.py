"""Plays recorded usage through the recommender, without a cluster.

Strategy: objects come from the same kinds of files as those of the webhook without a cluster,
events line by line. Whatever cannot be read is told on standard error, and the rest is played.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import orjson

from app.commands.replay_flags import ReplaySettings
from app.commands.replaying.changes import read_change
from app.commands.replaying.playback import Replay, ReplayLook, ReplaySchedule
from app.commands.replaying.printing import CSV_HEADER, Bar, csv_lines, json_lines
from app.commands.replaying.recorded_history import RecordedHistory, read_history
from app.commands.replaying.recorded_objects import RecordedObjects
from app.kube.files import Unreadable, given_objects
from app.kube.splitting import STDIN, lines
from app.model.errors import BadObject, BadSetting
from app.model.fields import Json
from app.model.text import amount
from app.model.times import rfc3339
from app.output import Line, Piece, Report, Table
from app.ports import VPAS
from app.recommender.configuration import round_rules
from app.recommender.core.moments import nanoseconds, span

_MOST_TOLD: Final = 20  # sentences about objects, and as many about events
_MOST_DAYS: Final = 100  # without an event, which are played unless the end is told
_LEAPS: Final = "correct it, or say with --until or --at when to end"
_COLUMNS: Final = ("TIME", "NAMESPACE", "VPA", "CONTAINER", "CPU", "MEMORY")
_RESOURCES: Final = ("cpu", "memory")
_COMPLAINTS: Final = {
    "unknown": ("usage sample", "no such container at that time"),
    "misdated": ("usage sample", "dated far from the time of the event"),
    "kills_unknown": ("OOM kill", "no such container at that time"),
    "kills_late": ("OOM kill", "dated far from the time of the event"),
}


def played(settings: ReplaySettings) -> Iterator[bytes]:
    """Yield what a replay prints for programs, as it goes.

    Raises:
        BadSetting: there is nothing to play, or no time to play it in; in the end, that of a
            folder not all could be read.
    """
    showing, unread = settings.showing, list[Unreadable]()
    if showing.wants_csv:
        yield CSV_HEADER
    for look in _looks(settings, unread):
        if showing.wants_csv:
            yield from csv_lines(look)
        else:
            yield from json_lines(look, checkpoints=showing.checkpoints)
    if unread:
        raise BadSetting(f"without what cannot be read at {', '.join(one.place for one in unread)}")


def summed_up(settings: ReplaySettings) -> Report:
    """Return what a replay shows, as a report: a row for each target.

    Raises:
        BadSetting: there is nothing to play, or no time to play it in.
    """
    rows: list[Line] = []
    items: list[Json] = []
    unread: list[Unreadable] = []
    for look in _looks(settings, unread):
        rows += _rows(look)
        lines = json_lines(look, checkpoints=settings.showing.checkpoints)
        items += map(orjson.loads, lines)
    names = [f"verticalpodautoscaler.{VPAS.group}/{one['name']}" for one in items if "name" in one]
    return Report(Table(_COLUMNS, rows), items, names, is_partial=bool(unread))


def _rows(look: ReplayLook) -> Iterator[Line]:
    for vpa in look.vpas:
        for one in vpa.recommendation or ():
            amounts = (
                amount(name, one.target[name]) if name in one.target else "-" for name in _RESOURCES
            )
            cells = (rfc3339(look.now), vpa.namespace, vpa.name, one.container)
            yield tuple(map(Piece, (*cells, *amounts)))


def _looks(settings: ReplaySettings, unread: list[Unreadable]) -> Iterator[ReplayLook]:
    """Play, and tell in the end what could not be used."""
    bar = Bar(sys.stderr)
    objects = read_objects(settings.offline.objects, unread)
    rules = round_rules(settings.recommender)
    history = read_events(settings.playing.events, rules.variant.most_usage, bar)
    schedule = _schedule(settings, history)
    replay = Replay(history, objects, rules, schedule, partial(bar.show, "playing"))
    for look in replay.play():
        bar.clear()
        yield look
    bar.clear()
    _tell(replay.problems)
    for count, (what, why) in _COMPLAINTS.items():
        if number := replay.tally[count]:
            _say(f"{number} {what}{'s' if number > 1 else ''} ignored: {why}")


def read_objects(paths: Iterable[Path], unread: list[Unreadable]) -> RecordedObjects:
    """Return the objects that files describe."""
    objects, problems = RecordedObjects(), list[str]()
    for found in given_objects(paths, unread):
        try:
            change, left_out = read_change(found.item)
        except BadObject as error:
            problems.append(f"{found.place}: {error}")
            continue
        if left_out:
            problems.append(f"{found.place}: {left_out}")
        if change is not None:
            objects.take(change, None)
    _tell([*map(str, unread), *problems])
    return objects


def read_events(path: Path | None, most: float, bar: Bar) -> RecordedHistory:
    """Return what a file tells, and say what cannot be read.

    Raises:
        BadSetting: none is named, or nothing can be read.
    """
    if path is None:
        raise BadSetting("no events given: name a file with --events, or - to read them")
    shown = _shown(path)
    read = lines(str(path), partial(bar.show, "reading"))
    history = read_history(read, shown, most)
    bar.clear()
    _tell(history.problems)
    if history.problems and history.skipped == history.lines:
        raise BadSetting(f"{shown}: no event can be read")
    if history.skipped:
        _say(f"{history.skipped} of {history.lines} events cannot be read and were skipped")
    return history


def _shown(path: Path | None) -> str:
    return "stdin" if str(path) == STDIN else str(path)


def _schedule(settings: ReplaySettings, history: RecordedHistory) -> ReplaySchedule:
    playing, showing = settings.playing, settings.showing
    if playing.start is not None:
        start_ns = nanoseconds(playing.start)
    elif history.bounds is not None:
        start_ns = history.bounds[0]
    else:
        raise BadSetting("there are no events: say with --start when to begin")
    until_ns = nanoseconds(playing.until) if playing.until is not None else None
    looks = sorted({nanoseconds(look) for look in showing.at})
    if until_ns is not None and until_ns < start_ns:
        raise BadSetting("--until is before the start")
    if until_ns is not None and looks and looks[-1] > until_ns:
        raise BadSetting("--at is after --until")
    if until_ns is None and not looks and (leap := history.leap(start_ns, _MOST_DAYS)):
        line, days = leap
        place = f"{_shown(playing.events)}:{line}: time"
        raise BadSetting(f"{place}: {days} days after all before it; {_LEAPS}")
    return ReplaySchedule(
        start=start_ns,
        interval=span(playing.interval or settings.loop.interval),
        until=until_ns,
        looks=looks,
        every_tick=showing.wants_csv and not looks,
    )


def _tell(problems: Sequence[str]) -> None:
    for problem in problems[:_MOST_TOLD]:
        _say(problem)
    if len(problems) > _MOST_TOLD:
        _say(f"and {len(problems) - _MOST_TOLD} more")


def _say(sentence: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"plumbline: {sentence}\n")
