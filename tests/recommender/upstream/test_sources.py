"""Several answers become one item a pod."""

from __future__ import annotations

from app.recommender.core.usage import ExternalQuestion, UsageLimits, read_metrics
from app.recommender.upstream.sources import pod_items
from tests.recommender.core.test_usage import CPU, MEMORY, RULES, answer, value


def test_pod_items() -> None:
    """A pod is one item at the time of the first value of its last answer, whatever is told."""
    later = "2026-01-05T00:01:00Z"
    told = [
        (CPU, answer(value("250m"), value("1", "log"))),
        (MEMORY, answer(value("1Mi", timestamp=later, window=60))),
        (ExternalQuestion("default", "web-1", "cpu", "cpu", ""), answer()),
    ]
    (item,) = pod_items(told, RULES)
    found = read_metrics({"items": [item]}, UsageLimits(absent=0))

    assert (item["timestamp"], item["window"]) == (later, "60s")
    assert found.batch.cpu_millicores.tolist() == [250, 1000]
    assert found.batch.memory_bytes.tolist() == [2**20, 0]
