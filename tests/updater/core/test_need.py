"""Whether a pod needs an update, and who comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from app.model.fields import Json
from app.model.gates import FeatureGates
from app.model.quantity import Quantity
from app.model.vpa import EvictionRequirement
from app.updater.core.decisions import NEEDS, Action, Pair, Reason
from app.updater.core.need import (
    Deviation,
    NeedCheck,
    QuickOom,
    Rank,
    check_need,
    latest_quick_oom,
    no_need,
    rank,
    requirement_text,
)
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES, NO_GATES
from tests.updater.core.scenes import (
    HOUR,
    MINUTE,
    NOW,
    OURS,
    Scene,
    container,
    killed,
    read,
    recommended,
    running,
    several,
    with_status,
)

OOM = QuickOom("app", NOW + timedelta(minutes=10))


def needed(
    difference: float,
    rules: UpdateRules,
    *,
    outside: bool = False,
    age: timedelta | None = 11 * HOUR,
    oom: QuickOom | None = None,
) -> NeedCheck:
    """Return whether a pod of some age needs an update."""
    since = None if age is None else NOW - age
    has = Quantity.parse("100m")
    target = Quantity(round(has.nano * (1 + difference)))
    lower = Quantity(has.nano + 1) if outside else None
    pair = Pair("app", "cpu", has, target, lower, None, is_controlled=True)
    deviation = Deviation(difference, outside, (pair,))
    quiet = no_need(deviation, rules) if oom is None else None
    return quiet or check_need(deviation, oom, since, rules, NOW)


HALF = replace(OURS, update_threshold=0.5)


@cases(
    "found reason",
    {
        "too small": (needed(0.25, HALF, age=13 * HOUR), Reason.TOO_SMALL),
        "far off and old": (needed(4.0, HALF, age=13 * HOUR), Reason.OUTDATED),
        "outside of its bounds": (needed(0.25, HALF, outside=True), Reason.OUTSIDE_BOUNDS),
        "far off but young": (needed(0.9, HALF), Reason.TOO_YOUNG),
        "exactly old enough and far enough off": (
            needed(0.10, OURS, age=12 * HOUR),
            Reason.OUTDATED,
        ),
        "old enough and far enough off": (needed(0.12, OURS, age=13 * HOUR), Reason.OUTDATED),
        "killed, though the difference is small": (
            needed(0.25, HALF, oom=OOM),
            Reason.OOM_KILLED,
        ),
        "killed, and nothing to change": (needed(0.0, OURS, oom=OOM), Reason.NO_CHANGE),
        "killed, and a permille to change": (needed(0.001, OURS, oom=OOM), Reason.NO_CHANGE),
        "nothing to change": (needed(0.0, HALF), Reason.NO_CHANGE),
        "small and young": (needed(0.25, HALF), Reason.TOO_SMALL),
        "no time of its start": (needed(1.0, OURS, age=None), Reason.NO_START_TIME),
        "outside of its bounds, and nothing to change": (
            needed(0.0, OURS, outside=True),
            Reason.NO_CHANGE,
        ),
        "outside of its bounds, and a permille to change": (
            needed(0.001, OURS, outside=True),
            Reason.NO_CHANGE,
        ),
        "one percent": (needed(0.01, OURS, outside=True), Reason.OUTSIDE_BOUNDS),
        "killed, though young": (needed(1.0, OURS, age=HOUR, oom=OOM), Reason.OOM_KILLED),
    },
)
def test_what_needs_an_update(found: NeedCheck, reason: Reason) -> None:
    """Gates open and close where upstream's do, but never for nothing."""
    assert found.reason is reason
    quiet = (Reason.NO_CHANGE, Reason.TOO_SMALL, Reason.TOO_YOUNG, Reason.NO_START_TIME)
    assert found.is_needed == (reason not in quiet)


def test_until_tells_when_age_is_enough() -> None:
    """A young pod is looked at again when it is old enough, and not before."""
    found = needed(0.9, OURS, age=11 * HOUR)
    assert found.until == NOW + HOUR
    assert found.message.endswith("from 2026-01-05T11:00:00Z on")


