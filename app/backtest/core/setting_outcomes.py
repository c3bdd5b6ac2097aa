"""What came of each setting, in the numbers that people compare.

Strategy: sums over the days after the first one, in which everything is learned. How sure a
difference is comes from days drawn again and again, whole, as usage within a day hangs together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from app.backtest.core.days import WARM_UP_DAYS
from app.backtest.core.recorded_fleet import RecordedWorkload
from app.backtest.core.scores import RECORDED, Measure, Scores
from app.backtest.core.settings import AS_IT_WAS, Setting
from app.recommender.core.histograms import Floats, Indexes

INTERVAL_DAYS: Final = 7  # that are counted, before anything is said about certainty

_CERTAIN: Final = (2.5, 97.5)  # percentiles of an interval that holds with 95 %
_NORMAL: Final = 1.959964  # standard deviations of such an interval, of a normal distribution


class Interval(NamedTuple):
    """A number, and between what it lies with 95 % certainty, if that can be said."""

    value: float
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class ResourceOutcome:
    """What became of one resource; in core hours or GiB hours."""

    used: float
    reserved: float
    slack: float  # reserved and not used
    unmet: float  # used and not reserved
    over_share: float  # of intervals in which more was used than reserved
    change: Interval | None  # share of what the base reserved; None if that was nothing
    is_known: bool = True  # whether usage and requests of any interval were

    @property
    def slack_share(self) -> float:
        """Which share of what was reserved was not used."""
        return self.slack / self.reserved if self.reserved else 0.0


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """What came of a setting."""

    name: str
    cpu: ResourceOutcome
    memory: ResourceOutcome
    kills: int
    resizes_a_day: float
    evictions_a_day: float
    cost: float | None  # of what was reserved; None without prices
    worst: RecordedWorkload | None  # that was killed most, else most short; None if none was short
    fewer_kills: int = 0  # than the base had, of all workloads that were killed less
    more_kills: int = 0  # likewise, of those that were killed more
    killed_more: tuple[RecordedWorkload, ...] = ()
    flags: tuple[str, ...] = ()


class Price(NamedTuple):
    """What an hour costs."""

    core: float
    gib: float


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour costs, in some namespaces something else."""

    usual: Price
    of_namespaces: Mapping[str, Price] = field(default_factory=dict)

    def of(self, workloads: Sequence[RecordedWorkload]) -> Floats:
        """Return the price of a core and of a GiB for each workload."""
        found = [self.of_namespaces.get(one.namespace, self.usual) for one in workloads]
        return np.array(found, dtype=np.float64).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class HistoryQuality:
    """How much of the history can be believed."""

    days: int  # that are counted
    workloads: int
    steps: int  # in which a container was there
    gap_share: float  # of them, without usage
    cut_off_share: float  # of the others, in which a limit may have cut usage off
    lower_bounds: tuple[RecordedWorkload, ...]  # of which results are no more than that
    unknown_owners: int  # containers that belong to no known workload
    empty_days: int = 0  # without any usage, which are left out
    never_known: tuple[str, ...] = ()  # what the recording tells of no container


def outcomes(
    scores: Scores,
    settings: Sequence[Setting],
    draws: Indexes,
    prices: Prices | None,
    base: int = RECORDED,
) -> list[SettingOutcome]:
    """Return what came of the recording as it was, and of each setting.

    Each line of `draws` has as many days, counted after the first one, as there are. Changes are
    those from the setting at `base`.
    """
    names = [(AS_IT_WAS, ()), *((one.name, one.flags) for one in settings)]
    return [
        SettingOutcome(
            name,
            _resource(scores, (position, base), draws, Measure.CPU_USED),
            _resource(scores, (position, base), draws, Measure.MEMORY_USED),
            kills=int(sums[Measure.KILLS]),
            resizes_a_day=float(sums[Measure.RESIZES]) / counted,
            evictions_a_day=float(sums[Measure.EVICTIONS]) / counted,
            cost=None if prices is None else float(costs(scores, position, prices).sum()),
            worst=_worst(scores, position),
            fewer_kills=int(-np.minimum(changes, 0).sum()),
            more_kills=int(np.maximum(changes, 0).sum()),
            killed_more=tuple(scores.workloads[at] for at in np.flatnonzero(changes > 0).tolist()),
            flags=flags,
        )
        for position, (name, flags) in enumerate(names)
        for sums in [scores.of(position, WARM_UP_DAYS).sum(axis=0)]
        for counted in [len(scores.days) - WARM_UP_DAYS]
        for changes in [kills(scores, position) - kills(scores, base)]
    ]


