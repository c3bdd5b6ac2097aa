"""What a recommender may write into a status."""

from typing import Any

import pytest

from tests.kube.manifests.definitions import VPA
from tests.kube.manifests.structural import problems

STATUS = VPA["properties"]["status"]


def condition(**fields: object) -> dict[str, Any]:
    """A status with one condition."""
    return {"conditions": [fields]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, [], id="nothing yet"),
        pytest.param(
            {
                "conditions": [
                    {
                        "type": "RecommendationProvided",
                        "status": "True",
                        "lastTransitionTime": "2026-01-05T00:01:03Z",
                        "observedGeneration": 1,
                    }
                ],
                "observedGeneration": 1,
                "recommendation": {
                    "containerRecommendations": [
                        {
                            "containerName": "app",
                            "target": {"cpu": "920m", "memory": "671629701"},
                            "lowerBound": {"cpu": "125m", "memory": "379499094"},
                            "upperBound": {"cpu": "1840m", "memory": "1343259402"},
                            "uncappedTarget": {"cpu": 1, "memory": 671629701},
                        }
                    ]
                },
            },
            [],
            id="a recommendation",
        ),
        pytest.param({"recommendation": {}}, [], id="an empty recommendation"),
        pytest.param(
            {"recommendation": {"containerRecommendations": [{"containerName": "app"}]}},
            ["recommendation.containerRecommendations[0].target: required"],
            id="a recommendation of nothing",
        ),
        pytest.param(
            condition(type="LowConfidence", lastTransitionTime="yesterday", observedGeneration=-1),
            [
                "conditions[0].status: required",
                "conditions[0].lastTransitionTime: invalid",
                "conditions[0].observedGeneration: invalid",
            ],
            id="a broken condition",
        ),
        pytest.param(
            condition(type="Mine", status="Unknown", reason="R", message="M"),
            [],
            id="conditions have open types",
        ),
        pytest.param({"observedGeneration": -1}, ["observedGeneration: invalid"], id="generation"),
        pytest.param({"phase": "Ready"}, ["phase: unknown"], id="an unknown field"),
    ],
)
def test_status(status: dict[str, Any], expected: list[str]) -> None:
    """A status holds a recommendation, conditions and the generation it is about."""
    assert problems(STATUS, status) == expected
