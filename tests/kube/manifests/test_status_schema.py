"""What a recommender may write into a status."""

from __future__ import annotations

import yaml

from tests.cases import cases
from tests.kube.manifests.definitions import VPA
from tests.kube.manifests.structural import problems

STATUS = VPA["properties"]["status"]
WHOLE = """
observedGeneration: 1
conditions:
- type: RecommendationProvided
  status: "True"
  lastTransitionTime: "2026-01-05T00:01:03Z"
  observedGeneration: 1
recommendation:
  containerRecommendations:
  - containerName: app
    target: {cpu: 920m, memory: "671629701"}
    lowerBound: {cpu: 125m, memory: "379499094"}
    upperBound: {cpu: 1840m, memory: "1343259402"}
    uncappedTarget: {cpu: 1, memory: 671629701}
"""


@cases(
    "status",
    {
        "nothing yet": ("{}",),
        "a recommendation": (WHOLE,),
        "an empty recommendation": ("recommendation: {}",),
        "conditions have open types": (
            "conditions: [{type: Mine, status: Unknown, reason: R, message: M}]",
        ),
    },
)
def test_accepted(status: str) -> None:
    """A status holds a recommendation, conditions and the generation it is about."""
    assert problems(STATUS, yaml.safe_load(status)) == []


@cases(
    "status expected",
    {
        "a broken condition": (
            "conditions: [{type: A, lastTransitionTime: yesterday, observedGeneration: -1}]",
            "conditions[0].status: required, conditions[0].lastTransitionTime: invalid, "
            "conditions[0].observedGeneration: invalid",
        ),
        "an unknown field": ("phase: Ready", "phase: unknown"),
    },
)
def test_refused(status: str, expected: str) -> None:
    """What is wrong is told field by field."""
    assert ", ".join(problems(STATUS, yaml.safe_load(status))) == expected
