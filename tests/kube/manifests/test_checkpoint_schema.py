"""What the API server keeps of a checkpoint."""

import pytest
import yaml

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


DAY = """
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscalerCheckpoint
metadata: {name: shop-app}
spec: {vpaObjectName: shop, containerName: app}
status:
  lastUpdateTime: "2026-01-06T00:00:03Z"
  version: v3
  cpuHistogram:
    referenceTimestamp: "2026-01-05T00:00:00Z"
    bucketWeights: {"8": 10000, "32": 1751}
    totalWeight: 207.89808989927872
  memoryHistogram: {referenceTimestamp: null, bucketWeights: {"27": 10000}, totalWeight: 1}
  firstSampleStart: "2026-01-05T00:00:00Z"
  lastSampleStart: null
  totalSamplesCount: 1441
"""


@pytest.mark.parametrize("text", [DAY, "status: {}"], ids=["a day of samples", "nothing yet"])
def test_accepted(text: str) -> None:
    """What a recommender writes comes back whole."""
    assert problems(SCHEMA, yaml.safe_load(text)) == []


def test_refused() -> None:
    """Times and numbers have their types, and no field is made up."""
    status = {
        "totalSamplesCount": 1.5,
        "cpuHistogram": {"totalWeight": "1", "buckets": {}},
        "lastUpdateTime": "now",
    }
    assert problems(SCHEMA, {"status": status}) == [
        "status.totalSamplesCount: type",
        "status.cpuHistogram.totalWeight: type",
        "status.lastUpdateTime: invalid",
        "status.cpuHistogram.buckets: unknown",
    ]
