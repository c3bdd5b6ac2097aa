"""What a round publishes."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from app.model.snapshot import Snapshot
from app.runtime.exposition import render
from app.updater.core.outcomes import Outcome
from app.updater.metrics import UpdaterMetrics
from app.updater.report import DecisionLog, Reporter
from tests.cluster.numbers import total
from tests.updater.core.boosts import boosted, scene
from tests.updater.core.scenes import NOW, Scene, several


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
