"""Measures how fast the updater evicts when an API server takes 5 ms for each answer.

Run with `python -m bench.updater_calls`. 400 owners of 16 pods, all to be evicted; the server looks
at every eviction whether the budget of its owner is kept, and makes up new pods at once.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from prometheus_client import CollectorRegistry

from app.flags.command_line import parse
from app.model.errors import NotFound
from app.model.snapshot import Replacement, Snapshot, replacement
from app.ports import Cluster
from app.runtime.bounds import LimitReport
from app.runtime.clock import SystemClock
from app.updater.flags import UpdaterSettings
from app.updater.metrics import UpdaterLimit, UpdaterMetrics
from app.updater.process import updater_parts
from app.updater.state import UpdaterContext
from tests import make
from tests.updater.core.scenes import container, recommended, running
from tests.updater.stage import NoOwners

Json = dict[str, Any]

OWNERS = 400
PODS = 16
ANSWER_SECONDS = 0.005
LEAST_PER_SECOND = 200


@dataclass
class Server:
    """Evicts after a while, and counts."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    evicted: Counter[str] = field(default_factory=Counter)  # by owner, in this round
    under_way: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    events: int = 0

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Let a pod go, if half of its owner's pods stay."""
        del namespace, uid, dry_run
        owner = name.rpartition("-")[0]
        with self.lock:
            self.under_way[owner] += 1
            if self.under_way[owner] > 1:
                self.problems.append(f"two calls at a time for {owner}")
        time.sleep(ANSWER_SECONDS)
        with self.lock:
            self.under_way[owner] -= 1
            self.evicted[owner] += 1
            if self.evicted[owner] > PODS // 2:
                self.problems.append(f"{self.evicted[owner]} pods of {owner} are down")

    def create(self, *_: object, **__: object) -> Json:
        """Take an event."""
        time.sleep(ANSWER_SECONDS)
        self.events += 1
        return {}

    def get(self, *_: object, **__: object) -> Json:
        """Know nothing."""
        raise NotFound("not found", status=404)


def changes(owner: str, cpu: str) -> list[Replacement]:
    """Return the objects of one owner."""
    labels = {"app": owner}
    items = [
        make.workload_json(f"StatefulSet/{owner}", replicas=PODS, labels=labels),
        make.vpa_json(
            owner, target=f"StatefulSet/{owner}", recommendations=[recommended("200m/200Mi = =")]
        ),
    ]
    for number in range(PODS):
        name, reference = f"{owner}-{number}", f"StatefulSet/{owner}"
        pod = running(container("app", f"{cpu}/200Mi"), name=name, labels=labels, owner=reference)
        items.append(pod)
    found = [replacement(item) for item in items]
    return [change for change in found if change is not None]


def main() -> int:
    """Measure, print, and tell whether the limits hold."""
    snapshot = Snapshot()
    for number in range(OWNERS):
        snapshot = snapshot.changed(changes(f"app{number:03d}", "100m"))
    server, clock = Server(), SystemClock()
    words = ["--prove=off", "--use-admission-controller-status=false", "--updater-interval=10m"]
    context = UpdaterContext(
        cluster_for_calls=lambda: cast("Cluster", server),
        reporting=cast("Cluster", server),
        owners=NoOwners(),
        snapshot=lambda: snapshot,
        is_known=lambda: True,
        may_act=lambda: True,
        leads=lambda: True,
        clock=clock,
        metrics=UpdaterMetrics(CollectorRegistry()),
        reached=LimitReport(None, UpdaterLimit).reached,
    )
    found = updater_parts(parse(UpdaterSettings, words, {}), context)
    began, cpu = time.monotonic(), time.process_time()
    found.updater.tick(clock.now())
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    count = server.evicted.total()
    print(
        f"{count} evictions in {seconds:.1f} s and {cpu:.1f} s CPU: {count / seconds:.0f} a second"
    )
    print(f"budgets: {server.problems or 'all kept'}")
    is_good = count == OWNERS * PODS // 2 and count / seconds >= LEAST_PER_SECOND
    return 0 if is_good and not server.problems else 1


if __name__ == "__main__":
    sys.exit(main())
