"""From histograms to amounts: percentile, margin, confidence, floor.

Strategy: every step is an array over all rows, and every step is kept, because what was done is
also what is told when somebody asks why. Amounts are whole millicores or bytes after each step,
cut off towards zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.bank import EMPTY, Bank, Rows
from app.recommender.core.decay import Times
from app.recommender.core.grid import Amounts, Buckets, Grid
from app.recommender.core.moments import MINUTE, UNSET, span
from app.recommender.core.rules import EstimatorRules

Factors = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST: Final = 10**14  # millicores or bytes; nothing larger is ever recommended

TARGET, LOWER, UPPER = range(3)  # the columns of everything below

_LOWER_MULTIPLIER: Final = 0.001
_UPPER_MULTIPLIER: Final = 1.0


@dataclass(frozen=True, slots=True)
class Estimates:
    """How the amounts of each row came about; columns are target, lower, upper."""

    buckets: Buckets  # where the percentile fell, EMPTY without samples
    bases: Amounts
    with_margin: Amounts
    multipliers: Factors  # 1 for the target
    floors: Amounts  # one per row
    amounts: Amounts


def confidence(first: Times, last: Times, counts: Counts, interval: timedelta) -> Factors:
    """Return how many intervals of history there are, by age and by number of samples."""
    interval_ns = span(interval)
    known = (first != UNSET) & (last != UNSET)
    age_ns = np.where(known, last, 0) - np.where(known, first, 0)
    age = age_ns.astype(np.float64) / float(interval_ns)
    amount = counts.astype(np.float64) / (interval_ns / MINUTE)
    return np.minimum(age, amount)


def floors(pod_minimum: int, containers: Counts) -> Amounts:
    """Return each container's share of what a pod gets at least."""
    share = 1.0 / np.maximum(containers, 1)
    return whole(float(pod_minimum) * share)


def pod_minimum(rules: EstimatorRules) -> tuple[int, int]:
    """Return millicores and bytes that every pod gets at least."""
    cpu = int(rules.min_cpu_millicores * 0.001 * 1000.0)
    return cpu, int(rules.min_memory_mib * 1024.0 * 1024.0)


def whole(amounts: Factors) -> Amounts:
    """Cut amounts off to whole ones between zero and the most; what is undefined is zero."""
    known = np.nan_to_num(amounts, nan=0.0, posinf=float(MOST), neginf=0.0)
    return np.clip(known, 0.0, float(MOST)).astype(np.int64)


def multipliers(confidences: Factors) -> Factors:
    """Return the factors of target, lower and upper: bounds close in as confidence grows."""
    factors = np.ones((len(confidences), 3))
    with np.errstate(divide="ignore"):
        lower = 1.0 + _LOWER_MULTIPLIER / confidences
        factors[:, UPPER] = 1.0 + _UPPER_MULTIPLIER / confidences
        factors[:, LOWER] = 1.0 / (lower * lower)
    return factors


def percentile_bases(
    bank: Bank, rows: Rows, grid: Grid, fractions: tuple[float, ...], *, interpolate: bool
) -> tuple[Buckets, Amounts]:
    """Return where the percentiles of each row fall, and the amounts they answer."""
    buckets = bank.percentiles(rows, fractions)
    bases = grid.ends[buckets]
    if interpolate:
        shares = bank.shares(rows, fractions, buckets)
        starts, ends = grid.exact_starts[buckets], grid.exact_ends[buckets]
        bases = whole(starts + shares * (ends - starts))
    return buckets, np.where(buckets == EMPTY, 0, bases)


def estimate(
    buckets: Buckets, bases: Amounts, confidences: Factors, floor: Amounts, margin_fraction: float
) -> Estimates:
    """Take percentiles to amounts; all three columns end at or above the floor."""
    with_margin = bases + whole(bases.astype(np.float64) * margin_fraction)
    factors = multipliers(confidences)
    with np.errstate(invalid="ignore"):
        scaled = whole(with_margin.astype(np.float64) * factors)
    scaled[:, TARGET] = with_margin[:, TARGET]
    return Estimates(
        buckets=buckets,
        bases=bases,
        with_margin=with_margin,
        multipliers=factors,
        floors=floor,
        amounts=np.maximum(scaled, floor[:, None]),
    )
