"""What a status says and when it differs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.model.kinds import Condition
from app.model.selectors import EVERYTHING, Selector
from app.model.vpa import ContainerRecommendation
from app.recommender.core.status import (
    ConditionInputs,
    Difference,
    VpaStatus,
    Why,
    conditions_for,
    difference,
    problem_of,
    publication,
    status_json,
    status_patch,
)
from app.recommender.core.targets import ObservedVpa
from tests import make

THEN = datetime(2026, 1, 5, 10, tzinfo=UTC)
NOW = datetime(2026, 1, 5, 11, 0, 0, 500_000, tzinfo=UTC)
NO_PODS = ("NoPodsMatched", "No pods match this VPA object")

ENTRY = ContainerRecommendation("app", {}, {}, {}, {})
WITH, WITHOUT = VpaStatus((ENTRY,), (), 1), VpaStatus(None, (), 1)


def found(kind: str, status: str = "True") -> Condition:
    """Return a condition that stands since long."""
    return Condition(kind, status, "Old", "old", THEN, 7)


@pytest.mark.parametrize(
    ("before", "standing", "expected"),
    [
        pytest.param(
            [],
            ConditionInputs(is_provided=True, matches_pods=True),
            [Condition("RecommendationProvided", "True", "", "", NOW)],
            id="provided",
        ),
        pytest.param(
            [],
            ConditionInputs(is_provided=False, matches_pods=False),
            [
                Condition("NoPodsMatched", "True", *NO_PODS, NOW),
                Condition("RecommendationProvided", "False", *NO_PODS, NOW),
            ],
            id="no pods, no history",
        ),
        pytest.param(
            [],
            ConditionInputs(is_provided=True, matches_pods=False),
            [
                Condition("NoPodsMatched", "True", *NO_PODS, NOW),
                Condition("RecommendationProvided", "True", "", "", NOW),
            ],
            id="no pods, but history",
        ),
        pytest.param(
            [found("NoPodsMatched"), found("RecommendationProvided")],
            ConditionInputs(is_provided=False, matches_pods=True),
            [Condition("RecommendationProvided", "False", "", "", NOW)],
            id="pods, but nothing to recommend",
        ),
        pytest.param(
            [found("RecommendationProvided")],
            ConditionInputs(is_provided=True, matches_pods=True),
            [Condition("RecommendationProvided", "True", "", "", THEN)],
            id="the time stays while the status does",
        ),
        pytest.param(
            [
                found("ConfigUnsupported"),
                found("ConfigDeprecated"),
                found("RecommendationProvided"),
            ],
            ConditionInputs(is_provided=True, matches_pods=True),
            [Condition("RecommendationProvided", "True", "", "", THEN)],
            id="what is over goes",
        ),
        pytest.param(
            [found("RecommendationProvided")],
            ConditionInputs(is_provided=True, matches_pods=True, problem="cannot be read"),
            [
                Condition("ConfigUnsupported", "True", "", "cannot be read", NOW),
                Condition("RecommendationProvided", "True", "", "", THEN),
            ],
            id="a problem with the target",
        ),
        pytest.param(
            [found("SelectorOverlap"), found("Custom"), found("RecommendationProvided")],
            ConditionInputs(is_provided=True, matches_pods=True),
            [
                found("Custom"),
                Condition("RecommendationProvided", "True", "", "", THEN),
                found("SelectorOverlap"),
            ],
            id="other people's conditions stay",
        ),
        pytest.param(
            [found("SelectorOverlap"), found("RecommendationProvided")],
            ConditionInputs(is_provided=True, matches_pods=True, stronger=""),
            [Condition("RecommendationProvided", "True", "", "", THEN)],
            id="no overlap any more",
        ),
        pytest.param(
            [found("RecommendationProvided")],
            ConditionInputs(is_provided=True, matches_pods=True, stronger="web"),
            [
                Condition("RecommendationProvided", "True", "", "", THEN),
                Condition(
                    "SelectorOverlap",
                    "True",
                    "OverlappingPods",
                    'VPA "web" selects some of the same pods and comes first',
                    NOW,
                ),
            ],
            id="an overlap",
        ),
    ],
)
def test_conditions(
    before: list[Condition], standing: ConditionInputs, expected: list[Condition]
) -> None:
    """Conditions follow from where a VPA stands, sorted by type."""
    assert list(conditions_for(tuple(before), standing, NOW)) == expected


def entry(
    target: str = "1", lower: str = "500m", upper: str = "2", name: str = "app"
) -> ContainerRecommendation:
    """Return a recommendation of cpu."""
    cpu = [make.quantities(cpu=text) for text in (target, lower, upper, target)]
    return ContainerRecommendation(name, *cpu)


PROVIDED = Condition("RecommendationProvided", "True", "", "", THEN)
STANDS = VpaStatus((entry(),), (PROVIDED,), 3)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(STANDS, Difference.NONE, id="nothing"),
        pytest.param(
            replace(STANDS, recommendation=(entry("1000m"),)),
            Difference.NONE,
            id="another spelling",
        ),
        pytest.param(replace(STANDS, observed_generation=4), Difference.GENERATION, id="edited"),
        pytest.param(replace(STANDS, conditions=()), Difference.CONDITIONS, id="a condition"),
        pytest.param(
            replace(STANDS, recommendation=(entry("1001m"),)), Difference.TARGET, id="a target"
        ),
        pytest.param(
            replace(STANDS, recommendation=(entry(), entry(name="log"))),
            Difference.TARGET,
            id="another container",
        ),
        pytest.param(
            replace(STANDS, recommendation=(entry(lower="505m", upper="1980m"),)),
            Difference.SLIGHT,
            id="bounds by a hundredth",
        ),
        pytest.param(
            replace(STANDS, recommendation=(entry(lower="506m"),)), Difference.BOUNDS, id="a bound"
        ),
        pytest.param(
            replace(STANDS, recommendation=(replace(entry(), lower_bound={}),)),
            Difference.BOUNDS,
            id="a bound that is missing",
        ),
        pytest.param(replace(STANDS, recommendation=None), Difference.TARGET, id="gone"),
        pytest.param(replace(STANDS, recommendation=()), Difference.TARGET, id="emptied"),
    ],
)
def test_difference(new: VpaStatus, expected: Difference) -> None:
    """Statuses are compared by value; what matters more is told first."""
    assert difference(new, STANDS, 0.01) is expected


def test_order_of_conditions_does_not_matter() -> None:
    """Conditions that stand in another order are the same."""
    other = Condition("Custom", "True")

    one = VpaStatus(None, (other, PROVIDED), 1)
    assert difference(one, replace(one, conditions=(PROVIDED, other)), 0.0) is Difference.NONE


def test_json() -> None:
    """A status is written as upstream writes it."""
    status = VpaStatus(
        (entry(),),
        (replace(PROVIDED, last_transition=NOW), Condition("X", "False", "R", "m", None, 2)),
        1,
    )

    assert status_patch(status) == [
        {
            "op": "add",
            "path": "/status",
            "value": {
                "conditions": [
                    {
                        "type": "RecommendationProvided",
                        "status": "True",
                        "lastTransitionTime": "2026-01-05T11:00:00Z",
                    },
                    {
                        "type": "X",
                        "status": "False",
                        "lastTransitionTime": None,
                        "reason": "R",
                        "message": "m",
                        "observedGeneration": 2,
                    },
                ],
                "observedGeneration": 1,
                "recommendation": {
                    "containerRecommendations": [
                        {
                            "containerName": "app",
                            "target": {"cpu": "1"},
                            "lowerBound": {"cpu": "500m"},
                            "upperBound": {"cpu": "2"},
                            "uncappedTarget": {"cpu": "1"},
                        }
                    ]
                },
            },
        }
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(VpaStatus(None, (), None), {"conditions": []}, id="nothing"),
        pytest.param(
            VpaStatus((), (), None), {"conditions": [], "recommendation": {}}, id="no containers"
        ),
        pytest.param(
            VpaStatus((ContainerRecommendation("app", {}, {}, {}, {}),), (), None),
            {
                "conditions": [],
                "recommendation": {
                    "containerRecommendations": [{"containerName": "app", "target": {}}]
                },
            },
            id="no resources",
        ),
    ],
)
def test_json_of_little(status: VpaStatus, expected: dict[str, object]) -> None:
    """What is empty is left out, but not the recommendation once there was one."""
    assert status_json(status) == expected


@pytest.mark.parametrize(
    ("new", "stands", "found", "killed", "expected"),
    [
        pytest.param(WITH, WITHOUT, Difference.TARGET, True, Why.FIRST, id="the first one"),
        pytest.param(WITH, WITH, Difference.TARGET, True, Why.KILL, id="after a kill"),
        pytest.param(WITH, WITH, Difference.TARGET, False, Why.TARGET, id="a target"),
        pytest.param(WITH, WITH, Difference.BOUNDS, False, Why.BOUNDS, id="a bound"),
        pytest.param(WITH, WITH, Difference.SLIGHT, False, Why.REFRESH, id="its turn"),
        pytest.param(WITHOUT, WITH, Difference.CONDITIONS, False, Why.CONDITIONS, id="conditions"),
        pytest.param(WITH, WITH, Difference.GENERATION, False, Why.GENERATION, id="an edit"),
    ],
)
def test_why(
    new: VpaStatus, stands: VpaStatus, found: Difference, killed: bool, expected: Why
) -> None:
    """A publication says what made it worth a write."""
    observed = ObservedVpa(make.vpa(), EVERYTHING)

    published = publication(observed, new, stands, found, killed=killed)

    assert (published.why, published.namespace, published.name) == (expected, "default", "web")


@pytest.mark.parametrize(
    ("selector", "problem", "expected"),
    [
        pytest.param(EVERYTHING, "", "", id="found"),
        pytest.param(EVERYTHING, "ignored", "", id="found, with a problem"),
        pytest.param(None, "is gone", "is gone", id="not found"),
        pytest.param(None, "", "Cannot read targetRef", id="not found, and it is not known why"),
    ],
)
def test_problem(selector: Selector | None, problem: str, expected: str) -> None:
    """A target that is not found is a problem with words."""
    assert problem_of(ObservedVpa(make.vpa(), selector, problem)) == expected