def quality(
    scores: Scores, unknown_owners: int, never_known: tuple[str, ...] = ()
) -> HistoryQuality:
    """Return how much of the history can be believed."""
    steps, gaps, cut_off = (int(one.sum()) for one in (scores.steps, scores.gaps, scores.cut_off))
    bounds = np.flatnonzero(scores.is_lower_bound)
    return HistoryQuality(
        days=len(scores.days) - WARM_UP_DAYS,
        workloads=len(scores.workloads),
        steps=steps,
        gap_share=gaps / max(steps, 1),
        cut_off_share=cut_off / max(steps - gaps, 1),
        lower_bounds=tuple(scores.workloads[at] for at in bounds.tolist()),
        unknown_owners=unknown_owners,
        empty_days=scores.empty_days,
        never_known=never_known,
    )


def reserved(sums: Floats, first: Measure) -> Floats:
    """Return what was reserved of a resource; the last axis are measures."""
    used, slack, unmet = (sums[..., first + index] for index in range(3))
    found: Floats = used + slack - unmet
    return found


def kills(scores: Scores, setting: int) -> Floats:
    """Return the kills of each workload under a setting."""
    found: Floats = scores.days[WARM_UP_DAYS:, setting, :, Measure.KILLS].sum(axis=0)
    return found


def costs(scores: Scores, setting: int, prices: Prices) -> Floats:
    """Return what was reserved by a setting cost, by day."""
    days, price = scores.days[WARM_UP_DAYS:, setting], prices.of(scores.workloads)
    cpu, memory = (reserved(days, one) for one in (Measure.CPU_USED, Measure.MEMORY_USED))
    found: Floats = (cpu * price[:, 0] + memory * price[:, 1]).sum(axis=1)
    return found


def resampled(days: Floats, draws: Indexes) -> Floats:
    """Return the sums of days that were drawn, for each draw."""
    found: Floats = days[draws].sum(axis=1)
    return found


def _resource(
    scores: Scores, compared: tuple[int, int], draws: Indexes, first: Measure
) -> ResourceOutcome:
    days, was = (scores.of(each, WARM_UP_DAYS) for each in compared)
    sums = days.sum(axis=0)
    used, slack, unmet, over, steps = sums[first : first + 5].tolist()
    return ResourceOutcome(
        used=used,
        reserved=used + slack - unmet,
        slack=slack,
        unmet=unmet,
        over_share=over / steps if steps else 0.0,
        is_known=steps > 0,
        change=_change(reserved(days, first), reserved(was, first), draws),
    )


def _change(days: Floats, was: Floats, draws: Indexes) -> Interval | None:
    """Return by which share what was reserved has changed."""
    if not was.sum():
        return None
    value = float(days.sum() / was.sum() - 1)
    if len(days) < INTERVAL_DAYS:
        return Interval(value)
    drawn = resampled(was, draws)
    changes = resampled(days, draws)[drawn > 0] / drawn[drawn > 0] - 1
    least, most = (np.percentile(changes, _CERTAIN) - value) * widening(len(days)) + value
    return Interval(value, float(least), float(most))


def widening(days: int) -> float:
    """Return by how much an interval from days that were drawn is too narrow.

    Few days spread less than all that there could have been, and how much they spread is not known
    exactly either: that is Student's distribution, by Cornish and Fisher's expansion.
    """
    free, normal = days - 1, _NORMAL
    student = (
        normal
        + (normal**3 + normal) / (4 * free)
        + (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * free**2)
    )
    return float(np.sqrt(days / free)) * student / normal


def _worst(scores: Scores, setting: int) -> RecordedWorkload | None:
    """Return the workload that was killed most often, else the one that was most short."""
    sums = scores.days[WARM_UP_DAYS:, setting].sum(axis=0)
    if not len(sums):
        return None
    short = sum(
        sums[:, first + 2] / np.maximum(sums[:, first], 1e-9)
        for first in (Measure.CPU_USED, Measure.MEMORY_USED)
    )
    worst = int(np.lexsort((-np.asarray(short), -sums[:, Measure.KILLS]))[0])
    is_short = sums[worst, Measure.KILLS] or np.asarray(short)[worst]
    return scores.workloads[worst] if is_short else None