def priority(
    difference: float,
    *,
    up: bool = True,
    outside: bool = False,
    oom: bool = False,
    age: datetime | timedelta | None = timedelta(days=1),
    name: str = "web-0",
) -> Rank:
    """Return what sorts a pod."""
    pod = make.pod(name=name, created=age)
    return rank(pod, Deviation(difference, outside), is_up=up, is_quick_oom=oom)


def differences(found: list[Rank]) -> list[float]:
    """Return the differences in order."""
    return [-difference for _, difference, *_ in sorted(found)]


def test_order() -> None:
    """Larger differences come first, and what has to grow before what may shrink."""
    assert differences([priority(found) for found in (4.0, 1.5, 9.0, 2.33)]) == [
        9.0,
        4.0,
        2.33,
        1.5,
    ]
    mixed = [priority(0.25), priority(0.26, up=False), priority(0.5, up=False)]
    assert differences(mixed) == [0.25, 0.5, 0.26]
    assert differences([priority(50, up=False), priority(0.1)]) == [0.1, 50]


def test_urgent_ones_come_first() -> None:
    """Want of memory comes before what is far too small, and that before the rest."""
    found = [
        priority(9.0),
        priority(0.3, outside=True),
        priority(0.2, up=False, oom=True),
        priority(70, up=False, outside=True),
    ]
    assert differences(found) == [0.2, 0.3, 9.0, 70]


def test_ties_are_broken_by_age_then_name() -> None:
    """Equal needs: the older pod first, then by name; an unknown age is the oldest."""
    old, young, unknown = timedelta(days=2), timedelta(days=1), None
    found = [
        priority(1.0, age=young, name="a"),
        priority(1.0, age=old, name="c"),
        priority(1.0, age=old, name="b"),
        priority(1.0, age=unknown, name="d"),
    ]
    assert [name for *_, name in sorted(found)] == ["d", "b", "c", "a"]


HIGHER, LOWER = "TargetHigherThanRequests", "TargetLowerThanRequests"
APP = container("app", "500m/10Gi")


def require(text: str) -> list[Json]:
    """Read requirements such as `cpu,memory H; cpu L`."""
    requirements = []
    for part in text.split("; "):
        resources, _, change = part.partition(" ")
        names = resources.split(",") if resources else []
        change = {"H": HIGHER, "L": LOWER}.get(change, change)
        requirements.append({"resources": names, "changeRequirement": change})
    return requirements


def admits(
    requirements: Sequence[Json] | None,
    recommendations: Mapping[str, str],
    containers: Sequence[Json] = (APP,),
    *,
    policies: Sequence[Json] | None = None,
    others: Sequence[Json] = (),
) -> bool:
    """Whether requirements let a pod go that is far outside of its bounds."""
    policy = {} if requirements is None else {"evictionRequirements": list(requirements)}
    scene = Scene(
        several(running(*containers), 3),
        [recommended(text, name) for name, text in recommendations.items()],
        vpa={"spec": {"updatePolicy": {"updateMode": "Recreate"} | policy}, "policies": policies},
        others=others,
    )
    action, reason = scene.told()
    assert reason in (*NEEDS, Reason.REQUIREMENT_NOT_MET)
    return action is Action.EVICT


B = " 1m/1Mi 2m/2Mi"  # bounds that every pod of these cases is above


