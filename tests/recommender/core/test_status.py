"""What a status says and when it differs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from app.model.kinds import Condition, ObjectKey
from app.model.scalers import ScaledMetric
from app.model.selectors import EVERYTHING, Selector
from app.model.vpa import ContainerRecommendation
from app.recommender.core.status import (
    ConditionInputs,
    Difference,
    Lacking,
    NotProvided,
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
from tests.cases import cases

THEN = datetime(2026, 1, 5, 10, tzinfo=UTC)
NOW = datetime(2026, 1, 5, 11, 0, 0, 500_000, tzinfo=UTC)
NO_PODS = ("NoPodsMatched", "No pods match this VPA object")

ENTRY = ContainerRecommendation("app", {}, {}, {}, {})
WITH, WITHOUT = VpaStatus((ENTRY,), (), 1), VpaStatus(None, (), 1)


def found(kind: str, status: str = "True") -> Condition:
    """Return a condition that stands since long."""
    return Condition(kind, status, "Old", "old", THEN, 7)


PROVIDED = Condition("RecommendationProvided", "True", "", "", THEN)
PROVIDED_NOW = replace(PROVIDED, last_transition=NOW)
FINE = ConditionInputs(is_provided=True, matches_pods=True)
BY_CPU = ScaledMetric(ObjectKey("autoscaling", "HorizontalPodAutoscaler", "web"), "cpu", "", 70, 0)


@cases(
    "before standing expected",
    {
        "provided": ([], FINE, [PROVIDED_NOW]),
        "no pods, no history": (
            [],
            ConditionInputs(is_provided=False, matches_pods=False),
            [
                Condition("NoPodsMatched", "True", *NO_PODS, NOW),
                Condition("RecommendationProvided", "False", *NO_PODS, NOW),
            ],
        ),
        "no pods, but history": (
            [],
            ConditionInputs(is_provided=True, matches_pods=False),
            [Condition("NoPodsMatched", "True", *NO_PODS, NOW), PROVIDED_NOW],
        ),
        "pods, but nothing to recommend": (
            [found("NoPodsMatched"), found("RecommendationProvided")],
            ConditionInputs(is_provided=False, matches_pods=True),
            [Condition("RecommendationProvided", "False", "", "", NOW)],
        ),
        "a resource without a target": (
            [found("RecommendationProvided")],
            replace(FINE, lacking=(Lacking("app", "cpu", NotProvided.NOT_LEARNED),)),
            [
                Condition(
                    "RecommendationProvided",
                    "False",
                    "NotLearned",
                    "No target for cpu of app: nothing was learned of it yet",
                    NOW,
                )
            ],
        ),
        "more of them, and some that start with a boost": (
            [],
            replace(
                FINE,
                is_provided=False,
                lacking=(
                    *(Lacking(name, "cpu", NotProvided.STARTUP_BOOST) for name in "abcde"),
                    Lacking("a", "memory", NotProvided.NOT_LEARNED),
                ),
            ),
            [
                Condition(
                    "RecommendationProvided",
                    "False",
                    "StartupBoost",
                    "No target for cpu of a, cpu of b, cpu of c and 2 more: nothing is learned "
                    "of it before the startup boost is over; "
                    "No target for memory of a: nothing was learned of it yet",
                    NOW,
                )
            ],
        ),
        "a resource by which replicas are added": (
            [PROVIDED],
            replace(FINE, scaled_by=(BY_CPU,)),
            [
                PROVIDED,
                Condition(
                    "ScaledHorizontally",
                    "True",
                    "Held",
                    f"Not changed by this VPA: {BY_CPU.sentence}",
                    NOW,
                ),
            ],
        ),
        "the time stays while the status does": (
            [found("RecommendationProvided")],
            FINE,
            [PROVIDED],
        ),
        "what is over goes": (
            [
                found("ConfigUnsupported"),
                found("ConfigDeprecated"),
                found("RecommendationProvided"),
            ],
            FINE,
            [PROVIDED],
        ),
        "a problem with the target": (
            [found("RecommendationProvided")],
            ConditionInputs(is_provided=True, matches_pods=True, problem="cannot be read"),
            [Condition("ConfigUnsupported", "True", "", "cannot be read", NOW), PROVIDED],
        ),
        "other people's conditions stay": (
            [found("SelectorOverlap"), found("Custom"), found("RecommendationProvided")],
            FINE,
            [found("Custom"), PROVIDED, found("SelectorOverlap")],
        ),
        "no overlap any more": (
            [found("SelectorOverlap"), found("RecommendationProvided")],
            ConditionInputs(is_provided=True, matches_pods=True, stronger=""),
            [PROVIDED],
        ),
        "who leads is not known": (
            [found("RecommendationProvided")],
            ConditionInputs(
                is_provided=True, matches_pods=True, role_problem=("NoLease", "it is missing")
            ),
            [PROVIDED, Condition("RoleUnknown", "True", "NoLease", "it is missing", NOW)],
        ),
        "who leads is known again": (
            [found("RecommendationProvided"), found("RoleUnknown")],
            ConditionInputs(is_provided=True, matches_pods=True),
            [PROVIDED],
        ),
        "an overlap": (
            [found("RecommendationProvided")],
            ConditionInputs(is_provided=True, matches_pods=True, stronger="web"),
            [
                PROVIDED,
                Condition(
                    "SelectorOverlap",
                    "True",
                    "OverlappingPods",
                    'VPA "web" selects some of the same pods and comes first',
                    NOW,
                ),
            ],
        ),
    },
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


STANDS = VpaStatus((entry(),), (PROVIDED,), 3)


@cases(
    "new expected",
    {
        "nothing": (STANDS, Difference.NONE),
        "another spelling": (replace(STANDS, recommendation=(entry("1000m"),)), Difference.NONE),
        "edited": (replace(STANDS, observed_generation=4), Difference.GENERATION),
        "a condition": (replace(STANDS, conditions=()), Difference.CONDITIONS),
        "a target": (replace(STANDS, recommendation=(entry("1001m"),)), Difference.TARGET),
        "another container": (
            replace(STANDS, recommendation=(entry(), entry(name="log"))),
            Difference.TARGET,
        ),
        "bounds by a hundredth": (
            replace(STANDS, recommendation=(entry(lower="505m", upper="1980m"),)),
            Difference.SLIGHT,
        ),
        "a bound": (replace(STANDS, recommendation=(entry(lower="506m"),)), Difference.BOUNDS),
        "a bound that is missing": (
            replace(STANDS, recommendation=(replace(entry(), lower_bound={}),)),
            Difference.BOUNDS,
        ),
        "gone": (replace(STANDS, recommendation=None), Difference.TARGET),
        "emptied": (replace(STANDS, recommendation=()), Difference.TARGET),
    },
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
        (PROVIDED_NOW, Condition("X", "False", "R", "m", None, 2)),
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


@cases(
    "status expected",
    {
        "nothing": (VpaStatus(None, (), None), {"conditions": []}),
        "no containers": (VpaStatus((), (), None), {"conditions": [], "recommendation": {}}),
        "no resources": (
            VpaStatus((ContainerRecommendation("app", {}, {}, {}, {}),), (), None),
            {
                "conditions": [],
                "recommendation": {
                    "containerRecommendations": [{"containerName": "app", "target": {}}]
                },
            },
        ),
    },
)
def test_json_of_little(status: VpaStatus, expected: dict[str, object]) -> None:
    """What is empty is left out, but not the recommendation once there was one."""
    assert status_json(status) == expected


@cases(
    "new stands found killed expected",
    {
        "the first one": (WITH, WITHOUT, Difference.TARGET, True, Why.FIRST),
        "after a kill": (WITH, WITH, Difference.TARGET, True, Why.KILL),
        "a target": (WITH, WITH, Difference.TARGET, False, Why.TARGET),
        "a bound": (WITH, WITH, Difference.BOUNDS, False, Why.BOUNDS),
        "its turn": (WITH, WITH, Difference.SLIGHT, False, Why.REFRESH),
        "conditions": (WITHOUT, WITH, Difference.CONDITIONS, False, Why.CONDITIONS),
        "an edit": (WITH, WITH, Difference.GENERATION, False, Why.GENERATION),
    },
)
def test_why(
    new: VpaStatus, stands: VpaStatus, found: Difference, killed: bool, expected: Why
) -> None:
    """A publication says what made it worth a write."""
    observed = ObservedVpa(make.vpa(), EVERYTHING)

    published = publication(observed, new, stands, found, killed=killed)

    assert (published.why, published.namespace, published.name) == (expected, "default", "web")


@cases(
    "selector problem expected",
    {
        "found": (EVERYTHING, "", ""),
        "found, with a problem": (EVERYTHING, "ignored", ""),
        "not found": (None, "is gone", "is gone"),
        "not found, and it is not known why": (None, "", "Cannot read targetRef"),
    },
)
def test_problem(selector: Selector | None, problem: str, expected: str) -> None:
    """A target that is not found is a problem with words."""
    assert problem_of(ObservedVpa(make.vpa(), selector, problem)) == expected
