"""How what we need grows with the size: the exponent of a fit through three sizes.

Strategy: decisions alone, in one process, without a network; CPU time, the best of all rounds,
because others on the machine only ever add to it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from statistics import median
from typing import Final

from app.runtime.garbage import collect_seldom
from app.updater.core.memory import Memory
from app.updater.core.plan import PlanOptions, plan
from app.updater.core.rules import UpdateRules
from bench.circumstances import Options, result
from bench.deciding import bodies, reviewer, seconds_each
from bench.figures import Result, Row, Wanted, exponent
from bench.recommender_model import ticks
from bench.updater_plan import NOW, PODS, VPAS, build
from tests.make import NO_GATES

FACTORS: Final = (1, 4, 16)
_REVIEWS: Final = 4000
_AGAIN: Final = 5


def bench(options: Options) -> Result:
    """Measure each at all sizes."""
    collect_seldom()  # as the processes do
    rows: list[Row] = []
    for what, (unit, size, work, wanted) in _works(options).items():
        sizes = [size * factor for factor in FACTORS]
        costs = []
        for count in sizes:
            costs.append(min(work(count) for _ in range(options.rounds)))
            gc.collect()
            rows.append(Row(f"{what}, {count:,} {unit}", "ms of CPU", ours=(costs[-1] * 1e3,)))
            print(f"  {what}, {count:,} {unit}: {costs[-1] * 1e3:.3f} ms", flush=True)
        grown = exponent(sizes, costs)
        rows.append(Row(f"{what}: exponent", "", ours=(grown,), wanted=wanted))
    return result(
        "growth", "Growth, ours alone", options, rows,
        notes=["With an exponent of 0 the size does not matter; with 1, twice the size takes twice "
               "as long. The best round counts."],
    )  # fmt: skip


_Work = tuple[str, int, Callable[[int], float], Wanted]


def _works(options: Options) -> Mapping[str, _Work]:
    constant, linear = Wanted("<=", 0.1, "ours"), Wanted("<=", 1.1, "ours")
    pods = options.size(5000, 1000)
    return {
        "a review decided": ("VPAs in the namespace", options.size(125, 25), _review, constant),
        "a round of the recommender": ("pods", options.size(2000, 400), _tick, linear),
        "a round of the updater, nothing known before": ("pods", pods, _plan, linear),
        "a round of the updater, nothing changed": ("pods", pods, _plan_again, linear),
    }


def _review(vpas: int) -> float:
    found, asked = reviewer(vpas), bodies(vpas, _REVIEWS)
    seconds_each(found, asked)  # what is read first is slower
    return seconds_each(found, asked)


def _tick(pods: int) -> float:
    return median(one.total for one in ticks(pods // 4, pods, with_history=True))


def _plan(pods: int) -> float:
    snapshot = build(pods // PODS // VPAS)
    gc.collect()
    begun = time.process_time()
    plan(snapshot, UpdateRules(), NO_GATES, Memory(), NOW)
    return time.process_time() - begun


def _plan_again(pods: int) -> float:
    snapshot, rules = build(pods // PODS // VPAS), UpdateRules()
    before = plan(snapshot, rules, NO_GATES, Memory(), NOW)
    gc.collect()
    begun = time.process_time()
    for count in range(1, _AGAIN + 1):
        now, around = NOW + count * timedelta(minutes=1), PlanOptions(before=before)
        before = plan(snapshot, rules, NO_GATES, before.memory, now, around)
    return (time.process_time() - begun) / _AGAIN