@cases(
    "requirements recommendations requests expected",
    {
        "none": (None, "600m/10Gi", "500m/10Gi", True),
        "empty": ("", "600m/10Gi", "500m/10Gi", True),
        "more cpu is wanted and asked for": ("cpu H", "600m/10Gi", "500m/10Gi", True),
        "less cpu is wanted and asked for": ("cpu L", "400m/10Gi", "500m/10Gi", True),
        "one of two resources is enough": ("cpu,memory H", "500m/11Gi", "500m/10Gi", True),
        "less memory is wanted": ("memory L", "500m/9Gi", "500m/10Gi", True),
        "neither of two resources grows": ("cpu,memory H", "500m/9Gi", "500m/10Gi", False),
        "two requirements are met": ("cpu H; memory L", "600m/9Gi", "500m/10Gi", True),
        "more cpu is no less cpu": ("cpu L", "1000m/9Gi", "500m/10Gi", False),
        "one of two requirements is unmet": ("cpu H; memory H", "600m/9Gi", "500m/10Gi", False),
        "one of two containers is enough": (
            "cpu H",
            "200m/10Gi + 700m/10Gi",
            "500m/10Gi + 500m/10Gi",
            True,
        ),
        "no container grows": ("cpu H", "200m/10Gi + 300m/10Gi", "500m/10Gi + 500m/10Gi", False),
        "only the other container has a target": (
            "cpu H",
            " + 300m/10Gi",
            "500m/10Gi + 500m/10Gi",
            False,
        ),
        "containers meet different requirements": (
            "cpu H; memory L",
            "600m/10Gi + 500m/9Gi",
            "500m/10Gi + 500m/10Gi",
            True,
        ),
        "containers meet opposite requirements": (
            "cpu H; cpu L",
            "600m/10Gi + 400m/10Gi",
            "500m/10Gi + 500m/10Gi",
            True,
        ),
        "less cpu is no more cpu": ("cpu H", "400m", "500m", False),
        "a resource without a target": ("memory L", "600m", "500m/10Gi", False),
        "no request counts as nothing": ("cpu,memory H", "600m/1Gi", "-", True),
        "a requirement without resources": (" H", "600m/10Gi", "500m/10Gi", False),
        "unknown word": ("cpu Sideways", "600m/10Gi", "500m/10Gi", False),
        "capitals": ("CPU H", "600m/10Gi", "500m/10Gi", True),
        "what is not requested cannot fall": ("cpu L", "600m/1Gi", "-/2Gi", False),
    },
)
def test_what_meets_requirements(
    requirements: str | None, recommendations: str, requests: str, expected: bool
) -> None:
    """Each requirement has to be met by some container that the VPA controls."""
    targets = zip(("app", "b"), recommendations.split(" + "), strict=False)
    far = {name: text + B for name, text in targets if text}
    has = zip(("app", "b"), requests.split(" + "), strict=False)
    found = None if requirements is None else require(requirements) if requirements else []
    assert admits(found, far, [container(name, text) for name, text in has]) == expected


def test_equal_never_meets() -> None:
    """What stays the same is neither higher nor lower."""
    far = {"app": "500m/10Gi", "b": "1m/10Gi"}
    containers = (APP, container("b", "1m/20Gi"))
    assert not admits(require("cpu,memory H"), far, containers)


def test_containers_without_a_recommendation_do_not_count() -> None:
    """A container that only makes room for others has no recommendation to compare."""
    limits = make.limit_range_json(make.limits_json("Pod", most=make.amounts("10", "90Gi")))
    containers = (APP, container("x", "500m/10Gi"))
    assert not admits(
        require("cpu H"),
        {"app": "400m/10Gi" + B},
        containers,
        policies=[make.policy_json("x", mode="Off")],
        others=[limits],
    )


def test_words_for_people() -> None:
    """A requirement is told as it is written."""
    assert (
        requirement_text(EvictionRequirement(("cpu", "memory"), LOWER))
        == f"{LOWER} of cpu or memory"
    )
    assert requirement_text(EvictionRequirement((), LOWER)) == f"{LOWER} of nothing"


DAY = timedelta(days=1)
POD = running(container("app", "1/1Gi"))
OFF = {"policies": [make.policy_json("app", mode="Off")]}
ALL_OFF = {"policies": [make.policy_json("*", mode="Off")]}
HELD: dict[str, Any] = {"spec": {"updatePolicy": {"evictAfterOOMSeconds": 600}}}
SHORT: dict[str, Any] = {"spec": {"updatePolicy": {"evictAfterOOMSeconds": 1}}}


def counts(
    pod: Json,
    vpa: Mapping[str, Any] | None = None,
    *,
    gates: FeatureGates = ALL_GATES,
) -> bool:
    """Whether a kill of the pod counts now."""
    return latest_quick_oom(read(pod), make.vpa(**(vpa or {})), OURS, gates, NOW) is not None


def observed(names: str) -> Json:
    """Return a pod of which the webhook saw some containers."""
    return running(container("app", "1/1Gi"), annotations={"vpaObservedContainers": names})


SECONDS = timedelta(seconds=5)


