"""Measures what 2,000 HPAs cost the updater's cold plan and the webhook's reviews.

Run with `python -m bench.horizontal`. Both are measured with and without HPAs by turns in one run;
of the ratios the medians are printed.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import Final

from app.admission.core.mutate import PodAdmission, PodRules
from app.model.review import read_review
from app.model.snapshot import Replacement, Snapshot, replacement
from app.model.workloads import NOTHING_LOOKED_UP
from app.updater.core.memory import Memory
from app.updater.core.plan import plan
from app.updater.core.rules import UpdateRules
from bench.updater_plan import VPAS, build
from tests import make
from tests.make import NO_GATES

NAMESPACES: Final = 20
TURNS: Final = 9
REVIEWS: Final = 20_000
MOST: Final = 1.05  # times what it costs without HPAs
NOW: Final = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)


def hpas() -> list[Replacement]:
    """Return an HPA on the cpu of each workload."""
    metric = make.metric_json("cpu", 70)
    items = (
        make.hpa_json(
            metric,
            name=f"app-{app:03d}",
            namespace=f"team-{namespace:03d}",
            target=f"Deployment/app-{app:03d}",
        )
        for namespace in range(NAMESPACES)
        for app in range(VPAS)
    )
    return [found for item in items if (found := replacement(item)) is not None]


def spent(work: Callable[[], object]) -> float:
    """Return the CPU that something takes."""
    before = time.process_time()
    work()
    return time.process_time() - before


def reviewed(snapshot: Snapshot) -> None:
    """Let many pods of one workload be admitted."""
    admission = PodAdmission(PodRules())
    view = snapshot.of("team-000")
    pod = next(iter(view.pods.values()))
    owner = pod.controller
    assert owner is not None
    item = make.pod_json(
        cpu="100m",
        namespace="team-000",
        labels=dict(pod.labels),
        owner=f"{owner.kind}/{owner.name}",
    )
    request = read_review(make.review_json(item))
    for _ in range(REVIEWS):
        admission.admit(request, view, NOTHING_LOOKED_UP)


def main() -> int:
    """Measure, print, and tell whether the limits hold."""
    without = build(NAMESPACES)
    changes = hpas()
    scaled = without.changed(changes)
    held = sum(
        bool(vpa.scaled_by) for view in scaled.namespaces.values() for vpa in view.vpas.values()
    )
    gc.collect()
    gc.freeze()
    folds, plans, reviews = [], [], []
    for _ in range(TURNS):
        first, second = (
            spent(partial(plan, one, UpdateRules(), NO_GATES, Memory(), NOW))
            for one in (without, scaled)
        )
        plans.append(second / first)
        folds.append(spent(lambda: without.changed(changes)) / first)
        one, other = spent(lambda: reviewed(without)), spent(lambda: reviewed(scaled))
        reviews.append(other / one)
    print(f"HPAs {len(changes)}, VPAs that are held {held}")
    print(f"cold plan with HPAs / without           {median(plans):6.3f}, at most {MOST}")
    print(f"reading them in / a cold plan without   {median(folds):6.3f}")
    print(f"reviews with HPAs / without             {median(reviews):6.3f}, at most {MOST}")
    is_cheap = max(median(plans), median(reviews)) <= MOST
    return 0 if is_cheap and held == len(changes) else 1


if __name__ == "__main__":
    sys.exit(main())
