"""Who is due, and what it goes back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.model.fields import Json
from app.model.pods import UNBOOST_KEY_PREFIX
from app.updater.core.decisions import Action, Decision, PodChange, Reason
from app.updater.core.memory import Pause
from app.updater.core.patching import returning_since
from app.updater.core.unboost import (
    NextLook,
    annotations_after_refusal,
    boost_ends,
    is_news,
    look_after_failure,
    look_after_refusal,
    next_look,
)
from tests import make
from tests.cases import cases
from tests.updater.core.boosts import (
    AT,
    BOOST,
    C1,
    C2,
    LIMITED,
    SECOND,
    TWO,
    UNBOOSTED,
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


@cases(
    "pod vpa expected",
    {
        "longer than it lasts": (boosted(since=120 * SECOND), {"boost": boost(60)}, ["app"]),
        "exactly as long as it lasts": (boosted(since=60 * SECOND), {"boost": boost(60)}, []),
        "a boost without a duration": (boosted(since=timedelta()), {"boost": boost()}, ["app"]),
        "not ready": (boosted(since=None), {"boost": boost()}, []),
        "policies of their own": (
            boosted(marks=TWO, since=120 * SECOND),
            {
                "policies": [
                    policy("c1", 180),
                    policy("c2", 60),
                ]
            },
            ["c2"],
        ),
        "the policy comes before the VPA": (
            boosted(marks={"c1": mark("1")}, since=240 * SECOND),
            {"boost": boost(300), "policies": [policy("c1", 180)]},
            ["c1"],
        ),
        "a policy without a duration ends at Ready, whatever the VPA says": (
            boosted(marks={"c1": mark("1")}, since=timedelta()),
            {"boost": boost(300), "policies": [policy("c1")]},
            ["c1"],
        ),
        "a policy that switches the boost off ends it at Ready": (
            boosted(marks={"c1": mark("1")}, since=timedelta()),
            {"boost": boost(300), "policies": [make.policy_json("c1", boost={})]},
            ["c1"],
        ),
        "boost removed": (boosted(), {}, ["app"]),
        "never boosted": (running(), {"boost": boost()}, []),
    },
)
def test_who_is_due(pod: Json, vpa: Mapping[str, Any], expected: list[str]) -> None:
    """A boost is over so long after Ready, as the VPA says now."""
    assert boost_ends(read(pod), make.vpa(**vpa), NOW).containers == set(expected)


def test_an_undated_ready_pod_is_due() -> None:
    """Without a time of Ready nobody waits for one."""
    pod = boosted()
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    vpa = make.vpa(boost=boost(300))
    assert boost_ends(read(pod), vpa, NOW).containers == {"app"}
    assert boost_ends(read(pod), vpa, NOW).until is None


def test_a_pod_that_gets_ready_tomorrow_is_due() -> None:
    """A time of Ready from a clock far ahead lets no boost last until then."""
    pod = read(boosted(since=timedelta(days=-1)))
    vpa = make.vpa(boost=boost(300))
    assert boost_ends(pod, vpa, NOW).containers == {"app"}
    assert boost_ends(pod, vpa, NOW).until is None
    soon = read(boosted(since=timedelta(seconds=-30)))
    assert boost_ends(soon, vpa, NOW).containers == set()


@pytest.mark.parametrize(
    ("duration", "expected"),
    [({"duration": "90s"}, 90), ({"duration_seconds": 7}, 7), ({"duration": "soon"}, 0), ({}, 0)],
)
def test_boost_lasts(duration: Mapping[str, Any], expected: int) -> None:
    """Both spellings of the duration count; one that cannot be read is none."""
    vpa = make.vpa(boost=make.boost_json(factor=2, **duration))
    assert vpa.boost_lasts("app") == expected * SECOND
    assert make.vpa(boost={}).boost_lasts("app") == timedelta()


@cases(
    "pod vpa expected",
    {
        "the first of two": (boosted(marks=TWO, since=timedelta()), {"policies": [C1, C2]}, 60),
        "the first is due already": (
            boosted(marks=TWO, since=90 * SECOND),
            {"policies": [C1, C2]},
            210,
        ),
        "the policy decides": (
            boosted(since=timedelta()),
            {"boost": boost(120), "policies": [policy("app", 200)]},
            200,
        ),
        "not ready": (boosted(since=None), {"boost": boost(60)}, 0),
        "no mark": (running(), {"boost": boost(60)}, 0),
        "all past": (boosted(since=600 * SECOND), {"boost": boost(60)}, 0),
        "in this very moment": (boosted(since=60 * SECOND), {"boost": boost(60)}, 0),
    },
)
def test_remaining(pod: Json, vpa: Mapping[str, Any], expected: float) -> None:
    """The shortest time until another container is due."""
    until = boost_ends(read(pod), make.vpa(**vpa), NOW).until
    assert ((until - NOW) // SECOND if until else 0) == expected


@cases(
    "pod arguments expected",
    {
        "mode Off": (boosted(), {"mode": "Off"}, {"app.requests.cpu": "100m"}),
        "mode InPlaceOrRecreate": (
            boosted(),
            {"mode": "InPlaceOrRecreate"},
            {"app.requests.cpu": "200m"},
        ),
        "mode Initial": (boosted(), {"mode": "Initial"}, {"app.requests.cpu": "200m"}),
        "more than in its boost": (
            boosted(container("app", "600m/100Mi")),
            {"mode": "Auto", "recommendation": [recommended("700m/100Mi = =")]},
            {"app.requests.cpu": "700m"},
        ),
        "no recommendation": (boosted(), {"advised": False}, {"app.requests.cpu": "100m"}),
        "a container that takes no part": (
            boosted(),
            {"policies": [make.policy_json("app", mode="Off")]},
            {"app.requests.cpu": "100m"},
        ),
        "no recommendation for cpu": (
            boosted(),
            {"recommendation": [recommended("-/300Mi")]},
            {"app.requests.cpu": "100m"},
        ),
        "a mark that cannot be read": (
            boosted(marks={"app": "garbage"}),
            {},
            {"app.requests.cpu": "200m"},
        ),
        "limit follows the original ratio": (
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "200m/100Mi")}),
            {},
            {"app.requests.cpu": "200m", "app.limits.cpu": "400m"},
        ),
        "limit goes back too": (
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "200m/100Mi")}),
            {"mode": "Off"},
            {"app.requests.cpu": "100m", "app.limits.cpu": "200m"},
        ),
        "RequestsOnly leaves the limit": (
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "600m/100Mi")}),
            {"policies": [make.policy_json("app", values="RequestsOnly")]},
            {"app.requests.cpu": "200m"},
        ),
        "unknown controlledValues leave the limit, as the boost did": (
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "600m/100Mi")}),
            {"policies": [make.policy_json("app", values="Sometimes")]},
            {"app.requests.cpu": "200m"},
        ),
    },
)
def test_what_it_goes_back_to(
    pod: Json, arguments: Mapping[str, Any], expected: Mapping[str, str]
) -> None:
    """The cpu of due containers, to the recommendation or to what it was."""
    found = scene(pod, **arguments).decision()
    assert (found.action, found.reason) == (Action.UNBOOST, Reason.BOOST_OVER)
    assert written(found) == expected
    assert annotated(found) == {
        "vpaInPlaceUpdated": "true",
        UNBOOST_KEY_PREFIX + "app": AT,
    }


HUGE = mark("64", "64")
FORGED = boosted(LIMITED, marks={"app": HUGE})
STOLEN = boosted(LIMITED, marks={"app": mark("1m", "64")})
OFF = {"mode": "Off"}


@cases(
    "pod arguments template expected",
    {
        "more than it has": (FORGED, OFF, "100m", {}),
        "in a policy that is off": (
            FORGED,
            {"policies": [make.policy_json("app", mode="Off")]},
            "100m",
            {},
        ),
        "no request to begin with": (
            boosted(container("app", "-/100Mi"), marks={"app": HUGE}),
            OFF,
            "100m",
            {},
        ),
        "more than the policy allows": (
            FORGED,
            OFF | {"policies": [make.policy_json("app", max_allowed=make.amounts("150m"))]},
            "100m",
            {"app.requests.cpu": "150m"},
        ),
        "more than it allows, which the template does as well": (
            boosted(LIMITED, marks={"app": mark("250m")}),
            OFF | {"policies": [make.policy_json("app", max_allowed=make.amounts("150m"))]},
            "250m",
            {"app.requests.cpu": "250m"},
        ),
        "more than it allows, beside an unknown template": (
            boosted(LIMITED, marks={"app": mark("250m")}),
            OFF | {"policies": [make.policy_json("app", max_allowed=make.amounts("150m"))]},
            "",
            {"app.requests.cpu": "250m"},
        ),
        "a ratio that nobody asked for": (
            STOLEN,
            {},
            "100m",
            {"app.requests.cpu": "200m"},
        ),
        "a ratio that nobody asked for, as the limit rises": (
            STOLEN,
            {"recommendation": [recommended("700m/100Mi = =")]},
            "100m 200m",
            {"app.requests.cpu": "700m", "app.limits.cpu": "1400m"},
        ),
        "a limit where there is none": (
            boosted(marks={"app": mark("1m", "64")}),
            {},
            "100m",
            {"app.requests.cpu": "200m"},
        ),
    },
)
def test_a_forged_mark_raises_nothing(
    pod: Json, arguments: Mapping[str, Any], template: str, expected: Mapping[str, str]
) -> None:
    """Whoever may write annotations gets no more cpu by them, request or limit."""
    request, _, limit = template.partition(" ")
    pods = [container("app" if template else "other", f"{request}/100Mi", limit or "-")]
    owner = make.workload_json(replicas=1, containers=pods)
    decision = replace(scene(pod, **arguments), owner=owner).decision()
    assert decision.action is Action.UNBOOST
    assert written(decision) == expected


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


@pytest.mark.parametrize(
    "text", ["", "{nonsense", "[]", '{"requests":{"cpu":"much"}}', '{"requests":7}']
)
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
        UNBOOST_KEY_PREFIX + "c1": AT,
        BOOST + "c2": None,
    }


def test_what_is_still_written_after_a_refusal() -> None:
    """Since when it is tried, so that nobody evicts the pod after a restart of ours."""
    found = scene(boosted()).decision()
    assert found.change is not None
    assert annotations_after_refusal(found.change) == PodChange(
        (), ((UNBOOST_KEY_PREFIX + "app", AT),)
    )


def test_a_refusal_takes_no_mark_away() -> None:
    """What a resize would have ended goes on."""
    change = PodChange((), ((BOOST + "app", None), (UNBOOST_KEY_PREFIX + "app", None)))
    assert annotations_after_refusal(change) == PodChange()


def test_since_when() -> None:
    """The oldest readable mark counts."""
    more = {
        UNBOOST_KEY_PREFIX + "a": make.time(MINUTE) or "",
        UNBOOST_KEY_PREFIX + "b": AT,
        UNBOOST_KEY_PREFIX + "c": "garbage",
    }
    assert returning_since(read(boosted(more=more)), NOW) == NOW - MINUTE
    assert returning_since(read(boosted()), NOW) is None


SOON = NextLook(SECOND / 10, 1)


def look(found: Decision | None, failed: int = 0) -> NextLook | None:
    """Return when the next look is."""
    return next_look(found, failed, NOW)


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
    pauses = [look_after_failure(failed).pause / SECOND for failed in range(4)]
    assert pauses == [0.1, 0.2, 0.4, 0.8]
    assert look_after_failure(100) == (30 * SECOND, 101)


def test_a_refused_end_rests_as_long_as_its_pause() -> None:
    """No look comes before the pause is over; without a pause the looks double their own."""
    pause = Pause(Reason.RESIZE_ERROR, "refused: no", 3, NOW + MINUTE)
    assert look_after_refusal(pause, 5, NOW) == (MINUTE, 0)
    assert look_after_refusal(None, 1, NOW) == look_after_failure(1)


def test_what_starts_the_pauses_again() -> None:
    """A change of readiness or of the resize, and nothing else."""
    pod = boosted()
    assert is_news(read(pod), read(boosted(since=3 * SECOND)))
    assert is_news(read(pod), read(boosted(conditions=[resize_condition("InProgress")])))
    assert not is_news(read(pod), read(boosted(more={"seen": "yes"})))
