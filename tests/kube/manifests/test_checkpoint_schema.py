"""What the API server keeps of a checkpoint."""

from typing import Any

import pytest

from tests.kube.manifests.definitions import CHECKPOINT as SCHEMA
from tests.kube.manifests.structural import facts, problems


def test_constraints() -> None:
    """Nothing is required, times may be null, and buckets have any number as their name."""
    times = {"status.lastUpdateTime", "status.firstSampleStart", "status.lastSampleStart"}
    histograms = {"status.cpuHistogram", "status.memoryHistogram"}
    references = {f"{histogram}.referenceTimestamp" for histogram in histograms}

    assert "required" not in SCHEMA
    assert facts(SCHEMA, "required") == {}
    assert facts(SCHEMA, "nullable") == dict.fromkeys(times | references, True)
    assert facts(SCHEMA, "format") == dict.fromkeys(times | references, "date-time")
    assert facts(SCHEMA, "x-kubernetes-preserve-unknown-fields") == {
        f"{histogram}.bucketWeights": True for histogram in histograms
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, [], id="nothing yet"),
        pytest.param(
            {
                "lastUpdateTime": "2026-01-06T00:00:03Z",
                "version": "v3",
                "cpuHistogram": {
                    "referenceTimestamp": "2026-01-05T00:00:00Z",
                    "bucketWeights": {"8": 10000, "32": 1751},
                    "totalWeight": 207.89808989927872,
                },
                "memoryHistogram": {
                    "referenceTimestamp": None,
                    "bucketWeights": {"27": 10000},
                    "totalWeight": 1,
                },
                "firstSampleStart": "2026-01-05T00:00:00Z",
                "lastSampleStart": None,
                "totalSamplesCount": 1441,
            },
            [],
            id="a day of samples",
        ),
        pytest.param(
            {"totalSamplesCount": 1.5, "cpuHistogram": {"totalWeight": "1", "buckets": {}}},
            [
                "status.totalSamplesCount: type",
                "status.cpuHistogram.totalWeight: type",
                "status.cpuHistogram.buckets: unknown",
            ],
            id="wrong types",
        ),
        pytest.param({"lastUpdateTime": "now"}, ["status.lastUpdateTime: invalid"], id="a time"),
    ],
)
def test_status(status: dict[str, Any], expected: list[str]) -> None:
    """What a recommender writes comes back whole."""
    saved = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": "shop-app"},
        "spec": {"vpaObjectName": "shop", "containerName": "app"},
        "status": status,
    }

    assert problems(SCHEMA, saved) == expected
