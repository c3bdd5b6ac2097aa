"""Measures the updater's plan for 20,000 VPAs and 100,000 pods, beside a plain loop.

Run with `python -m bench.updater_plan`. The plain loop touches every pod and compares its request
with a target, nothing more; ratios to it mean the same on every machine.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import orjson

from app.model.pods import read_pod
from app.model.snapshot import Collection, Replacement, Snapshot
from app.model.vpa import read_vpa
from app.model.workloads import read_workload
from app.updater.core.memory import Memory
from app.updater.core.plan import PlanOptions, plan
from app.updater.core.rules import UpdateRules
from bench.seeds import Json, controllers, pod, vpa
from tests.make import NO_GATES

NAMESPACES = 200
VPAS = 100  # a namespace
PODS = 5  # a VPA
NOW = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)

T = TypeVar("T")


def build(namespaces: int = NAMESPACES) -> Snapshot:
    """Return the snapshot, read from JSON text as the mirror does."""
    snapshot = Snapshot()
    for number in range(namespaces):
        namespace = f"team-{number:03d}"
        changes: list[Replacement] = []
        for index in range(VPAS):
            app = f"app-{index:03d}"
            found = read_vpa(again(vpa(namespace, app, f"{100 + index % 7}m")))
            changes.append(Replacement(Collection.VPAS, namespace, app, found))
            for item in controllers(namespace, app, PODS):
                workload = read_workload(again(item))
                changes.append(Replacement(Collection.WORKLOADS, namespace, workload.key, workload))
            for pod_number in range(PODS):
                one = read_pod(again(pod(namespace, app, pod_number)))
                changes.append(Replacement(Collection.PODS, namespace, one.name, one))
        snapshot = snapshot.changed(changes)
    return snapshot


def again(item: Json) -> Json:
    """Return an object as if it had come over the wire."""
    found: Json = orjson.loads(orjson.dumps(item))
    return found


def timed(what: str, work: Callable[[], T]) -> tuple[T, float]:
    """Run something and print the CPU that it took."""
    before = time.process_time()
    found = work()
    seconds = time.process_time() - before
    print(f"{what:44} {seconds:8.3f} s CPU", flush=True)
    return found, seconds


def plain_loop(snapshot: Snapshot) -> int:
    """Touch every pod and compare one number."""
    count = 0
    for view in snapshot.namespaces.values():
        for one in view.pods.values():
            request = one.containers[0].resources.request("cpu")
            if request is not None and request.milli > 150:
                count += 1
    return count


def touched(snapshot: Snapshot, *, every: int) -> Snapshot:
    """Return the snapshot after a heartbeat of some pods."""
    changes = []
    for namespace, view in snapshot.namespaces.items():
        for number, (name, one) in enumerate(view.pods.items()):
            if number % every == 0:
                one = replace(one, resource_version=one.resource_version + "0")
                changes.append(Replacement(Collection.PODS, namespace, name, one))
    return snapshot.changed(changes)


def main() -> int:
    """Measure, print, and tell whether the limits hold."""
    rules = UpdateRules()
    snapshot, _ = timed("read 20,000 VPAs and 100,000 pods", build)
    gc.collect()
    gc.freeze()
    _, loop = timed("plain loop over the pods", lambda: plain_loop(snapshot))
    first, cold = timed(
        "plan, nothing known before", lambda: plan(snapshot, rules, NO_GATES, Memory(), NOW)
    )
    later = NOW + timedelta(minutes=1)
    second, same = timed(
        "plan, nothing changed",
        lambda: plan(snapshot, rules, NO_GATES, first.memory, later, PlanOptions(before=first)),
    )
    beaten = touched(snapshot, every=50)
    third, warm = timed(
        "plan, every 50th pod changed in each namespace",
        lambda: plan(beaten, rules, NO_GATES, second.memory, later, PlanOptions(before=second)),
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    count = len(third.decisions)
    print(f"decisions {count}: {dict(Counter(found.reason for found in third.decisions))}")
    print(
        f"ratio to the plain loop: {cold / loop:.1f} first, {same / loop:.2f} unchanged, "
        f"{warm / loop:.1f} changed here and there"
    )
    print(f"peak memory {peak:.0f} MB")
    return 0 if cold < 3 and same < 0.5 and peak < 600 and count == 100_000 else 1


if __name__ == "__main__":
    sys.exit(main())
