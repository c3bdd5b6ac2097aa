"""Both updaters on one API server: many evictions, rounds with nothing to do, ends of boosts.

Strategy: no controller and no kubelet is there, so that an evicted pod is gone at once and nothing
comes in its place; each side may evict half of every group, once. What is evicted is counted in
etcd, from the first to the last.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import orjson

from app.ports import PODS, REPLICA_SETS, VPAS
from app.runtime.clock import SystemClock
from bench.circumstances import Options, result
from bench.figures import SIDES, Found, Result, Wanted
from bench.replica import Replica, patiently
from bench.seeds import Json, controllers, namespace, node, pod, time_text, vpa
from bench.spent import cpu_seconds, memory_mb
from bench.stage import Stage, running, shown, stage
from tests.cluster.numbers import total
from tests.cluster.programs import eventually

GROUP: Final = 16  # pods of a controller
SPACES: Final = 20
BOOSTED: Final = "boosted"
_PODS: Final = "pods/"
_LONGEST_SECONDS: Final = 20  # of evictions, however many are left
_LOOK_SECONDS: Final = 0.1  # to look costs etcd something
_EVICTING_INTERVAL: Final = 30  # all within one round
_BOOSTS_INTERVAL: Final = 10
_IDLE_INTERVAL: Final = 2
_IDLE_ROUNDS: Final = 10
FLAGS: Final = ("--use-admission-controller-status=false",)
GATE: Final = "--feature-gates=CPUStartupBoost=true"
LIFTED: Final = ("--prove=off", "--update-concurrency=64")


def bench(options: Options) -> Result:
    """Measure both by turns."""
    groups, boosts = options.size(400, 40), options.size(20, 4)
    found = Found()
    with stage() as on:
        for number in range(SPACES):
            on.put(namespace(f"team-{number}"))
        for number, side in options.turns():
            _evictions(on, side, groups, found)
            _idle(on, side, groups, found)
            _boosts(on, side, boosts, found)
            rate = found.values[side, "rate"][-1]
            print(f"  round {number}, {side}: {rate:.0f} evictions/s", flush=True)
    rows = [
        found.row("rate", f"{groups} x {GROUP} pods: evictions", "1/s", Wanted(">=", 20)),
        found.row("evicted", f"pods evicted within {_LONGEST_SECONDS} s, half of them at most", ""),
        found.row("each", "the API server answers an eviction after", "ms"),
        found.row("eviction cpu", "CPU an eviction", "us"),
        found.row("server cpu", "CPU of the API server and etcd an eviction", "us"),
        found.row("cpu", "nothing to do: CPU a round", "s", Wanted("<=", 0.2)),
        found.row("wall", "nothing to do: wall a round", "s"),
        found.row("memory", "memory then", "MB"),
        found.row("unboosted", "Ready to unboosted, median", "s", Wanted("<=", 2, "ours")),
        found.row("slowest", "Ready to unboosted, slowest", "s", Wanted("<=", 2, "ours")),
    ]
    return result(
        "updater", "Updater", options, rows,
        [shown(side, "updater", ("--updater-interval=...", *_flags(side))) for side in SIDES],
        [
            "Ours runs without the canary, which upstream does not have, and updates more "
            "workloads in parallel than the default 10; upstream has no such flag and evicts one "
            "pod at a time. The API server takes about 100 ms to answer an eviction, because it "
            "waits until it knows all PodDisruptionBudgets.",
            f"Rounds are {_EVICTING_INTERVAL} s apart for evictions, {_IDLE_INTERVAL} s with "
            f"nothing to do, {_BOOSTS_INTERVAL} s for boosts.",
        ],
    )  # fmt: skip


def _flags(side: str) -> tuple[str, ...]:
    return (*FLAGS, GATE, *LIFTED) if side == "ours" else (*FLAGS, GATE)


def _fill(on: Stage, groups: int, target: str, lower: str) -> None:
    """Let there be groups of pods at 100m, and VPAs that recommend something."""

    def objects() -> Iterator[Json]:
        for number in range(groups):
            where, app = f"team-{number % SPACES}", f"app-{number}"
            yield from controllers(where, app, GROUP)
            yield vpa(where, app, target, lower=lower)
            for index in range(GROUP):
                yield pod(where, app, index)

    for prefix in (_PODS, "replicasets/", "autoscaling.k8s.io/verticalpodautoscalers/", "events/"):
        on.remove(prefix)
    on.put(objects())
    on.wait_listed(PODS, groups * GROUP)
    on.wait_listed(VPAS, groups)
    on.wait_listed(REPLICA_SETS, groups)


def _evictions(on: Stage, side: str, groups: int, found: Found) -> None:
    """Let half of all pods be evicted."""
    _fill(on, groups, "400m", "200m")
    sums = _eviction_sums(on)
    pods, allowed = groups * GROUP, groups * GROUP // 2
    replica = Replica(on, side, "updater", _EVICTING_INTERVAL, _flags(side), "evicting")
    with running(replica.program):
        patiently(lambda: on.count(_PODS) < pods, "a pod is evicted")
        began = last = time.monotonic()
        cpu, served = cpu_seconds(replica.program.pid), _server_seconds(on)
        first = on.count(_PODS)
        left = first
        while left > pods - allowed and time.monotonic() - began < _LONGEST_SECONDS:
            time.sleep(_LOOK_SECONDS)
            now = on.count(_PODS)
            if now < left:
                left, last = now, time.monotonic()
        spent, served = cpu_seconds(replica.program.pid) - cpu, _server_seconds(on) - served
    seen = first - left
    found.add(side, "each", _answer_ms(on, sums))
    found.add(side, "evicted", pods - left)
    found.add(side, "rate", seen / (last - began))
    found.add(side, "eviction cpu", spent / seen * 1e6)
    found.add(side, "server cpu", served / seen * 1e6)


def _server_seconds(on: Stage) -> float:
    return cpu_seconds(on.api_server.pid) + cpu_seconds(on.etcd.pid)


def _eviction_sums(on: Stage) -> tuple[float, float]:
    """Return how long the API server took for all evictions so far, and how many there were."""
    told, name = on.admin.text("/metrics"), "apiserver_request_duration_seconds"
    seconds = total(told, f"{name}_sum", subresource="eviction")
    return seconds, total(told, f"{name}_count", subresource="eviction")


def _answer_ms(on: Stage, before: tuple[float, float]) -> float:
    seconds, count = (now - then for now, then in zip(_eviction_sums(on), before, strict=True))
    return seconds / count * 1000


def _idle(on: Stage, side: str, groups: int, found: Found) -> None:
    """Let everything be as it should be."""
    _fill(on, groups, "100m", "50m")
    replica = Replica(on, side, "updater", _IDLE_INTERVAL, _flags(side), "idle")
    with running(replica.program):
        patiently(lambda: replica.rounds() >= 3, "it has begun")
        session = replica.program.pid
        cpu, rounds, seconds = cpu_seconds(session), replica.rounds(), replica.round_seconds()
        time.sleep(_IDLE_ROUNDS * _IDLE_INTERVAL)
        done = replica.rounds() - rounds
        found.add(side, "cpu", (cpu_seconds(session) - cpu) / done)
        found.add(side, "wall", (replica.round_seconds() - seconds) / done)
        found.add(side, "memory", memory_mb(session))
    if on.count(_PODS) != groups * GROUP:
        raise SystemExit(f"{side} evicted pods that are as they should be")


def _boosts(on: Stage, side: str, count: int, found: Found) -> None:
    """Let boosted pods become ready one after another; see when each has what is usual."""
    _fill(on, 1, "100m", "50m")
    usual = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    usual["limits"] = {"cpu": "3", "memory": "512Mi"}
    noted = {"vpaCpuStartupBoost/main": orjson.dumps(usual).decode()}
    boost = {"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 0}}}
    on.put([node(), *namespace(BOOSTED)])
    on.put(controllers(BOOSTED, "app", count))
    on.put([vpa(BOOSTED, "app", "100m", mode="InPlaceOrRecreate", more=boost)])
    made = [
        pod(BOOSTED, "app", number, cpu="200m", is_ready=False, annotations=noted)
        for number in range(count)
    ]
    on.put(made)
    on.wait_listed(PODS, count + GROUP)
    replica = Replica(on, side, "updater", _BOOSTS_INTERVAL, _flags(side), "boosts")
    with running(replica.program):
        patiently(lambda: replica.rounds() >= 1, "it has begun")
        taken = sorted(_unboosted_after(on, each["metadata"]["name"]) for each in made)
    found.add(side, "unboosted", taken[len(taken) // 2])
    found.add(side, "slowest", taken[-1])


def _unboosted_after(on: Stage, name: str) -> float:
    """Let a pod become ready; return after how many seconds its boost is over."""
    now = time_text(SystemClock().now().replace(microsecond=0))
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    on.admin.merge(PODS, BOOSTED, name, {"status": {"conditions": ready}}, "status")
    began = time.monotonic()

    def is_usual() -> bool:
        (box,) = on.admin.get(PODS, BOOSTED, name)["spec"]["containers"]
        return bool(box["resources"]["requests"]["cpu"] == "100m")

    eventually(is_usual, f"the boost of {name} ends", seconds=30)
    return time.monotonic() - began
