"""A verdict can be told in full, step by step and without a gap."""

from __future__ import annotations

from datetime import timedelta

import orjson
from hypothesis import HealthCheck, given, settings

from app.admission.core.mutate import PodVerdict
from app.admission.core.pod_explanation import explain
from app.model.fields import Json
from tests import make
from tests.admission.core.worlds import World, worlds
from tests.cases import cases
from tests.sizing.shorthand import admit, advice, box, two, vpa_json

OFF = "the VPA is in mode Off"
NO_LIMIT = "the container has none"
RATIO = "keeps its ratio to the request"


def test_whole_story() -> None:
    """Everything that happened to a pod is told, and in its order."""
    pod = make.pod_json(box("app", "100m/100Mi", "150m/200Mi"))
    vpa = vpa_json(
        advice("app", "250m/200Mi"),
        boost=make.boost_json(factor=3),
        policies=[make.policy_json(max_allowed=two("150m/150Mi"))],
    )
    younger = make.vpa_json("younger", created=timedelta(days=1))
    off = make.vpa_json("boosts", mode="Off", boost={}, created=timedelta(days=99))
    found = admit(pod, vpa, younger, off, make.limit_range_json(most=two("300m/1Gi")))
    assert explain(found.verdict) == {
        "reason": "Sized",
        "message": "VPA v targets StatefulSet/web and comes before younger, boosts",
        "pod": "default/web-0",
        "owner": "StatefulSet/web",
        "vpa": {
            "name": "v",
            "mode": "Recreate",
            "created": "2025-12-06T10:00:00+00:00",
            "why": "it is the oldest active one",
            "weaker": [
                {
                    "name": "younger",
                    "mode": "Recreate",
                    "created": "2026-01-04T10:00:00+00:00",
                    "why": "it is younger",
                },
                {
                    "name": "boosts",
                    "mode": "Off",
                    "created": "2025-09-28T10:00:00+00:00",
                    "why": "it is in mode Off and would only boost",
                },
            ],
        },
        "containers": [
            {
                "name": "app",
                "cpu": {
                    "had": {"request": "100m", "limit": "150m"},
                    "recommended": "250m",
                    "caps": [
                        "capped to fit Max in container LimitRange: 200m",
                        "capped to maxAllowed: 150m",
                    ],
                    "boost": {
                        "from": "150m",
                        "wanted": "450m",
                        "to": "200m",
                        "heldBy": "the LimitRange for containers",
                    },
                    "gets": {"request": "200m", "limit": "300m"},
                    "aboutLimit": RATIO,
                },
                "memory": {
                    "had": {"request": "100Mi", "limit": "200Mi"},
                    "recommended": "200Mi",
                    "caps": ["capped to maxAllowed: 150Mi"],
                    "gets": {"request": "150Mi", "limit": "300Mi"},
                    "aboutLimit": RATIO,
                },
            }
        ],
    }


@cases(
    "vpas why",
    {
        "alone": ([make.vpa_json("a")], ["the only VPA that matches the pod"]),
        "as old": (
            [make.vpa_json("a"), make.vpa_json("b")],
            ["it is the oldest active one", "it is as old, and later by name"],
        ),
        "both in mode Off": (
            [make.vpa_json(name, mode="Off", boost={}) for name in "ab"],
            ["it is the oldest that boosts it", "it is as old, and later by name"],
        ),
    },
)
def test_choice(vpas: list[Json], why: list[str]) -> None:
    """It is told why this VPA and not another one controls the pod."""
    told = explain(admit(make.pod_json(), *vpas).verdict)["vpa"]
    assert [told["why"], *(other["why"] for other in told.get("weaker", ()))] == why


@cases(
    "vpa expected",
    {
        "off": (vpa_json(mode="Off", boost={}), OFF),
        "none yet": (vpa_json(), "the VPA has no recommendation yet"),
        "container off": (
            vpa_json(advice("app", "1"), policies=[make.policy_json(mode="Off")]),
            "the container's policy is in mode Off",
        ),
        "for others": (
            vpa_json(advice("other", "1")),
            "the VPA has no recommendation for this container",
        ),
        "there is one": (vpa_json(advice("app", "1")), None),
    },
)
def test_silence(vpa: Json, expected: str | None) -> None:
    """Where nothing is recommended or applied, it is told why."""
    (told,) = explain(admit(make.pod_json(), vpa).verdict)["containers"]
    assert told.get("recommendation") == expected


