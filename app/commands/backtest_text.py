"""What a back-test found, for people and for programs: the sentence, the table, and the notes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from importlib.resources import files
from typing import Final

from app.backtest.core.recorded_fleet import RecordedWorkload
from app.backtest.core.setting_outcomes import (
    HistoryQuality,
    Interval,
    ResourceOutcome,
    SettingOutcome,
)
from app.backtest.core.settings import AS_IT_WAS
from app.commands.backtest_settings import UPSTREAM
from app.model.fields import Json
from app.model.text import percent
from app.output import Forms, Line, Piece, Table, Text, Tone, line, table_lines
from app.page.rendering import Templates

_COLUMNS: Final = (
    "SETTING",
    "CPU",
    "UNUSED",
    "SHORT",
    "MEMORY",
    "UNUSED",
    "SHORT",
    "KILLS",
    "RESIZES/DAY",
    "EVICTIONS/DAY",
)
_LEGEND: Final = (
    "CPU and MEMORY: core hours and GiB hours reserved; UNUSED: the share of that; SHORT: the "
    "share of intervals in which more was used than reserved"
)
_INDENT: Final = Piece("  ")
_A_DAY: Final = "RESIZES and EVICTIONS: pods a day"
_MORE: Final = "; all columns: -o wide"
_MOST_NAMED: Final = 3
_NOTHING: Final = {  # by whether requests are known
    True: "nothing else than before, as nothing was requested",
    False: "what the table says, as it is not known what was requested,",
}
_LITTLE: Final = 0.005  # a share that is written as 0%
_WEEK: Final = 7


def sentence(outcome: SettingOutcome, was: SettingOutcome, quality: HistoryQuality) -> str:
    """Say in a sentence what a setting would have changed."""
    parts = [
        told
        for word, each in (("CPU", outcome.cpu), ("memory", outcome.memory))
        if (told := _change(word, each.change))
    ]
    reserved = " and ".join(parts) or _NOTHING[was.cpu.is_known or was.memory.is_known]
    changes = f"{_kills(outcome)}{',' * bool(outcome.more_kills)} and {_a_week(outcome)}"
    cut_off = f"{percent(quality.cut_off_share)} of samples were cut off by limits"
    days = counted(quality.days, "day")
    name = " and ".join(outcome.name.rsplit(", ", 1))
    told = f"With {name} you would have reserved {reserved} with {changes}, over {days}; {cut_off}."
    return " ".join([told, *_shortages(outcome, was)])


def _change(word: str, change: Interval | None) -> str:
    if change is None:
        return ""
    share = abs(change.value)
    if share < _LITTLE:
        return f"as much {word}"
    changed = f"{percent(share)} {'more' if change.value > 0 else 'less'} {word}"
    if change.least is None or change.most is None:
        return changed
    least, most = sorted(
        (bound if change.value > 0 else -bound) * 100 for bound in (change.least, change.most)
    )
    digits = 0 if round(least) != round(most) else 1
    least, most = (round(each, digits) + 0.0 for each in (least, most))  # no minus before a zero
    return f"{changed} ({least:.{digits}f} to {most:.{digits}f}%)"


def _kills(outcome: SettingOutcome) -> str:
    """Say how kills changed, and of which workloads there would have been more."""
    more, fewer = outcome.more_kills, outcome.fewer_kills
    told = [f"{fewer} fewer kill{'' if fewer == 1 else 's'}"] if fewer else []
    if more:
        kills = "" if fewer else f" kill{'' if more == 1 else 's'}"
        told.append(f"{more} more{kills} of {_named(outcome.killed_more)}")
    return ", but ".join(told) or "no more kills"


def _named(workloads: Sequence[RecordedWorkload]) -> str:
    names = ", ".join(map(str, workloads[:_MOST_NAMED]))
    more = len(workloads) - _MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names


def _shortages(outcome: SettingOutcome, was: SettingOutcome) -> Iterator[str]:
    """Say where more was used than requested more often than before, which is what less costs."""
    for word, one, before in (
        ("CPU", outcome.cpu, was.cpu),
        ("Memory", outcome.memory, was.memory),
    ):
        if not before.is_known:
            continue
        share, other = f"{one.over_share:.1%}", f"{before.over_share:.1%}"
        if one.over_share > before.over_share and share != other:
            yield f"{word} would have been short {share} of the time, not {other}."


def _a_week(outcome: SettingOutcome) -> str:
    resizes, evictions = outcome.resizes_a_day * _WEEK, outcome.evictions_a_day * _WEEK
    if evictions:
        return f"{counted(round(evictions), 'eviction')} a week"
    return f"{counted(round(resizes), 'resize')} a week" if resizes else "no resize"


def lines(outcomes: Sequence[SettingOutcome], quality: HistoryQuality) -> list[Line | Forms]:
    """Return all that people read about a back-test."""
    told = _told(outcomes)
    found: list[Line | Forms] = [line(sentence(told, outcomes[0], quality), Tone.STRONG), line("")]
    found += [forms(outcomes)]
    found += [line(""), line(_LEGEND, Tone.FAINT), *map(line, below(outcomes, quality))]
    for one in outcomes:
        if one.flags:
            found += [line(""), line(f"to use {one.name}:"), line(f"  {' '.join(one.flags)}")]
    return found


def page(outcomes: Sequence[SettingOutcome], quality: HistoryQuality) -> Text:
    """Return the same as a page in one file."""
    first = sentence(_told(outcomes), outcomes[0], quality)
    return html("Back-test", first, outcomes, [_LEGEND, *below(outcomes, quality)])


def below(outcomes: Sequence[SettingOutcome], quality: HistoryQuality) -> Iterator[str]:
    """Yield what stands below the table."""
    if worst := list(_worst(outcomes)):
        yield f"worst workload: {'; '.join(worst)}"
    yield from doubts(quality)


def _told(outcomes: Sequence[SettingOutcome]) -> SettingOutcome:
    """Return the outcome that the sentence is about: the first set, else the present flags."""
    return next((one for one in outcomes[2:] if one.name != UPSTREAM), outcomes[1])


def html(title: str, first: str, outcomes: Sequence[SettingOutcome], notes: Sequence[str]) -> Text:
    """Return a page in one file: the sentence, a row with bars for each setting, and notes."""
    most = [max(one.reserved for one in each) for each in zip(*map(_both, outcomes), strict=True)]
    shown = table(outcomes)
    page = Templates({}).page(
        "backtest",
        title=title,
        style=files("app.page").joinpath("static", "page.css").read_text("utf-8"),
        sentence=first,
        columns=shown.columns,
        rows=[
            {
                "cells": [piece.text for piece in row],
                "bars": [_bar(each, top) for each, top in zip(_both(one), most, strict=True)],
            }
            for row, one in zip(shown.rows, outcomes, strict=True)
        ],
        notes=notes,
        flags=[one for one in outcomes if one.flags],
    )
    return Text([line(each) for each in page.decode().splitlines()])


def _both(one: SettingOutcome) -> tuple[ResourceOutcome, ResourceOutcome]:
    return one.cpu, one.memory


def _bar(one: ResourceOutcome, most: float) -> Json:
    """Return how long the parts of a bar are, in percent."""
    unused = one.slack / most * 100 if most else 0.0
    used = one.reserved / most * 100 - unused if most else 0.0
    label = f"{one.reserved:.1f} hours reserved, {percent(one.slack_share)} not used"
    return {"used": f"{used:.1f}", "unused": f"{unused:.1f}", "label": label}


def table(outcomes: Sequence[SettingOutcome]) -> Table:
    """Return a row for each setting."""
    has_costs = any(one.cost is not None for one in outcomes)
    columns = (*_COLUMNS, "COST") if has_costs else _COLUMNS
    return Table(columns, [_row(one, has_cost=has_costs) for one in outcomes])


def forms(outcomes: Sequence[SettingOutcome]) -> Forms:
    """Return the table, and narrower ones: names above their numbers, then less of these."""
    whole = table(outcomes)
    return Forms([list(table_lines(whole)), *(list(_stacked(whole, each)) for each in _LEFT_OUT)])


def _stacked(whole: Table, left_out: Collection[int]) -> Iterator[Line]:
    """Yield a table with each first cell above the others, and without some columns."""
    kept = [at for at in range(1, len(whole.columns)) if at not in left_out]
    names = tuple(whole.columns[at].removesuffix("/DAY") for at in kept)
    rows = [tuple(row[at] for at in kept) for row in whole.rows]
    head, *numbers = table_lines(Table(names, rows))
    yield (_INDENT, *head)
    for row, of_row in zip(whole.rows, numbers, strict=True):
        yield row[:1]
        yield (_INDENT, *of_row)
    yield line(f"{_A_DAY}{_MORE if left_out else ''}", Tone.FAINT)


def _row(one: SettingOutcome, *, has_cost: bool) -> Line:
    is_recorded = one.name == AS_IT_WAS
    cells = [
        one.name,
        *_cells(one.cpu),
        *_cells(one.memory),
        str(one.kills),
        "-" if is_recorded else f"{one.resizes_a_day:.1f}",
        "-" if is_recorded else f"{one.evictions_a_day:.1f}",
    ]
    if has_cost and one.cost is not None:
        cells.append(f"{one.cost:.2f}")
    return tuple(
        Piece(cell, Tone.BAD if index == _KILLS and one.kills else Tone.PLAIN)
        for index, cell in enumerate(cells)
    )


_KILLS: Final = _COLUMNS.index("KILLS")
_LEFT_OUT: Final[Sequence[Collection[int]]] = (  # of narrower tables, by their width
    (),
    (_COLUMNS.index("EVICTIONS/DAY"),),
    (2, 5, _COLUMNS.index("EVICTIONS/DAY")),
)


def _cells(one: ResourceOutcome) -> Iterator[str]:
    if not one.is_known:
        yield from ("-", "-", "-")
        return
    yield f"{one.reserved:.1f}"
    yield percent(one.slack_share)
    yield f"{one.over_share * 100:.1f}%"


def _worst(outcomes: Sequence[SettingOutcome]) -> Iterator[str]:
    """Yield each workload that is the worst of settings, and of which."""
    named: dict[str, list[str]] = {}
    for one in outcomes:
        if one.worst is not None:
            named.setdefault(str(one.worst), []).append(one.name)
    for workload, settings in named.items():
        is_all = len(settings) == len(outcomes)
        yield workload if is_all else f"{workload} ({'; '.join(settings)})"


def doubts(quality: HistoryQuality) -> Iterator[str]:
    """Yield what makes results less than certain."""
    if quality.lower_bounds:
        names = _named(quality.lower_bounds)
        yield f"of {names} the results are a lower bound: limits may have cut off what was used"
    if quality.empty_days:
        yield f"{counted(quality.empty_days, 'day')} without any usage, left out"
    if quality.gap_share >= _LITTLE:
        yield f"{percent(quality.gap_share)} of samples are missing and left out"
    if quality.never_known:
        names = ", ".join(quality.never_known)
        yield f"not known of any container: {names}; settings are counted as if there were none"
    if quality.unknown_owners:
        yield f"unknown owner: {counted(quality.unknown_owners, 'container')}, left out"


def items(outcomes: Sequence[SettingOutcome], quality: HistoryQuality) -> list[Json]:
    """Return an object for each setting."""
    history: Json = {
        "days": quality.days,
        "workloads": quality.workloads,
        "emptyDays": quality.empty_days,
        "gapShare": quality.gap_share,
        "cutOffShare": quality.cut_off_share,
        "lowerBounds": list(map(str, quality.lower_bounds)),
        "unknownOwners": quality.unknown_owners,
        "neverKnown": list(quality.never_known),
    }
    return [
        {
            "setting": one.name,
            "flags": list(one.flags),
            "cpu": _resource_json(one.cpu, "CoreHours"),
            "memory": _resource_json(one.memory, "GiBHours"),
            "kills": one.kills,
            "moreKills": {
                "total": one.more_kills,
                "workloads": list(map(str, one.killed_more)),
            },
            "resizesADay": one.resizes_a_day,
            "evictionsADay": one.evictions_a_day,
            "cost": one.cost,
            "worst": None if one.worst is None else str(one.worst),
            "history": history,
        }
        for one in outcomes
    ]


def _resource_json(one: ResourceOutcome, unit: str) -> Json | None:
    if not one.is_known:
        return None
    return {
        f"used{unit}": one.used,
        f"reserved{unit}": one.reserved,
        f"unused{unit}": one.slack,
        "unusedShare": one.slack_share,
        f"unmet{unit}": one.unmet,
        "shortShare": one.over_share,
        "change": None if one.change is None else one.change._asdict(),
    }


def counted(number: int, word: str) -> str:
    """Write a number of things."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
