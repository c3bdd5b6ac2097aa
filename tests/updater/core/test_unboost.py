"""Who is due, and what it goes back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.updater.core.decisions import Action, Decision, PodChange, Reason
from app.updater.core.patching import UNBOOST_PENDING_ANNOTATION, pending_since
from app.updater.core.unboost import (
    NextLook,
    after_refusal,
    boost_lasts,
    is_news,
    look_after_failure,
    next_look,
    unboost_due,
)
from tests import make
from tests.updater.core.boosts import (
    AT,
    BOOST,
    C1,
    C2,
    LIMITED,
    SECOND,
    TWO,
    UNBOOSTED,
    Json,
    boost,
    boosted,
    mark,
    policy,
    scene,
)
from tests.updater.core.scenes import (
    MINUTE,
    NOW,
    annotated,
    container,
    killed,
    read,
    recommended,
    resize_condition,
    running,
    written,
)


@pytest.mark.parametrize(
    ("pod", "vpa", "expected"),
    [
        pytest.param(
            boosted(since=120 * SECOND), {"boost": boost(60)}, ["app"], id="longer than it lasts"
        ),
        pytest.param(
            boosted(since=60 * SECOND), {"boost": boost(60)}, [], id="exactly as long as it lasts"
        ),
        pytest.param(
            boosted(since=timedelta()), {"boost": boost()}, ["app"], id="a boost without a duration"
        ),
        pytest.param(boosted(since=None), {"boost": boost()}, [], id="not ready"),
        pytest.param(
            boosted(marks=TWO, since=120 * SECOND),
            {
                "policies": [
                    policy("c1", 180),
                    policy("c2", 60),
                ]
            },
            ["c2"],
            id="policies of their own",
        ),
        pytest.param(
            boosted(marks={"c1": mark("1")}, since=240 * SECOND),
            {"boost": boost(300), "policies": [policy("c1", 180)]},
            ["c1"],
            id="the policy comes before the VPA",
        ),
        pytest.param(
            boosted(marks={"c1": mark("1")}, since=240 * SECOND),
            {"boost": boost(300), "policies": [policy("c1")]},
            [],
            id="a policy without a duration leaves it to the VPA",
        ),
        pytest.param(boosted(), {}, ["app"], id="boost removed"),
        pytest.param(running(), {"boost": boost()}, [], id="never boosted"),
    ],
)
def test_who_is_due(pod: Json, vpa: Mapping[str, Any], expected: list[str]) -> None:
    """A boost is over so long after Ready, as the VPA says now."""
    assert unboost_due(read(pod), make.vpa(**vpa), NOW).containers == set(expected)


def test_an_undated_ready_pod_is_due() -> None:
    """Without a time of Ready nobody waits for one."""
    pod = boosted()
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    vpa = make.vpa(boost=boost(300))
    assert unboost_due(read(pod), vpa, NOW).containers == {"app"}
    assert unboost_due(read(pod), vpa, NOW).until is None


def test_a_pod_that_gets_ready_tomorrow_is_due() -> None:
    """A time of Ready from a clock far ahead lets no boost last until then."""
    pod = read(boosted(since=timedelta(days=-1)))
    vpa = make.vpa(boost=boost(300))
    assert unboost_due(pod, vpa, NOW).containers == {"app"}
    assert unboost_due(pod, vpa, NOW).until is None
    soon = read(boosted(since=timedelta(seconds=-30)))
    assert unboost_due(soon, vpa, NOW).containers == set()


@pytest.mark.parametrize(
    ("duration", "expected"),
    [({"duration": "90s"}, 90), ({"duration_seconds": 7}, 7), ({"duration": "soon"}, 0), ({}, 0)],
)
def test_boost_lasts(duration: Mapping[str, Any], expected: int) -> None:
    """Both spellings of the duration count; one that cannot be read is none."""
    vpa = make.vpa(boost=make.boost_json(factor=2, **duration))
    assert boost_lasts(vpa, "app") == expected * SECOND
    assert boost_lasts(make.vpa(boost={}), "app") == timedelta()


@pytest.mark.parametrize(
    ("pod", "vpa", "expected"),
    [
        pytest.param(
            boosted(marks=TWO, since=timedelta()), {"policies": [C1, C2]}, 60, id="the first of two"
        ),
        pytest.param(
            boosted(marks=TWO, since=90 * SECOND),
            {"policies": [C1, C2]},
            210,
            id="the first is due already",
        ),
        pytest.param(
            boosted(since=timedelta()),
            {"boost": boost(120), "policies": [policy("app", 200)]},
            200,
            id="the policy decides",
        ),
        pytest.param(boosted(since=None), {"boost": boost(60)}, 0, id="not ready"),
        pytest.param(running(), {"boost": boost(60)}, 0, id="no mark"),
        pytest.param(boosted(since=600 * SECOND), {"boost": boost(60)}, 0, id="all past"),
        pytest.param(boosted(since=60 * SECOND), {"boost": boost(60)}, 0, id="in this very moment"),
    ],
)
def test_remaining(pod: Json, vpa: Mapping[str, Any], expected: float) -> None:
    """The shortest time until another container is due."""
    until = unboost_due(read(pod), make.vpa(**vpa), NOW).until
    assert ((until - NOW) // SECOND if until else 0) == expected


CPU_SIZES = ("app.requests.cpu", "app.limits.cpu")


@pytest.mark.parametrize(
    ("pod", "arguments", "expected"),
    [
        pytest.param(boosted(), {"mode": "Off"}, "100m", id="mode Off"),
        pytest.param(boosted(), {"mode": "InPlaceOrRecreate"}, "200m", id="mode InPlaceOrRecreate"),
        pytest.param(boosted(), {"mode": "Initial"}, "200m", id="mode Initial"),
        pytest.param(
            boosted(container("app", "600m/100Mi")),
            {"mode": "Auto", "recommendation": [recommended("700m/100Mi = =")]},
            "700m",
            id="more than in its boost",
        ),
        pytest.param(boosted(), {"advised": False}, "100m", id="no recommendation"),
        pytest.param(
            boosted(),
            {"policies": [make.policy_json("app", mode="Off")]},
            "100m",
            id="a container that takes no part",
        ),
        pytest.param(
            boosted(),
            {"recommendation": [recommended("-/300Mi")]},
            "100m",
            id="no recommendation for cpu",
        ),
        pytest.param(
            boosted(marks={"app": "garbage"}), {}, "200m", id="a mark that cannot be read"
        ),
        pytest.param(
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "200m/100Mi")}),
            {},
            "200m 400m",
            id="limit follows the original ratio",
        ),
        pytest.param(
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "200m/100Mi")}),
            {"mode": "Off"},
            "100m 200m",
            id="limit goes back too",
        ),
        pytest.param(
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "600m/100Mi")}),
            {"policies": [make.policy_json("app", values="RequestsOnly")]},
            "200m",
            id="RequestsOnly leaves the limit",
        ),
        pytest.param(
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "600m/100Mi")}),
            {"policies": [make.policy_json("app", values="Sometimes")]},
            "200m",
            id="unknown controlledValues leave the limit, as the boost did",
        ),
    ],
)
def test_what_it_goes_back_to(pod: Json, arguments: Mapping[str, Any], expected: str) -> None:
    """The cpu of due containers, request and limit, to the recommendation or to what it was."""
    found = scene(pod, **arguments).decision()
    assert (found.action, found.reason) == (Action.UNBOOST, Reason.UPDATED)
    assert written(found) == dict(zip(CPU_SIZES, expected.split(), strict=False))
    assert annotated(found) == {
        "vpaInPlaceUpdated": "true",
        UNBOOST_PENDING_ANNOTATION + "app": AT,
    }


def test_a_usual_limit_of_the_namespace_follows() -> None:
    """A limit that a LimitRange gave is scaled like any other."""
    limits = make.limit_range_json(default=make.amounts("1"))
    pod = boosted(container("app", "300m/100Mi", "3"), marks={"app": mark("100m/100Mi", "1")})
    found = scene(pod, others=[limits]).decision()
    assert written(found) == {"app.requests.cpu": "200m", "app.limits.cpu": "2"}


def test_only_due_containers_go_back() -> None:
    """Another container that is still boosted keeps what it has."""
    pod = boosted(
        container("c1", "300m/1Gi"), container("c2", "300m/1Gi"), marks=TWO, since=120 * SECOND
    )
    found = scene(
        pod,
        recommendation=[recommended("200m/1Gi = =", name) for name in ("c1", "c2")],
        policies=[C1, C2],
    ).decision()
    assert written(found) == {"c1.requests.cpu": "200m"}


@pytest.mark.parametrize("text", ["", "{nonsense"])
def test_a_mark_that_cannot_be_read(text: str) -> None:
    """The template tells what it was; without one the pod is left as it is, and unmarked."""
    pod = boosted(marks={"app": text})
    owner = make.workload_json(replicas=1, containers=[container("app", "50m")])
    told = replace(scene(pod, mode="Off"), owner=owner).decision()
    assert written(told) == {"app.requests.cpu": "50m"}
    left = scene(pod, mode="Off").decision()
    assert left.message == "nothing tells what app had before the boost; left as it is"
    assert left.change == PodChange((), ((BOOST + "app", None),))


def test_what_is_lost_does_not_hold_up_the_others() -> None:
    """One unreadable mark is dropped while another container goes back."""
    pod = boosted(container("c1", "300m"), container("c2", "300m"), marks=TWO | {"c2": "garbage"})
    found = scene(pod, mode="Off").decision()
    assert written(found) == {"c1.requests.cpu": "100m"}
    assert annotated(found) == {
        "vpaInPlaceUpdated": "true",
        UNBOOST_PENDING_ANNOTATION + "c1": AT,
        BOOST + "c2": None,
    }


def test_what_is_still_written_after_a_refusal() -> None:
    """Since when it is tried, so that nobody evicts the pod after a restart of ours."""
    found = scene(boosted()).decision()
    assert found.change is not None
    assert after_refusal(found.change) == PodChange((), ((UNBOOST_PENDING_ANNOTATION + "app", AT),))


def test_a_refusal_takes_no_mark_away() -> None:
    """What a resize would have ended goes on."""
    change = PodChange((), ((BOOST + "app", None), (UNBOOST_PENDING_ANNOTATION + "app", None)))
    assert after_refusal(change) == PodChange()


def test_since_when() -> None:
    """The oldest readable mark counts."""
    more = {
        UNBOOST_PENDING_ANNOTATION + "a": make.time(MINUTE) or "",
        UNBOOST_PENDING_ANNOTATION + "b": AT,
        UNBOOST_PENDING_ANNOTATION + "c": "garbage",
    }
    assert pending_since(read(boosted(more=more)), NOW) == NOW - MINUTE
    assert pending_since(read(boosted()), NOW) is None


SOON = NextLook(SECOND / 10, 1)


def look(found: Decision | None, count: int = 0) -> NextLook | None:
    """Return when the next look is."""
    return next_look(found, count, NOW)


@pytest.mark.parametrize("pod", [boosted(since=90 * SECOND), killed(boosted(since=90 * SECOND))])
def test_a_pod_is_looked_at_again_when_its_boost_is_over(pod: Json) -> None:
    """With pauses that begin again, also if the pod is about to be updated for another reason."""
    again = look(scene(pod, startup=boost(300)).decision(), 3)
    assert again is not None
    assert (again.failed, again.pause // SECOND) == (0, 210)


def test_what_is_due_or_not_ready_is_looked_at_soon() -> None:
    """The end of a boost may fail, and the time of one that is not ready is not known."""
    due = scene(boosted()).decision()
    assert ((due.action, due.reason), look(due)) == (UNBOOSTED, SOON)
    assert look(scene(boosted(since=None)).decision()) == SOON


def test_without_a_vpa_a_few_looks_are_enough() -> None:
    """At 0, 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 seconds, then it is dropped."""
    for unmatched in (None, replace(scene(boosted()).decision(), vpa="")):
        moment, moments, found = timedelta(), list[float](), NextLook(timedelta(), 0)
        while (again := look(unmatched, found.failed)) is not None:
            moments.append(moment / SECOND)
            moment, found = moment + again.pause, again
        assert [*moments, moment / SECOND] == [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3]


def test_pauses_double() -> None:
    """From 100 ms to half a minute."""
    pauses = [look_after_failure(count).pause / SECOND for count in range(4)]
    assert pauses == [0.1, 0.2, 0.4, 0.8]
    assert look_after_failure(100) == (30 * SECOND, 101)


def test_what_starts_the_pauses_again() -> None:
    """A change of readiness or of the resize, and nothing else."""
    pod = boosted()
    assert is_news(read(pod), read(boosted(since=3 * SECOND)))
    assert is_news(read(pod), read(boosted(conditions=[resize_condition("InProgress")])))
    assert not is_news(read(pod), read(boosted(more={"seen": "yes"})))
