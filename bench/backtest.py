"""Measures back-tests: 2,000 containers, two weeks at five minutes, twelve settings.

Run with `python -m bench.backtest`, or with numbers of containers, days and settings for one size
alone, e.g. `python -m bench.backtest 2000 14 12`. Every setting has a half-life of its own, which
is the most work; each workload has two pods of one container. Half and all of the containers, and
half and all of the settings, show whether time grows in proportion. `ranged` behind three numbers
puts a LimitRange into the namespace, which is measured as well.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta

import numpy as np

from app.backtest.core.settings import Given, Setting
from app.backtest.core.walk import walked
from app.backtest.recording import RecordedContainer, Recording
from app.model.limits import combined_limits
from app.recommender.core.rules import AggregationRules, RecommenderRules, ResourceRules
from tests import make

CONTAINERS, DAYS, SETTINGS = 2_000, 14, 12
STEP = 300
START = 1_767_571_200
PODS = 2  # of a workload
MOST_SECONDS, MOST_MEGABYTES = 60, 1_000


def recorded(containers: int, days: int) -> Recording:
    """Return a history with the ups and downs of days, noise, and memory that leaps sometimes."""
    count, dice = days * 86_400 // STEP, np.random.default_rng(1)
    rows = [
        RecordedContainer("shop", "Deployment", f"web-{row // PODS}", f"web-{row}", "app")
        for row in range(containers)
    ]
    found = Recording.unknown(START, STEP, count, rows)
    wave = np.sin(np.arange(count) * STEP / 86_400 * 2 * np.pi, dtype=np.float32)
    for row in range(containers):
        cpu, memory = dice.uniform(0.05, 2), dice.uniform(1e8, 2e9)
        found.cpu[row] = cpu * (1 + 0.5 * wave) * dice.lognormal(0, 0.3, count)
        leaps = 1 + (dice.random(count) < 0.001) * dice.uniform(0.3, 1.5)
        found.memory[row] = memory * (1 + 0.1 * wave) * dice.lognormal(0, 0.05, count) * leaps
        found.cpu_request[row], found.cpu_limit[row] = 2 * cpu, 4 * cpu
        found.memory_request[row], found.memory_limit[row] = 1.5 * memory, 1.8 * memory
    for measure in (found.restarts, found.oom_kills, found.throttled):
        measure[:] = 0
    return found


def settings(count: int) -> list[Setting]:
    """Return settings that share no histograms."""
    usual = RecommenderRules()
    found = []
    for number in range(count):
        half_life = timedelta(hours=12 + 6 * number)
        asked = ResourceRules(target=(0.9, 0.95, 0.98)[number % 3])
        rules = replace(
            usual,
            estimator=replace(usual.estimator, cpu=asked, memory=asked, margin_fraction=0.05),
            aggregation=AggregationRules(cpu_half_life=half_life, memory_half_life=half_life),
        )
        found.append(Setting(f"half-life {half_life}", rules))
    return found


def measure(containers: int, days: int, count: int, given: Given) -> float:
    """Print what one back-test takes; return its seconds of CPU."""
    told = recorded(containers, days)
    began, spent = time.monotonic(), time.process_time()
    walked(told, settings(count), given, lambda _share: None)
    seconds, spent = time.monotonic() - began, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{containers:,} containers, {days} days, {count} settings"
        f"{', a LimitRange' * bool(given.limits)}: {seconds:.1f} s, "
        f"{spent:.1f} s of CPU, {peak:,.0f} MB at its highest, recording included",
        flush=True,
    )
    return spent


def main() -> None:
    """Measure one size, or several, each in a process of its own."""
    if len(sys.argv) > 3:
        containers, days, count = map(int, sys.argv[1:4])
        limits = {"shop": combined_limits([make.limit_range(most={"cpu": "2", "memory": "20Gi"})])}
        given = Given(limits=limits) if sys.argv[4:] == ["ranged"] else Given()
        print(measure(containers, days, count, given))
        return
    spent = {}
    for size in (
        (CONTAINERS, DAYS, SETTINGS),
        (CONTAINERS // 2, DAYS, SETTINGS),
        (CONTAINERS, DAYS, SETTINGS // 2),
        (CONTAINERS, DAYS, SETTINGS, "ranged"),
    ):
        words = [sys.executable, "-m", "bench.backtest", *map(str, size)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        told, seconds = done.stdout.splitlines()
        print(told, flush=True)
        spent[size] = float(seconds)
    whole, fewer, less, ranged = spent.values()
    print(f"twice the containers take {whole / fewer:.2f} times as long")
    print(f"twice the settings take {whole / less:.2f} times as long")
    print(f"with a LimitRange it takes {ranged / whole:.2f} times as long")
    print(f"wanted: at most {MOST_SECONDS} s and {MOST_MEGABYTES:,} MB")


if __name__ == "__main__":
    main()
