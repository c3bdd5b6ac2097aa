"""What checkpoints tell of a container's history."""

from __future__ import annotations

from typing import Any

import pytest

from app.diagnosis.core.comparisons import histories
from tests import make

Json = dict[str, Any]


def checkpoint(**status: object) -> Json:
    """Return a checkpoint of container `app` of VPA `web`."""
    histogram: Json = {"referenceTimestamp": None, "bucketWeights": {}, "totalWeight": 0}
    usual = {
        "version": "v3",
        "cpuHistogram": histogram,
        "memoryHistogram": histogram,
        "firstSampleStart": "2026-01-01T00:00:00Z",
        "lastSampleStart": "2026-01-03T00:00:00Z",
        "lastUpdateTime": "2026-01-03T00:01:00Z",
        "totalSamplesCount": 2880,
    }
    return {
        "metadata": {"namespace": "default", "name": "web-app"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": usual | status,
    }


@pytest.mark.parametrize(
    ("status", "days"),
    [
        pytest.param({}, 2.0, id="two days of samples each minute"),
        pytest.param({"totalSamplesCount": 720}, 0.5, id="few samples"),
        pytest.param({"lastSampleStart": "2026-01-01T06:00:00Z"}, 0.25, id="a short time"),
        pytest.param({"totalSamplesCount": 0}, 0.0, id="no sample"),
        pytest.param({"firstSampleStart": None, "lastSampleStart": None}, 0.0, id="no time"),
    ],
)
def test_confidence(status: Json, days: float) -> None:
    """Confidence is days of history, by age or by number of samples, whichever is less."""
    found = histories([checkpoint(**status)])["default", "web", "app"]
    assert found.confidence == pytest.approx(days)


def test_count_and_time() -> None:
    """It is told how many samples there were, and when the checkpoint was written."""
    found = histories([checkpoint()])["default", "web", "app"]
    assert found.samples == 2880
    assert found.updated is not None
    assert make.time(found.updated) == "2026-01-03T00:01:00Z"


def test_what_cannot_be_read_tells_nothing() -> None:
    """One garbled checkpoint takes nothing from the others."""
    assert list(histories([checkpoint(version="v2"), checkpoint()])) == [("default", "web", "app")]