@cases(
    "pod vpa expected",
    {
        "killed two minutes after its start": (killed(POD), {}, True),
        "killed late": (killed(POD, lived=57 * MINUTE), {}, False),
        "killed at the threshold": (killed(POD, lived=10 * MINUTE), {}, False),
        "a container that takes no part": (killed(POD), OFF, False),
        "by *": (killed(POD), ALL_OFF, False),
        "a container that the webhook did not see": (killed(observed("b")), {}, False),
        "observed": (killed(observed("app")), {}, True),
        "earlier than its VPA says": (killed(POD, lived=SECONDS), HELD, True),
        "later than its VPA says": (killed(POD, lived=SECONDS), SHORT, False),
        "killed ten days ago": (killed(POD, ago=10 * DAY), {}, False),
        "killed ten minutes ago": (killed(POD, ago=10 * MINUTE), {}, False),
        "just in time": (killed(POD, ago=10 * MINUTE - SECONDS), {}, True),
        "another end": (killed(POD, reason="Error"), {}, False),
        "no end": (POD, {}, False),
        "no times": (
            with_status(POD, "app", lastState={"terminated": {"reason": "OOMKilled"}}),
            {},
            False,
        ),
    },
)
def test_which_kills_count(pod: Json, vpa: Mapping[str, Any], expected: bool) -> None:
    """A kill counts if it was early in the container's life and not long ago."""
    assert counts(pod, vpa) == expected


def test_a_threshold_of_a_vpa_needs_a_gate() -> None:
    """Without it the flag decides."""
    assert counts(killed(POD, lived=SECONDS), SHORT, gates=NO_GATES)


def test_a_short_threshold_does_not_forget_at_once() -> None:
    """How early a kill must come says nothing about how long it is remembered."""
    pod = killed(POD, lived=timedelta(milliseconds=500), ago=5 * MINUTE)
    assert counts(pod, SHORT)


def test_the_present_end_counts_during_a_back_off() -> None:
    """While a container waits for its next start, its last end is its present state."""
    pod = killed(POD, where="state")
    assert counts(pod)


def marked(*, raised: timedelta, container_name: str = "app", **more: str) -> Json:
    """Return a pod killed five minutes ago; some container got more memory so long ago."""
    at = make.time(raised) or ""
    marks = {f"vpaMemoryRaisedAt/{container_name}": at, "vpaInPlaceUpdatedAt": at}
    pod = running(container("app", "1/1Gi", "-/1Gi"), container("b", "1/1Gi"), annotations=marks)
    pod = killed(pod, ago=5 * MINUTE)
    return with_status(pod, "app", resources={"requests": {"memory": "1Gi"} | more})


@cases(
    "pod expected",
    {
        "more memory since": (marked(raised=MINUTE), False),
        "more memory before": (marked(raised=6 * MINUTE), True),
        "another container": (marked(raised=MINUTE, container_name="b"), True),
        "asked for, not given yet": (marked(raised=MINUTE, memory="512Mi"), True),
        "a mark from the future": (marked(raised=-DAY), True),
        "a resize without memory": (
            killed(
                running(
                    container("app", "1/1Gi"),
                    annotations={"vpaInPlaceUpdatedAt": "2026-01-05T09:59:00Z"},
                ),
                ago=5 * MINUTE,
            ),
            True,
        ),
        "a kill from the future": (killed(POD, ago=-DAY), False),
    },
)
def test_a_kill_is_answered_by_more_memory_alone(pod: Json, expected: bool) -> None:
    """Only what gave that container more memory after the kill keeps it from counting again."""
    assert counts(pod) is expected


def test_a_status_of_no_container() -> None:
    """A status that tells no resources, or of a container that is gone, is taken as it is."""
    pod = marked(raised=MINUTE)
    assert not counts(with_status(pod, "app", resources=None))
    other = marked(raised=MINUTE)
    other["spec"] = other["spec"] | {"containers": other["spec"]["containers"][1:]}
    assert not counts(other)


def test_the_latest_kill_decides() -> None:
    """Of several containers the one that was killed last counts longest."""
    pod = running(container("app", "1/1Gi"), container("b", "1/1Gi"), container("c", "1/1Gi"))
    for name, minutes in (("app", 3), ("b", 1), ("c", 2)):
        pod = killed(pod, ago=minutes * MINUTE, container_name=name)
    found = latest_quick_oom(read(pod), make.vpa(), OURS, NO_GATES, NOW)
    assert found is not None
    assert (found.container, found.until) == ("b", NOW + 9 * MINUTE)
