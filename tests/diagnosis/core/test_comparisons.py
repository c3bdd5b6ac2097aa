"""How far requests are from what is recommended, and on how much history that rests."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.diagnosis.core.comparisons import (
    Gap,
    LearnedHistory,
    RequestComparison,
    comparison_json,
    comparisons,
    histories,
    vpa_json,
)
from app.diagnosis.core.members import members
from app.model.fields import Json
from app.model.vpa import read_vpa
from tests import make
from tests.cases import cases
from tests.diagnosis.core.healthy import checkpoint_json
from tests.make import quantity


def told(
    *items: Json, learned: dict[tuple[str, str, str], LearnedHistory] | None = None
) -> list[RequestComparison]:
    """Return all comparisons of some objects."""
    snapshot = make.snapshot(*items)
    pods, _ = members(snapshot, {})
    return list(comparisons(snapshot, pods, learned or {}))


def of_pods(*requests: str | None) -> RequestComparison:
    """Return how CPU stands of pods that request so much."""
    pods = [make.pod_json(name=f"web-{n}", cpu=cpu) for n, cpu in enumerate(requests)]
    recommended = make.recommendation_json(cpu="300m", lower={"cpu": "200m"}, upper={"cpu": "1"})
    (found,) = told(make.vpa_json(recommendations=[recommended]), make.workload_json(), *pods)
    return found


@cases(
    "requests gap share",
    {
        "short": (["100m", "100m"], "-400m", -2.0),
        "to be saved": (["900m", "600m"], "900m", 0.6),
        "even in sum": (["200m", "400m"], "0", 0.0),
        "one asks for nothing": ([None, "300m"], "-300m", -1.0),
        "no request": ([None], "-300m", None),
    },
)
def test_gaps_are_sums_over_pods(requests: list[str | None], gap: str, share: float | None) -> None:
    """What could be saved or is short is what all pods together request less the target."""
    found = of_pods(*requests)
    assert found.gap is not None
    assert (found.gap.amount, found.gap.share) == (quantity(gap), share)
    assert found.gap.size == quantity(gap.lstrip("-"))
    assert found.is_short is gap.startswith("-")


@pytest.mark.parametrize(
    ("requests", "low", "high", "is_outside"),
    [
        (["300m"], "300m", "300m", False),
        (["300m", "500m"], "300m", "500m", False),
        (["100m", "500m"], "100m", "500m", True),
        (["300m", "2"], "300m", "2", True),
        ([None, "300m"], None, "300m", True),
    ],
)
def test_requests_of_several_pods(
    requests: list[str | None], low: str | None, high: str, is_outside: bool
) -> None:
    """The smallest and the largest request are told, and whether one is out of bounds."""
    found = of_pods(*requests)
    assert (found.lowest, found.highest) == (low and quantity(low), quantity(high))
    assert found.is_outside is is_outside


def test_without_pods_the_template_is_told() -> None:
    """Before there is a pod its template tells what it would request; no sum is made of it."""
    recommended = make.recommendation_json(cpu="300m")
    workload = make.workload_json(containers=[make.container_json("app", cpu="100m")])
    (found,) = told(make.vpa_json(recommendations=[recommended]), workload)
    assert (found.pods, found.lowest, found.gap) == (0, quantity("100m"), None)
    assert not found.is_short
    assert not found.is_outside


def test_every_resource_of_every_container_in_order() -> None:
    """Containers come by name, cpu before memory before others."""
    target = {"memory": "1Gi", "cpu": "1", "example.com/gpu": "2"}
    vpa = make.vpa_json(
        recommendations=[
            {"containerName": "side", "target": {"cpu": "1m"}},
            {"containerName": "app", "target": target},
        ]
    )
    found = [(one.container, one.resource) for one in told(vpa)]
    assert found == [("app", "cpu"), ("app", "memory"), ("app", "example.com/gpu"), ("side", "cpu")]


@pytest.mark.parametrize(
    ("target", "uncapped", "by"),
    [
        ("300m", "1", "maxAllowed"),
        ("100m", "50m", "minAllowed"),
        ("200m", "200m", ""),
        ("200m", "199m", ""),
    ],
)
def test_what_capped_a_target(target: str, uncapped: str, by: str) -> None:
    """The field of the policy is named that the target equals, if it was another before."""
    policy = make.policy_json(min_allowed={"cpu": "100m"}, max_allowed={"cpu": "300m"})
    recommended = make.recommendation_json(cpu=target, uncapped={"cpu": uncapped})
    capped, free = (
        told(make.vpa_json(recommendations=[recommended], policies=policies))[0].capped_by
        for policies in ([policy], None)
    )
    assert (capped, free) == (by, "")


def test_history_tells_confidence_and_age() -> None:
    """The newest sign counts: of the condition, or of the checkpoint."""
    provided = {
        "type": "RecommendationProvided",
        "status": "True",
        "lastTransitionTime": make.time(timedelta(hours=5)),
    }
    history = LearnedHistory(720, make.NOW - timedelta(minutes=2), 0.5)
    vpa = make.vpa_json(cpu="300m", status={"conditions": [provided]})
    (plain,) = told(vpa)
    (known,) = told(vpa, learned={("default", "web", "app"): history})
    assert (plain.confidence, plain.samples, plain.as_of) == (
        None,
        None,
        make.NOW - timedelta(hours=5),
    )
    assert (known.confidence, known.samples, known.as_of) == (0.5, 720, history.updated)


@cases(
    "conditions problem",
    {
        "not looked at": ([], "no recommender has looked at it yet"),
        "no word": ([("RecommendationProvided", "False", "")], "nothing was learned yet"),
        "words": (
            [
                ("RecommendationProvided", "False", "no samples"),
                ("NoPodsMatched", "True", "no pods"),
            ],
            "no samples; no pods",
        ),
        "twice the same words": (
            [
                ("NoPodsMatched", "True", "No pods match this VPA object"),
                ("RecommendationProvided", "False", "No pods match this VPA object"),
            ],
            "No pods match this VPA object",
        ),
        "words that explain nothing": (
            [("RecommendationProvided", "True", "yes"), ("LowConfidence", "False", "no")],
            "nothing was learned yet",
        ),
    },
)
def test_why_nothing_is_recommended(conditions: list[tuple[str, str, str]], problem: str) -> None:
    """A VPA without a recommendation has a line too, and its conditions tell why."""
    told_conditions = [
        {"type": kind, "status": status, "message": message} for kind, status, message in conditions
    ]
    (found,) = told(make.vpa_json(target=None, status={"conditions": told_conditions}))
    assert (found.container, found.workload, found.problem) == ("", "", problem)


def test_a_comparison_as_json() -> None:
    """Amounts are exact and without sign; what is not known is left out."""
    plain = RequestComparison("default", "web", "Off", "StatefulSet/web", 0)
    short = RequestComparison(
        "default",
        "web",
        "Off",
        "StatefulSet/web",
        2,
        "app",
        "cpu",
        gap=Gap(make.quantity("-250m"), make.quantity("100m")),
        confidence=0.5,
        as_of=make.NOW,
    )
    assert comparison_json(plain) == {
        "namespace": "default",
        "vpa": "web",
        "mode": "Off",
        "workload": "StatefulSet/web",
        "pods": 0,
    }
    told = comparison_json(short)
    assert (told["shortage"], told["share"], told["confidence"]) == ("250m", 2.5, 0.5)
    assert told["asOf"] == "2026-01-05T10:00:00+00:00"


def test_a_vpa_as_json() -> None:
    """What it asks for and what its conditions say, whole or bare."""
    conditions = [{"type": "NoPodsMatched", "status": "True", "reason": "NoPodsMatched"}]
    whole = make.vpa_json(
        selector={"matchLabels": {"role": "leader"}},
        spec={"recommenders": [{"name": "mine"}]},
        status={"conditions": conditions},
    )
    told = vpa_json(read_vpa(whole))
    assert (told["selector"], told["recommenders"]) == ("role=leader", ["mine"])
    assert (told["workload"], told["conditions"]) == ("StatefulSet/web", conditions)
    bare = vpa_json(read_vpa(make.vpa_json(target=None, created=None)))
    assert bare.keys() == {"kind", "namespace", "name", "mode", "conditions"}


@cases(
    "status days",
    {
        "two days of samples each minute": ({}, 2.0),
        "few samples": ({"totalSamplesCount": 720}, 0.5),
        "a short time": ({"lastSampleStart": "2026-01-01T06:00:00Z"}, 0.25),
        "no sample": ({"totalSamplesCount": 0}, 0.0),
        "no time": ({"firstSampleStart": None, "lastSampleStart": None}, 0.0),
    },
)
def test_confidence(status: Json, days: float) -> None:
    """Confidence is days of history, by age or by number of samples, whichever is less."""
    found = histories([checkpoint_json(**status)])["default", "web", "app"]
    assert found.confidence == pytest.approx(days)


def test_count_and_time() -> None:
    """Samples are counted, and when they were written is told; a garbled checkpoint tells none."""
    found = histories([checkpoint_json(version="v2"), checkpoint_json()])
    assert list(found) == [("default", "web", "app")]
    (history,) = found.values()
    assert (history.samples, make.time(history.updated)) == (2880, "2026-01-03T00:01:00Z")
