"""Which of several profiles to use for a fleet, if any is better than what there is.

Strategy: days after the warm-up are three parts. Each is judged once, by the profile that was best
on the two others. A profile is proposed only if it was chosen and won in two of three turns, each
by more than one standard error of the mean over drawn days, without more kills of any workload and
without more usage beyond requests; so neither one lucky week nor one lucky profile decides. It is
chosen for all workloads together: for each alone, chance would choose.

Better is what costs less, where usage beyond a request costs nine times what is reserved for
nothing. At that ratio the 90th percentile is the right one for a single container. The margin above
it is not given away for a gain, however: who wants to be short of more can compare settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from app.backtest.core.days import WARM_UP_DAYS
from app.backtest.core.scores import Measure, Scores
from app.backtest.core.setting_outcomes import Price, Prices, resampled
from app.recommender.core.histograms import Flags, Floats, Indexes

MOST_PROFILES: Final = 12
PARTS: Final = 3
LEAST_PART_DAYS: Final = 4
UNMET_WEIGHT: Final = 9.0  # of usage beyond a request, beside what is reserved for nothing
USUAL_PRICES: Final = Prices(Price(core=1.0, gib=0.13))  # what clouds charge, in cores

_WINS: Final = 2
_UNMET: Final = [Measure.CPU_UNMET, Measure.MEMORY_UNMET]

Draw = Callable[[int], Indexes]  # for so many days, many lines of as many


class Turn(NamedTuple):
    """A part of the history that was judged."""

    chosen: int  # profile, 0 is the present one
    gain: float  # a day, against the present one
    error: float  # one standard error of it
    more_kills: int  # of workloads that were killed more
    is_short: bool  # of more than the present one, by more than one standard error

    @property
    def is_won(self) -> bool:
        """Whether the chosen profile was better by more than one standard error."""
        is_safe = not self.more_kills and not self.is_short
        return self.chosen != 0 and self.gain > self.error and is_safe


@dataclass(frozen=True, slots=True)
class Choice:
    """What is proposed."""

    proposed: int  # 0: keep the present one
    turns: tuple[Turn, ...]


def losses(scores: Scores, profile: int, prices: Prices) -> Floats:
    """Return by day what a profile reserved for nothing, and what it lacked, in money."""
    days, price = scores.days[WARM_UP_DAYS:, profile], prices.of(scores.workloads)
    slack, unmet = (
        days[..., one] * price[:, 0] + days[..., other] * price[:, 1]
        for one, other in (
            (Measure.CPU_SLACK, Measure.MEMORY_SLACK),
            (Measure.CPU_UNMET, Measure.MEMORY_UNMET),
        )
    )
    found: Floats = (slack + UNMET_WEIGHT * unmet).sum(axis=1)
    return found


def choose(scores: Scores, profiles: Sequence[int], prices: Prices, draw: Draw) -> Choice:
    """Choose among profiles, which are positions of settings; the first one is the present."""
    lost = np.stack([losses(scores, one, prices) for one in profiles])
    kills = np.stack([scores.days[WARM_UP_DAYS:, one, :, Measure.KILLS] for one in profiles])
    unmet = np.stack([scores.of(one, WARM_UP_DAYS)[:, _UNMET] for one in profiles])
    parts = np.array_split(np.arange(lost.shape[1]), PARTS)
    turns = []
    for judged in parts:
        others = np.setdiff1d(np.arange(lost.shape[1]), judged)
        is_safe = _more(kills[:, others]) == 0
        is_safe &= ~_is_short(unmet[:, others], draw(len(others)))
        best = int(np.where(is_safe, lost[:, others].sum(axis=1), np.inf).argmin())
        gains, draws = lost[0, judged] - lost[best, judged], draw(len(judged))
        more = int(_more(kills[:, judged])[best])
        is_short = bool(_is_short(unmet[:, judged], draws)[best])
        error = float(_error(gains, draws))
        turns.append(Turn(best, float(gains.mean()), error, more, is_short))
    return Choice(_proposed(turns), tuple(turns))


def _error(days: Floats, draws: Indexes) -> Floats:
    """Return one standard error of the mean of some days."""
    count = len(days)
    drawn = resampled(days, draws).std(axis=0) / count
    return np.asarray(drawn * np.sqrt(count / (count - 1)))  # drawn days spread less


def _is_short(unmet: Floats, draws: Indexes) -> Flags:
    """Tell which profiles lack more of a resource than the present one, beyond an error."""
    more = unmet - unmet[0]
    errors = np.stack([_error(each, draws) for each in more])
    return np.asarray((more.mean(axis=1) > errors).any(axis=1))


def _more(kills: Floats) -> Floats:
    """Return kills of workloads beyond those under the present profile, by profile."""
    of_workloads = kills.sum(axis=1)
    return np.asarray(np.maximum(of_workloads - of_workloads[0], 0).sum(axis=1))


def _proposed(turns: Sequence[Turn]) -> int:
    wins = Counter(one.chosen for one in turns if one.is_won)
    profile, count = max(wins.items(), key=lambda one: one[1], default=(0, 0))
    return profile if count >= _WINS else 0
