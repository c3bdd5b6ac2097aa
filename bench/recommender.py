"""Both recommenders on one API server, with the same usage told to both.

Strategy: VPAs come with ten days of history and no recommendation. A replica starts, works some
rounds, and is looked at; then another one waits behind it, and the first is killed. A VPA that is
new at that moment tells when there is a fresh recommendation.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from app.ports import CHECKPOINTS, PODS, VPAS
from app.recommender.core.checkpoints import to_json
from app.runtime.clock import SystemClock
from bench.circumstances import Options, result
from bench.crowd import BOXES, Crowd
from bench.figures import SIDES, Found, Result, Wanted
from bench.replica import Replica, patiently
from bench.seeds import history, vpa
from bench.spent import cpu_seconds, memory_mb, peak_mb
from bench.stage import Stage, running, shown, stage
from tests.cluster.api import Refusal
from tests.cluster.nodes import announce_metrics
from tests.cluster.programs import Program, eventually, free_port

INTERVAL_SECONDS: Final = 20
WARM_ROUNDS: Final = 2
STEADY_ROUNDS: Final = 3
STORED: Final = "autoscaling.k8s.io/verticalpodautoscalers/"
LEARNED: Final = "autoscaling.k8s.io/verticalpodautoscalercheckpoints/"
FRESH: Final = ("team-0", "service-0")  # the VPA that is new at last
_LEASE: Final = "leases/kube-system/vpa-recommender"


def bench(options: Options) -> Result:
    """Measure both by turns."""
    crowd = Crowd(options.size(2000, 200), options.size(8000, 800))
    interval = options.size(INTERVAL_SECONDS, 5)
    found = Found()
    with stage() as on:
        on.put(crowd.objects())
        on.wait_listed(PODS, crowd.pod_count)
        with _metrics(on, crowd, interval):
            for number, side in options.turns():
                _reset(on, crowd)
                _measure(on, side, interval, crowd, found)
                text = f"{found.values[side, 'cpu'][-1]:.2f} s of CPU a round"
                print(f"  round {number}, {side}: {text}", flush=True)
    tenth = Wanted("<=", 0.1)
    rows = [
        found.row("cpu", "CPU a round", "s", tenth),
        found.row("wall", "wall a round", "s", tenth),
        found.row("memory", "memory", "MB", Wanted("<=", 0.4)),
        found.row("peak", "memory at its highest", "MB"),
        found.row("writes", "API writes a minute, steady", "", tenth),
        found.row("first", "start to first recommendation", "s"),
        found.row("all", "start to all recommendations", "s"),
        found.row("start cpu", "CPU from start to all recommendations", "s"),
        found.row("failover", "leader killed to a fresh recommendation", "s"),
    ]
    size = f"{crowd.vpas:,} VPAs, {crowd.pod_count:,} pods, {crowd.pod_count * 2:,} containers"
    flags = (f"--recommender-interval={interval}s", "--leader-elect=true")
    return result(
        "recommender", "Recommender", options, rows,
        [shown(side, "recommender", flags) for side in SIDES],
        [f"{size}; ten days of history; a round every {interval} s, so writes a minute are "
         f"those of {60 / interval:g} rounds."],
    )  # fmt: skip


@contextmanager
def _metrics(on: Stage, crowd: Crowd, interval: int) -> Iterator[None]:
    """Let an answer for metrics.k8s.io be served."""
    port = free_port()
    numbers = map(str, (port, on.folder, crowd.pod_count, crowd.vpas, interval))
    command = [sys.executable, "-m", "bench.metrics_stand_in", *numbers]
    program = Program("metrics", command, on.folder / "metrics.log", dict(os.environ))
    with running(program):
        announce_metrics(on.admin, port)
        path = "/apis/metrics.k8s.io/v1beta1/pods"
        eventually(lambda: _is_served(on, path), f"{path} is served")
        yield


def _is_served(on: Stage, path: str) -> bool:
    try:
        return bool(on.admin.call("GET", path).body["items"])
    except Refusal:
        return False


def _reset(on: Stage, crowd: Crowd) -> None:
    """Let there be VPAs with ten days of history, of which nothing is recommended."""
    now = SystemClock().now()
    for prefix in (STORED, LEARNED, _LEASE, "events/"):
        on.remove(prefix)
    apps = [place for place in crowd.apps() if place != FRESH]
    on.put(vpa(where, app, mode="Off") for where, app in apps)
    learned = (to_json(one) for where, app in apps for one in history(where, app, BOXES, now))
    on.put({**item, "metadata": {**item["metadata"], "uid": "learned"}} for item in learned)
    on.wait_listed(VPAS, len(apps))
    on.wait_listed(CHECKPOINTS, len(apps) * len(BOXES))


def _measure(on: Stage, side: str, interval: int, crowd: Crowd, found: Found) -> None:
    """Go with one side from its start to a failover."""
    first, second = (
        Replica(on, side, "recommender", interval, ("--leader-elect=true",), name)
        for name in ("first", "second")
    )
    with running(first.program), ExitStack() as ending:
        _started(on, side, first, crowd.vpas - 1, found)
        print(f"  {side} has recommended for all; some rounds follow", flush=True)
        first.wait_rounds(WARM_ROUNDS)
        _steady(on, side, first, found)
        print(f"  {side} was looked at; a second replica takes over", flush=True)
        ending.enter_context(running(second.program))
        eventually(second.is_up, "the second replica is up")
        time.sleep(interval)  # it does what it can while it waits
        first.program.kill()
        killed = time.monotonic()
        on.put([vpa(*FRESH, mode="Off")])
        patiently(lambda: _is_recommended(on, *FRESH), "a fresh recommendation")
        found.add(side, "failover", time.monotonic() - killed)


def _started(on: Stage, side: str, replica: Replica, vpas: int, found: Found) -> None:
    """See how long it takes until something, and everything, is recommended."""
    began, revision = time.monotonic(), on.revision()
    patiently(lambda: on.holding("containerRecommendations", revision, STORED, 50), "the first one")
    found.add(side, "first", time.monotonic() - began)
    patiently(lambda: on.changed_since(revision, STORED) >= vpas, "all are written")
    patiently(lambda: on.holding("containerRecommendations", revision, STORED) >= vpas, "all")
    found.add(side, "all", time.monotonic() - began)
    found.add(side, "start cpu", cpu_seconds(replica.program.pid))


def _steady(on: Stage, side: str, replica: Replica, found: Found) -> None:
    """Look at some rounds in which nothing new happens."""
    session = replica.program.pid
    began, cpu, writes = time.monotonic(), cpu_seconds(session), on.writes()
    rounds, seconds = replica.rounds(), replica.round_seconds()
    replica.wait_rounds(STEADY_ROUNDS)
    cpu, writes = cpu_seconds(session) - cpu, on.writes() - writes
    minutes, rounds = (time.monotonic() - began) / 60, replica.rounds() - rounds
    found.add(side, "cpu", cpu / rounds)
    found.add(side, "wall", (replica.round_seconds() - seconds) / rounds)
    found.add(side, "writes", writes / minutes)
    found.add(side, "memory", memory_mb(session))
    found.add(side, "peak", peak_mb(session))


def _is_recommended(on: Stage, where: str, app: str) -> bool:
    item = on.admin.find(VPAS, where, app) or {}
    return "recommendation" in item.get("status", {})
