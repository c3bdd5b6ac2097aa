"""Measures full ticks of the recommender's model, beside one object per container.

Run with `python -m bench.recommender_model`, or with numbers of VPAs and pods for one size alone,
e.g. `python -m bench.recommender_model 200000 500000` for a million containers. A tick is all
but the network: parse a metrics body, add, estimate, decide what to publish and what to store. The
first ticks are the worst ones, for every status is new and every bound moves; the later ones
are those of VPAs with ten days of history. The plain reference does the same work one sample and
one histogram at a time; ratios to it mean the same on every machine.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

import orjson

from app.model.pods import read_pod
from app.model.selectors import Selector
from app.model.vpa import read_vpa
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.model import Model
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import read_metrics
from app.runtime.garbage import collect_seldom
from bench.seeds import history
from tests.recommender.core.reference import Reference

SIZES = ((2_000, 8_000), (20_000, 50_000))  # VPAs and pods
CONTAINERS = ("main", "sidecar")
NAMESPACES = 100
START = datetime(2026, 1, 5, tzinfo=UTC)
TICKS = 4
BUDGET = 300  # checkpoints a tick
REFERENCE_PODS = 40


@dataclass(frozen=True, slots=True)
class Tick:
    """Seconds of CPU of one tick, and what came out."""

    parse: float
    read: float
    add: float
    decide: float
    store: float
    body_bytes: int
    published: int
    stored: int

    @property
    def total(self) -> float:
        """All of it."""
        return self.parse + self.read + self.add + self.decide + self.store


def names(vpa: int) -> tuple[str, str]:
    """Return namespace and app of a VPA."""
    return f"team-{vpa % NAMESPACES}", f"service-{vpa}"


def filled(vpas: int, pods: int, *, with_history: bool) -> Model:
    """Return a model that has seen so many VPAs and pods."""
    model = Model(RecommenderRules())
    for number in range(vpas):
        namespace, app = names(number)
        item = {
            "metadata": {"namespace": namespace, "name": app, "uid": app, "generation": 1},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app}},
        }
        observed = ObservedVpa(read_vpa(item), Selector.of_labels({"app": app}))
        model.vpa_seen(observed, START)
    model.restore(stored(vpas) if with_history else [], START)
    for number in range(pods):
        namespace, app = names(number % vpas)
        resources = {"requests": {"cpu": "100m", "memory": "256Mi"}}
        pod = {
            "metadata": {
                "namespace": namespace,
                "name": f"{app}-{number}",
                "uid": str(number),
                "labels": {"app": app, "pod-template-hash": "5d9c7b6f4"},
            },
            "spec": {"containers": [{"name": one, "resources": resources} for one in CONTAINERS]},
            "status": {"phase": "Running"},
        }
        model.pod_seen(read_pod(pod), START)
    return model


def stored(vpas: int) -> Iterator[Checkpoint]:
    """Yield ten days of history for every container, written at different times."""
    for number in range(vpas):
        yield from history(*names(number), CONTAINERS, START - timedelta(minutes=number % 15))


def metrics(vpas: int, pods: int, now: datetime, dice: random.Random) -> bytes:
    """Return what metrics-server would answer."""
    moment = now.isoformat().replace("+00:00", "Z")
    return orjson.dumps(
        {
            "items": [
                {
                    "metadata": {
                        "namespace": names(number % vpas)[0],
                        "name": f"{names(number % vpas)[1]}-{number}",
                        "creationTimestamp": moment,
                        "labels": {"app": names(number % vpas)[1]},
                    },
                    "timestamp": moment,
                    "window": "17.2s",
                    "containers": [
                        {
                            "name": one,
                            "usage": {
                                "cpu": f"{dice.randrange(4_000_000_000)}n",
                                "memory": f"{dice.randrange(4_000_000)}Ki",
                            },
                        }
                        for one in CONTAINERS
                    ],
                }
                for number in range(pods)
            ]
        }
    )


def tick(model: Model, body: bytes, now: datetime) -> Tick:
    """Go through one tick with a watch in hand."""
    times = [time.process_time()]
    parsed = orjson.loads(body)
    times.append(time.process_time())
    batch = read_metrics(parsed)
    times.append(time.process_time())
    model.usage(batch)
    times.append(time.process_time())
    published = model.tick(now)
    times.append(time.process_time())
    stored = model.checkpoints(now, BUDGET)
    times.append(time.process_time())
    parse, read, add, decide, store = (after - before for before, after in pairwise(times))
    return Tick(parse, read, add, decide, store, len(body), len(published), len(stored))


def ticks(vpas: int, pods: int, *, with_history: bool) -> list[Tick]:
    """Return some ticks, a minute apart."""
    model, dice = filled(vpas, pods, with_history=with_history), random.Random(1)
    found = []
    for minute in range(1, TICKS + 1 + with_history):
        now = START + timedelta(minutes=minute)
        found.append(tick(model, metrics(vpas, pods, now, dice), now))
    return found[with_history:]  # the very first one publishes everything


def reference_seconds() -> float:
    """Return the CPU seconds that the plain reference needs for one container and tick."""
    dice = random.Random(1)
    models = [Reference({"web": {"app": "web"}}) for _ in range(REFERENCE_PODS)]
    start = START.timestamp()
    for minute in range(30):
        begun = time.process_time()
        for model in models:
            now = start + minute * 60
            model.see("web-0", {"app": "web"}, CONTAINERS, now)
            for container in CONTAINERS:
                cpu, memory = dice.randrange(4000), dice.randrange(4_000_000) * 1024
                model.use("web-0", container, cpu, memory, now)
            model.recommend("web", now)
    return (time.process_time() - begun) / (REFERENCE_PODS * len(CONTAINERS))


def measure(vpas: int, pods: int) -> None:
    """Print the ticks of one size."""
    containers, plain = pods * len(CONTAINERS), reference_seconds()
    print(f"{containers:,} containers, {vpas:,} VPAs; plain reference {plain * 1e6:.0f} us each")
    for words, with_history in (("first ticks", False), ("later ticks", True)):
        found = ticks(vpas, pods, with_history=with_history)
        total = median(one.total for one in found)
        model = median(one.add + one.decide for one in found)
        usual = sorted(found, key=lambda one: one.total)[len(found) // 2]
        print(
            f"  {words}: {total:.2f} s of CPU (parse {usual.parse:.2f}, read {usual.read:.2f}, "
            f"add {usual.add:.2f}, decide {usual.decide:.2f}, store {usual.store:.2f}), "
            f"{usual.published:,} statuses and {usual.stored:,} checkpoints to write, "
            f"body {usual.body_bytes / 1e6:.1f} MB"
        )
        print(f"    {plain * containers / model:,.0f} times as fast as the plain reference")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  memory at its highest, test data included: {peak:,.0f} MB")


def main() -> None:
    """Measure one size, or each in a process of its own."""
    if len(sys.argv) == 3:
        collect_seldom()  # as the process does
        measure(int(sys.argv[1]), int(sys.argv[2]))
        return
    for size in SIZES:
        subprocess.run(
            [sys.executable, "-m", "bench.recommender_model", *map(str, size)], check=True
        )


if __name__ == "__main__":
    main()
