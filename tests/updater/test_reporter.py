"""What a round publishes."""

from __future__ import annotations

import logging

import orjson
import pytest
from prometheus_client import CollectorRegistry

from app.model.errors import ClusterError, TooMany
from app.model.snapshot import Snapshot
from app.runtime.exposition import render
from app.runtime.logs import line
from app.updater.core.outcomes import Outcome
from app.updater.metrics import UpdaterMetrics
from app.updater.reporter import DecisionLog, Reporter
from tests.cluster.numbers import total
from tests.updater.core.boosts import boosted, scene
from tests.updater.core.scenes import NOW, Scene, container, running, several


def test_a_vpa_counts_once() -> None:
    """Also if it came after the round's plan, and boosts ended in groups of other sizes."""
    registry = CollectorRegistry()
    reporter = Reporter(UpdaterMetrics(registry), DecisionLog(), None, None)
    made, snapshot = Scene((), whole=Snapshot()).plan(), scene().snapshot()
    reporter.begin_round(made, snapshot)
    for count in (1, 4):
        (queue,) = scene(*several(boosted(), count)).plan().queues
        reporter.report_call(Outcome(queue, queue.steps[0], NOW), snapshot)
    reporter.end_round(made, {}, (), snapshot)
    page = render(registry).decode()
    assert total(page, "vpa_updater_in_place_updated_pods_total", vpa_name="web") == 2
    assert total(page, "vpa_updater_vpas_with_in_place_updated_pods_total") == 1


@pytest.mark.parametrize(
    ("error", "message"), [(None, "pod updated"), (TooMany("later"), "pod not updated")]
)
def test_the_log_says_why(
    error: ClusterError | None, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a pod was evicted from, by which VPA, and why: all that a search in old logs needs."""
    caplog.set_level(logging.INFO, "updater.report")
    reporter = Reporter(UpdaterMetrics(CollectorRegistry()), DecisionLog(), None, None)
    found = Scene(several(running(container("app", "100m/100Mi")), 3))
    (queue,) = found.plan().queues
    reporter.report_call(Outcome(queue, queue.steps[0], NOW, error), found.snapshot())
    (record,) = caplog.records
    told = orjson.loads(line(record))
    expected = {
        "message": message,
        "action": "Evict",
        "pod": "default/web-0",
        "workload": "StatefulSet/web",
        "vpa": "web",
        "cause": "OutsideBounds",
        "reason": "cpu 100m is below its lower bound 200m: 100m -> 200m; memory 100Mi -> 200Mi",
    }
    assert told.items() >= expected.items()
    assert told.get("error") == (error.message if error is not None else None)