@cases(
    "most expected gets",
    {
        "it has to": (
            "1",
            "the VPA has no recommendation for this container, which makes room for others",
            {"request": "500m", "limit": "500m"},
        ),
        "not": (
            "9",
            "the VPA has no recommendation for this container, and the pod has room for it",
            None,
        ),
    },
)
def test_making_room(most: str, expected: str, gets: Json | None) -> None:
    """A container without a recommendation may still have to give way."""
    limits = make.limit_range_json(make.limits_json("Pod", most=two(most)))
    pod = make.pod_json(box("a", "1", "1"), box("b", "1", "1"))
    told = explain(admit(pod, vpa_json(advice("a", "1")), limits).verdict)["containers"][1]
    assert told["recommendation"] == expected
    assert told["cpu"].get("gets") == gets
    scaled = ["scaled to fit the LimitRange for pods: 500m"]
    assert told["cpu"].get("caps") == (scaled if gets else None)


@cases(
    "has boost gate most expected",
    {
        "y": ("1", {"factor": 2}, True, None, {"from": "1", "wanted": "2", "to": "2"}),
        "rise": ("1", {"factor": 1}, True, None, "refused: it would not raise the request"),
        "nothing": ("-", {"factor": 2}, True, None, "refused: the container asks for no cpu"),
        "more than nothing": (
            "-",
            {"quantity": "500m"},
            True,
            None,
            "refused: the container asks for no cpu",
        ),
        "type": ("1", {"kind": "X"}, True, None, "refused: its type is unknown"),
        "gate": ("1", {"factor": 2}, False, None, "refused: the feature gate is off"),
        "flag": (
            "1",
            {"factor": 2},
            True,
            "500m",
            "refused: --max-allowed-cpu-boost leaves no room",
        ),
    },
)
def test_boost(has: str, boost: Json, gate: bool, most: str | None, expected: object) -> None:
    """A boost is told with its base, and a refusal with its reason."""
    vpa = vpa_json(boost=make.boost_json(**boost))
    found = admit(make.pod_json(box("app", has)), vpa, gate=gate, most=most)
    (told,) = explain(found.verdict)["containers"]
    assert told["cpu"]["boost"] == expected


def test_boost_of_little() -> None:
    """Where a boost of what is recommended stays below the container's own request, that counts."""
    vpa = vpa_json(advice("app", "50m"), boost=make.boost_json(factor=2))
    (told,) = explain(admit(make.pod_json(box("app", "200m")), vpa).verdict)["containers"]
    assert told["cpu"]["boost"] == {
        "from": "50m",
        "wanted": "200m",
        "to": "200m",
        "atLeast": "200m, its own request",
    }


@cases(
    "has target policy expected",
    {
        "in proportion": ("1 2", "3", {}, RATIO),
        "equal": ("1 1", "3", {}, "equals the request"),
        "no request": ("- 1", "3", {}, "equals the request"),
        "no limit": ("1", "3", {}, NO_LIMIT),
        "a limit of zero": ("1 0", "3", {}, NO_LIMIT),
        "nothing": ("1 2", "0", {}, "left as it is: the request is zero"),
        "not controlled": (
            "1 2",
            "1",
            {"values": "RequestsOnly"},
            "left as it is: the policy does not control limits",
        ),
    },
)
def test_limit(has: str, target: str, policy: Json, expected: str) -> None:
    """It is told how a limit came about, or why there is none."""
    vpa = vpa_json(advice("app", target), policies=[make.policy_json(**policy)])
    (told,) = explain(admit(make.pod_json(box("app", *has.split())), vpa).verdict)["containers"]
    assert told["cpu"]["aboutLimit"] == expected


