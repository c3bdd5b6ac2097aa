"""Which settings to use for a fleet, by its own history, if any are better than now."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Final

from app.backtest.core.choice import (
    LEAST_PART_DAYS,
    MOST_PROFILES,
    PARTS,
    USUAL_PRICES,
    Choice,
    Turn,
    choose,
)
from app.backtest.core.days import WARM_UP_DAYS
from app.backtest.core.setting_outcomes import (
    HistoryQuality,
    SettingOutcome,
    outcomes,
)
from app.backtest.core.settings import Setting
from app.backtest.core.walk import Floor, walked
from app.commands.backtest import draws, history_of, recorded, too_short
from app.commands.backtest_flags import BacktestFormat, BacktestSettings
from app.commands.backtest_settings import UPSTREAM, compared, given_by, prices_of
from app.commands.backtest_text import counted, doubts, forms, html, items, sentence
from app.commands.replaying.printing import Bar
from app.model.errors import BadSetting
from app.model.fields import Json
from app.model.text import size
from app.output import Line, Report, Text, Tone, line
from app.ports import Clock

_PERCENTILES: Final = ("0.9", "0.95", "0.98")
_HALF_LIVES: Final = ("24h", "72h")
_MARGINS: Final = ("0.05", "0.15")
PROFILES: Final = tuple(
    f"target-cpu-percentile={percentile},target-memory-percentile={percentile},"
    f"cpu-histogram-decay-half-life={half_life},memory-histogram-decay-half-life={half_life},"
    f"recommendation-margin-fraction={margin}"
    for percentile, half_life, margin in product(_PERCENTILES, _HALF_LIVES, _MARGINS)
)
_DAYS_A_MONTH: Final = 30.4
_KEEP: Final = (
    "Keep what you have: no other setting was better in two of three parts of the history by more "
    "than one standard error."
)


def choose_report(settings: BacktestSettings, clock: Clock) -> Report:
    """Return what is proposed, and why.

    Raises:
        BadSetting: a file cannot be read, a flag is wrong, or there are too many profiles.
        ClusterError: Prometheus refuses, or does not answer.
    """
    notes = list[str]()
    prices, given = prices_of(settings.prices), given_by(settings.offline.objects, notes)
    profiles = profiles_of(settings)
    recording = recorded(settings, clock, notes)
    if (report := too_short(recording, PARTS * LEAST_PART_DAYS)) is not None:
        return report
    bar = Bar(sys.stderr)
    show = partial(bar.show, "walking")
    scores, floors = walked(recording, profiles, given, show, keeps_killed=True)
    bar.clear()
    choice = choose(scores, range(1, len(profiles) + 1), prices or USUAL_PRICES, draws)
    days = draws(len(scores.days) - WARM_UP_DAYS)
    found = outcomes(scores, profiles, days, prices, base=1)
    history = history_of(scores, recording)
    kept = floors if choice.proposed else []
    answer = list(_answer(choice, found, history))
    rest = [
        *_turns(choice.turns, profiles, "a day, at these prices" if prices else "core hours a day"),
        *_kept(kept),
        *doubts(history),
    ]
    body = Text([*answer, line(""), forms(found), line(""), *map(line, rest)])
    if settings.showing.asked is BacktestFormat.HTML:
        first, *others = ("".join(piece.text for piece in each) for each in answer)
        body = html("Choice of settings", first, found, [*others, *rest])
    proposal = _proposal(choice, profiles, kept)
    everything = [proposal | {"settings": items(found, history)}]
    return Report(body, everything, [profiles[choice.proposed].name], notes)


def profiles_of(settings: BacktestSettings) -> list[Setting]:
    """Return the present flags, and the profiles beside them.

    Raises:
        BadSetting: there are too many.
    """
    sets = settings.comparison.sets
    if len(sets) >= MOST_PROFILES:
        raise BadSetting(
            f"{len(sets)} settings are too many: with the present flags at most {MOST_PROFILES} "
            "are compared, as among many some are good by chance"
        )
    present, *found = compared(settings, sets or PROFILES)
    others = [one for one in found if one.name != UPSTREAM]
    if sets:
        for text, one in zip(sets, others, strict=True):
            if one.mode != present.mode:
                raise BadSetting(f"--set={text}: flags are chosen, not modes; backtest has both")
            if one.rules == present.rules:
                raise BadSetting(f"--set={text}: is what the present flags say")
    different = [one for one in others if one.rules != present.rules]
    return [present, *different][:MOST_PROFILES]


def _answer(
    choice: Choice, found: Sequence[SettingOutcome], history: HistoryQuality
) -> Iterator[Line]:
    present, one = found[1], found[choice.proposed + 1]
    if not choice.proposed:
        yield line(_KEEP, Tone.STRONG)
        return
    yield line(f"Use {one.name}: {' '.join(one.flags)}", Tone.STRONG)
    yield line(f"{sentence(one, present, history)} That is compared with {present.name}.")
    if one.cost is not None and present.cost is not None:
        saved = (present.cost - one.cost) / history.days * _DAYS_A_MONTH
        yield line(f"It costs {abs(saved):.2f} {'less' if saved > 0 else 'more'} a month.")


def _turns(turns: Sequence[Turn], profiles: Sequence[Setting], unit: str) -> Iterator[str]:
    """Yield how each part of the history was judged; gains have a unit."""
    for number, turn in enumerate(turns, start=1):
        name = profiles[turn.chosen].name
        if not turn.chosen:
            told = "the present flags were the best of the other two parts"
        elif turn.more_kills > 0:
            told = f"{name} killed {counted(turn.more_kills, 'time')} more than the present flags"
        elif turn.is_short:
            told = f"{name} was short of more than the present flags"
        else:
            won = "won" if turn.is_won else "did not win"
            gain = f"{turn.gain:.3g} {unit}, standard error {turn.error:.2g}"
            told = f"{name} {won} against the present flags: {gain}"
        yield f"part {number} of {len(turns)}: {told}"


def _kept(floors: Sequence[Floor]) -> Iterator[str]:
    """Yield what to ask for beside flags, so that no container gets less than what killed it."""
    for one in floors:
        yield (
            f"set minAllowed.memory of container {one.container} of {one.workload} to "
            f"{size(one.memory_bytes)}, which it had when it was killed"
        )


def _proposal(choice: Choice, profiles: Sequence[Setting], floors: Sequence[Floor]) -> Json:
    chosen = profiles[choice.proposed]
    return {
        "proposed": chosen.name if choice.proposed else None,
        "flags": list(chosen.flags),
        "turns": [
            {
                "chosen": profiles[turn.chosen].name,
                "gain": turn.gain,
                "error": turn.error,
                "moreKills": turn.more_kills,
                "isShort": turn.is_short,
                "isWon": turn.is_won,
            }
            for turn in choice.turns
        ],
        "minAllowed": [
            {
                "workload": str(one.workload),
                "container": one.container,
                "memory": one.memory_bytes,
            }
            for one in floors
        ],
    }
