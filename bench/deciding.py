"""The webhook's decisions alone, without a server around them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import orjson
from prometheus_client import CollectorRegistry

from app.admission.metrics import AdmissionMetrics
from app.admission.reviews import Reviewer, ReviewRules, Sources
from app.runtime.clock import SystemClock
from bench.reviews import review
from bench.seeds import controllers, vpa
from tests import make
from tests.runtime.reviewing import NoOwners, Stored, begun

WHERE = "load"


def reviewer(vpas: int, metrics: AdmissionMetrics | None = None) -> Reviewer:
    """Return what answers for so many workloads with a VPA each."""
    metrics = metrics or AdmissionMetrics(CollectorRegistry())
    names = [f"app-{number}" for number in range(vpas)]
    items = [item for name in names for item in (*controllers(WHERE, name), vpa(WHERE, name, "2"))]
    known = make.snapshot(*items)
    sources = Sources(lambda: known, NoOwners(), Stored())
    return Reviewer(sources, ReviewRules(), metrics, SystemClock(), lambda *_: None)


def bodies(vpas: int, count: int) -> list[bytes]:
    """Return reviews of different pods, spread over all workloads."""
    step = 7919  # coprime to the numbers of workloads, so that they come in no order
    names = (f"app-{number * step % vpas}" for number in range(count))
    return [orjson.dumps(review(WHERE, name, number)) for number, name in enumerate(names)]


def seconds_each(found: Reviewer, bodies: Sequence[bytes]) -> float:
    """Return the CPU that it takes to answer a review."""
    start = time.process_time()
    for body in bodies:
        begun(found, body)
    return (time.process_time() - start) / len(bodies)