def test_usual_limit() -> None:
    """A limit that comes from a LimitRange is told as such."""
    limits = make.limit_range_json(default=two("2"))
    found = admit(make.pod_json(box("app", "1")), vpa_json(advice("app", "3")), limits)
    (told,) = explain(found.verdict)["containers"]
    assert told["cpu"]["aboutLimit"] == "follows from the usual one of the LimitRange"


def test_other_resources() -> None:
    """What is recommended beside cpu and memory is told too."""
    vpa = vpa_json({"containerName": "app", "target": {"gpu": "2"}})
    (told,) = explain(admit(make.pod_json(box("app")), vpa).verdict)["containers"]
    assert told == {
        "name": "app",
        "gpu": {
            "recommended": "2",
            "gets": {"request": "2"},
            "aboutLimit": "left as it is: only those of cpu and memory follow",
        },
    }


@cases(
    "pod expected",
    {
        "no owner": (
            make.pod_json(owner=None),
            {
                "reason": "NoController",
                "message": "no controller owns the pod",
                "pod": "default/web-0",
            },
        ),
        "not selected": (
            make.pod_json(labels={}, metadata={"name": None, "generateName": "web-"}),
            {
                "reason": "NoTargetSelectorMatch",
                "message": "the selector of StatefulSet/web does not match the pod",
                "pod": "default/web-%",
                "owner": "StatefulSet/web",
            },
        ),
        "not readable": (
            make.pod_json(spec={"containers": 7}),
            {
                "reason": "UnreadablePod",
                "message": "spec.containers: expected a list, found the number 7",
            },
        ),
    },
)
def test_untouched(pod: Json, expected: Json) -> None:
    """What is not controlled is told as far as it was looked at."""
    assert explain(admit(pod, vpa_json()).verdict) == expected


def test_unknown_age() -> None:
    """A VPA that does not tell its age is told without."""
    assert (
        explain(admit(make.pod_json(), make.vpa_json(created=None)).verdict)["vpa"]["created"]
        is None
    )


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(odd=True))
def test_everything_written_is_told(world: World) -> None:
    """Whatever the patch writes into a container, the story tells, and it is plain JSON."""
    verdict = world.admit()
    told = explain(verdict)
    assert orjson.loads(orjson.dumps(told)) == told
    assert written(told) == patched(verdict)


def written(told: Json) -> set[tuple[int, str, str, str]]:
    """Return index, kind, resource and amount of all that the story tells."""
    return {
        (index, word, resource, amount)
        for index, container in enumerate(told.get("containers", ()))
        for resource, story in container.items()
        if isinstance(story, dict)
        for word, amount in story.get("gets", {}).items()
    }


def patched(verdict: PodVerdict) -> set[tuple[int, str, str, str]]:
    """Return the same of all that the patch writes."""
    found = set()
    for operation in verdict.patch:
        parts = operation["path"].split("/")
        if parts[1] == "spec" and len(parts) == 7:
            resource = parts[6].replace("~1", "/").replace("~0", "~")
            found.add((int(parts[3]), parts[5].removesuffix("s"), resource, operation["value"]))
    return found


@cases(
    "metrics gets reason",
    {
        "one resource": (["cpu"], {"request": "200Mi"}, "Sized"),
        "all that is recommended": (["cpu", "memory"], None, "ScaledHorizontally"),
    },
)
def test_what_replicas_are_scaled_by(metrics: list[str], gets: Json | None, reason: str) -> None:
    """A resource that stays because an HPA scales by it says so; the others are sized."""
    hpa = make.hpa_json(*(make.metric_json(name, 70) for name in metrics))
    pod = make.pod_json(box("a", "100m/100Mi"))
    told = explain(admit(pod, vpa_json(advice("a", "250m/200Mi")), hpa).verdict)
    (container,) = told["containers"]
    held = "HorizontalPodAutoscaler/web adds replicas above 70% of the pod's cpu request"
    assert told["reason"] == reason
    assert container["cpu"]["held"] == held
    assert "gets" not in container["cpu"]
    assert container["memory"].get("gets") == gets
