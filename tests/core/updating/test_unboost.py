"""The end of a start-up boost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.core.updating.decisions import Action, Decision, PodChange, Reason
from app.core.updating.failures import Pause
from app.core.updating.memory import Memory, PodMemory, Resized
from app.core.updating.patching import annotation_patch, resize_patch
from app.core.updating.plan import Around
from app.core.updating.rules import UpdateRules
from app.core.updating.unboost import (
    MARK,
    after_refusal,
    boost_lasts,
    due_containers,
    next_due,
    original_resources,
    pending_since,
    remaining,
)
from app.model.gates import NO_GATES
from app.model.pods import Resources
from tests import make
from tests.core.updating.scenes import (
    NOW,
    UNPROVEN,
    UPSTREAM,
    Scene,
    amounts,
    container,
    killed,
    pending,
    read,
    recommended,
    resize_condition,
    running,
    several,
    with_status,
    with_switches,
)

Json = make.Json
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
BOOST = "vpaCpuStartupBoost/"
both = pytest.mark.parametrize("rules", [UNPROVEN, UPSTREAM], ids=["ours", "upstream"])


def mark(requests: str, limits: str = "-") -> str:
    """Return what the webhook writes about a container's original resources."""
    return json.dumps({"requests": amounts(requests), "limits": amounts(limits)})


def boosted(
    *containers: Json,
    marks: Mapping[str, str] | None = None,
    since: timedelta | None = 2 * MINUTE,
    more: Mapping[str, str] | None = None,
    conditions: Sequence[Json] = (),
) -> Json:
    """Return a boosted pod, Ready since so long; marks are by container."""
    found = {"app": mark("100m/100Mi")} if marks is None else marks
    annotations = {BOOST + name: text for name, text in found.items()} | dict(more or {})
    return running(
        *(containers or (container("app", "300m/100Mi"),)),
        annotations=annotations,
        age=MINUTE if since is None else since,
        ready=since is not None,
        conditions=conditions,
    )


def boost(seconds: int | None = None) -> Json:
    """Return a boost by factor 3."""
    return make.boost_json(factor=3, duration_seconds=seconds)


def policy(name: str, seconds: int | None = None) -> Json:
    """Return a container's policy with a boost of its own."""
    return make.policy_json(name, boost=boost(seconds))


C1, C2 = policy("c1", 60), policy("c2", 300)
TWO = {"c1": mark("100m"), "c2": mark("100m")}


@pytest.mark.parametrize(
    ("pod", "vpa", "expected"),
    [
        pytest.param(boosted(since=120 * SECOND), {"boost": boost(60)}, ["app"], id="U1"),
        pytest.param(boosted(since=60 * SECOND), {"boost": boost(60)}, [], id="U2"),
        pytest.param(boosted(since=timedelta()), {"boost": boost()}, ["app"], id="U3"),
        pytest.param(boosted(since=None), {"boost": boost()}, [], id="U4"),
        pytest.param(
            boosted(marks=TWO, since=120 * SECOND),
            {
                "policies": [
                    policy("c1", 180),
                    policy("c2", 60),
                ]
            },
            ["c2"],
            id="U5",
        ),
        pytest.param(
            boosted(marks={"c1": mark("1")}, since=240 * SECOND),
            {"boost": boost(300), "policies": [policy("c1", 180)]},
            ["c1"],
            id="U6",
        ),
        pytest.param(
            boosted(marks={"c1": mark("1")}, since=240 * SECOND),
            {"boost": boost(300), "policies": [policy("c1")]},
            [],
            id="U7",
        ),
        pytest.param(boosted(), {}, ["app"], id="boost removed"),
        pytest.param(running(), {"boost": boost()}, [], id="never boosted"),
    ],
)
def test_who_is_due(pod: Json, vpa: Mapping[str, Any], expected: list[str]) -> None:
    """A boost is over so long after Ready, as the VPA says now."""
    assert due_containers(read(pod), make.vpa(**vpa), NOW) == set(expected)


def test_an_undated_ready_pod_is_due() -> None:
    """Without a time of Ready nobody waits for one."""
    pod = boosted()
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    vpa = make.vpa(boost=boost(300))
    assert due_containers(read(pod), vpa, NOW) == {"app"}
    assert next_due(read(pod), vpa, NOW) is None


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
        pytest.param(boosted(marks=TWO, since=timedelta()), {"policies": [C1, C2]}, 60, id="N1"),
        pytest.param(boosted(marks=TWO, since=90 * SECOND), {"policies": [C1, C2]}, 210, id="N2"),
        pytest.param(
            boosted(since=timedelta()),
            {"boost": boost(120), "policies": [policy("app", 200)]},
            200,
            id="N3",
        ),
        pytest.param(boosted(since=None), {"boost": boost(60)}, 0, id="N4"),
        pytest.param(running(), {"boost": boost(60)}, 0, id="N4 no mark"),
        pytest.param(boosted(since=600 * SECOND), {"boost": boost(60)}, 0, id="N4 all past"),
        pytest.param(boosted(since=60 * SECOND), {"boost": boost(60)}, 0, id="N5"),
    ],
)
def test_remaining(pod: Json, vpa: Mapping[str, Any], expected: float) -> None:
    """The shortest time until another container is due."""
    found = remaining(read(pod), make.vpa(**vpa), NOW)
    assert found.total_seconds() == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            mark("100m/1Gi", "1"),
            Resources(make.quantities(cpu="100m", memory="1Gi"), make.quantities(cpu="1")),
        ),
        ('{"requests":{}}', Resources({}, None)),
        ("", None),
        ("{}", None),
        ("null", None),
        ("[]", None),
        ("{nonsense", None),
        ('{"requests":{"cpu":"many"}}', None),
        ('{"requests":7}', None),
    ],
)
def test_original_resources(text: str, expected: Resources | None) -> None:
    """A mark that cannot be read tells nothing."""
    assert original_resources(read(boosted(marks={"app": text})), "app") == expected


# --- what it goes back to

BOOSTS = boost()


def scene(
    *pods: Json,
    mode: str | None = "Recreate",
    recommendation: Sequence[Json] | None = None,
    rules: UpdateRules = UNPROVEN,
    memory: Memory | None = None,
    replicas: int | None = None,
    others: Sequence[Json] = (),
    policies: Sequence[Json] | None = None,
    startup: Json | None = BOOSTS,
    advised: bool = True,
) -> Scene:
    """Return a scene of boosted pods with a boost in their VPA."""
    vpa: Json = {"boost": startup, "policies": policies}
    return Scene(
        pods,
        [recommended("200m/200Mi = =")] if recommendation is None else recommendation,
        mode=mode,
        rules=rules,
        memory=memory or Memory(),
        replicas=replicas,
        others=others,
        vpa=vpa if advised else vpa | {"recommendations": None},
    )


def written(found: Decision) -> dict[str, str]:
    """Return what a decision writes, by the end of the path."""
    assert found.change is not None
    return {
        f"{change.container}.{word}.{name}": str(amount)
        for change in found.change.containers
        for word, amounts_ in (("requests", change.requests), ("limits", change.limits))
        for name, amount in amounts_.items()
    }


LIMITED = container("app", "300m/100Mi", "600m/100Mi")
AT = "2026-01-05T10:00:00Z"


@pytest.mark.parametrize(
    ("pod", "arguments", "expected"),
    [
        pytest.param(
            boosted(), {"mode": "Off"}, {"app.requests.cpu": "100m"}, id="U8 N12 mode Off"
        ),
        pytest.param(
            boosted(), {"mode": "InPlaceOrRecreate"}, {"app.requests.cpu": "200m"}, id="U9"
        ),
        pytest.param(boosted(), {"mode": "Initial"}, {"app.requests.cpu": "200m"}, id="N12"),
        pytest.param(
            boosted(container("app", "600m/100Mi")),
            {"mode": "Auto", "recommendation": [recommended("700m/100Mi = =")]},
            {"app.requests.cpu": "700m"},
            id="U13",
        ),
        pytest.param(boosted(), {"advised": False}, {"app.requests.cpu": "100m"}, id="U14"),
        pytest.param(
            boosted(),
            {"policies": [make.policy_json("app", mode="Off")]},
            {"app.requests.cpu": "100m"},
            id="U15",
        ),
        pytest.param(
            boosted(),
            {"recommendation": [recommended("-/300Mi")]},
            {"app.requests.cpu": "100m"},
            id="U16",
        ),
        pytest.param(boosted(marks={"app": "garbage"}), {}, {"app.requests.cpu": "200m"}, id="U21"),
        pytest.param(
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "200m/100Mi")}),
            {},
            {"app.requests.cpu": "200m", "app.limits.cpu": "400m"},
            id="limit follows the original ratio",
        ),
        pytest.param(
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "200m/100Mi")}),
            {"mode": "Off"},
            {"app.requests.cpu": "100m", "app.limits.cpu": "200m"},
            id="limit goes back too",
        ),
        pytest.param(
            boosted(LIMITED, marks={"app": mark("100m/100Mi", "600m/100Mi")}),
            {"policies": [make.policy_json("app", values="RequestsOnly")]},
            {"app.requests.cpu": "200m"},
            id="RequestsOnly leaves the limit",
        ),
    ],
)
def test_what_it_goes_back_to(
    pod: Json, arguments: Mapping[str, Any], expected: Mapping[str, str]
) -> None:
    """The cpu of due containers, to the recommendation or to what it was."""
    found = scene(pod, **arguments).decision()
    assert (found.action, found.reason) == (Action.UNBOOST, Reason.UPDATED)
    assert written(found) == expected
    assert found.change is not None
    assert dict(found.change.annotations) == {"vpaInPlaceUpdated": "true", MARK + "app": AT}


def test_a_usual_limit_of_the_namespace_follows() -> None:
    """A limit that a LimitRange gave is scaled like any other."""
    limits = make.limit_range_json(default=make.amounts("1"))
    pod = boosted(container("app", "300m/100Mi", "3"), marks={"app": mark("100m/100Mi", "1")})
    found = scene(pod, others=[limits]).decision()
    assert written(found) == {"app.requests.cpu": "200m", "app.limits.cpu": "2"}


def test_only_due_containers_go_back() -> None:
    """U9: another container that is still boosted keeps what it has."""
    pod = boosted(
        container("c1", "300m/1Gi"), container("c2", "300m/1Gi"), marks=TWO, since=120 * SECOND
    )
    found = scene(
        pod,
        recommendation=[recommended("200m/1Gi = =", name) for name in ("c1", "c2")],
        policies=[C1, C2],
    ).decision()
    assert written(found) == {"c1.requests.cpu": "200m"}


def test_upstream_writes_everything() -> None:
    """Memory and containers without a boost go along, unless the mode is Off."""
    pod = boosted(
        container("app", "300m/100Mi"),
        container("b", "1/1Gi"),
        container("c", "1/1Gi"),
        marks={"app": mark("100m/100Mi")},
    )
    both_ = [recommended("200m/200Mi"), recommended("2/2Gi", "b")]
    found = scene(pod, recommendation=both_, rules=UPSTREAM).decision()
    assert written(found) == {
        "app.requests.cpu": "200m",
        "app.requests.memory": "200Mi",
        "b.requests.cpu": "2",
        "b.requests.memory": "2Gi",
    }
    assert found.change is not None
    assert dict(found.change.annotations) == {"vpaInPlaceUpdated": "true", BOOST + "app": None}
    off = scene(pod, recommendation=both_, rules=UPSTREAM, mode="Off").decision()
    assert written(off) == {"app.requests.cpu": "100m", "app.requests.memory": "100Mi"}


def test_upstream_leaves_cpu_boosted() -> None:
    """U16: with memory alone recommended, cpu is never brought back there."""
    found = scene(boosted(), recommendation=[recommended("-/300Mi")], rules=UPSTREAM).decision()
    assert written(found) == {"app.requests.memory": "300Mi"}


@pytest.mark.parametrize("text", ["", "{nonsense"])
def test_a_mark_that_cannot_be_read(text: str) -> None:
    """U21: the template tells what it was; without one the pod is left as it is, and unmarked."""
    pod = boosted(marks={"app": text})
    owner = make.workload_json(replicas=1, containers=[container("app", "50m")])
    told = replace(scene(pod, mode="Off"), owner=owner).decision()
    assert written(told) == {"app.requests.cpu": "50m"}
    left = scene(pod, mode="Off").decision()
    assert left.message == "nothing tells what app had before the boost; left as it is"
    assert left.change == PodChange((), ((BOOST + "app", None),))
    upstream = scene(pod, mode="Off", rules=UPSTREAM).decision()
    assert (upstream.action, upstream.reason) == (Action.WAIT, Reason.UNBOOST_STUCK)


def test_what_is_lost_does_not_hold_up_the_others() -> None:
    """One unreadable mark is dropped while another container goes back."""
    pod = boosted(container("c1", "300m"), container("c2", "300m"), marks=TWO | {"c2": "garbage"})
    found = scene(pod, mode="Off").decision()
    assert written(found) == {"c1.requests.cpu": "100m"}
    assert found.change is not None
    assert dict(found.change.annotations) == {
        "vpaInPlaceUpdated": "true",
        MARK + "c1": AT,
        BOOST + "c2": None,
    }


def test_a_boost_that_changed_nothing_is_only_unmarked() -> None:
    """No resize for a container that has what it goes back to."""
    pod = boosted(container("app", "100m/100Mi"))
    found = scene(pod, mode="Off").decision()
    assert found.action is Action.UNBOOST
    assert found.change is not None
    assert resize_patch(read(pod), found.change) == []
    assert annotation_patch(read(pod), found.change)[-1] == {
        "op": "remove",
        "path": "/metadata/annotations/vpaCpuStartupBoost~1app",
    }


# --- when it may, and what hinders


BUSY = (Action.WAIT, Reason.BOOST_RUNNING)
UNBOOSTED = (Action.UNBOOST, Reason.UPDATED)


@both
def test_not_due_is_left_alone(rules: UpdateRules) -> None:
    """U10: while a boost runs nothing is done, in no mode, however wrong the pod is."""
    for mode in ("Recreate", "InPlaceOrRecreate", "InPlace", "Off"):
        found = scene(boosted(), mode=mode, startup=boost(600), rules=rules)
        assert found.told() == BUSY
    assert found.decision().message == "boosted until 10:08:00"
    plan = found.plan()
    assert plan.wake_at is not None
    assert abs(plan.wake_at - (NOW + 8 * MINUTE)) < SECOND


@both
def test_pending_pods_are_left_alone(rules: UpdateRules) -> None:
    """A pod that does not run yet cannot be over its start."""
    pod = boosted()
    pod["status"]["phase"] = "Pending"
    assert scene(pod, rules=rules).told() == BUSY
    assert scene(pending(boosted()), rules=rules).told() == BUSY


@both
def test_all_due_pods_go_back_at_once(rules: UpdateRules) -> None:
    """U17 and N8: cpu that needs no restart takes no place."""
    assert scene(*several(boosted(), 2), rules=rules).count(Action.UNBOOST) == 2
    assert scene(*several(boosted(), 4), rules=rules).count(Action.UNBOOST) == 4


def test_a_missing_pod_does_not_hold_up_the_others() -> None:
    """U18 and N9: upstream waits for the owner to be whole."""
    pods = [*several(boosted(), 2), pending(running(name="new"))]
    assert scene(*pods).told() == UNBOOSTED
    assert scene(*pods, rules=UPSTREAM).told() == (Action.WAIT, Reason.BUDGET_EXHAUSTED)


@both
def test_a_single_pod_goes_back(rules: UpdateRules) -> None:
    """U19: the least number of replicas speaks of evictions."""
    assert scene(boosted(), rules=rules).told() == UNBOOSTED


def test_restarts_take_places() -> None:
    """Where cpu restarts a container, not all pods go at once; upstream's do."""
    pod = boosted(container("app", "300m/100Mi", resize={"cpu": "RestartContainer"}))
    assert scene(*several(pod, 4)).count(Action.UNBOOST) == 2
    assert scene(*several(pod, 4), rules=UPSTREAM).count(Action.UNBOOST) == 4
    alone = scene(pod, replicas=5)
    assert alone.told() == (Action.WAIT, Reason.BUDGET_EXHAUSTED)
    lost = replace(scene(pod), owner=make.workload_json("ReplicaSet/other"))
    assert lost.plan().decisions == ()


@both
def test_a_resize_under_way_is_waited_for(rules: UpdateRules) -> None:
    """U20: one after the other."""
    pod = boosted(conditions=[resize_condition("InProgress")])
    assert scene(pod, rules=rules).told() == (Action.WAIT, Reason.RESIZE_IN_PROGRESS)


@both
def test_a_stale_webhook_does_not_matter(rules: UpdateRules) -> None:
    """U22 and N10: nobody is recreated."""
    around = Around(webhook_is_healthy=False)
    assert scene(boosted(), rules=rules).told(around) == UNBOOSTED


def asks_for_less(ago: timedelta = SECOND, conditions: Sequence[Json] = ()) -> Json:
    """Return a pod whose resize back was accepted and not carried out yet."""
    marks = {MARK + "app": make.time(ago) or ""}
    pod = boosted(container("app", "200m/100Mi"), more=marks, conditions=conditions)
    return with_status(pod, "app", resources={"requests": amounts("300m/100Mi")})


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(asks_for_less(), Reason.RESIZE_IN_PROGRESS, id="accepted"),
        pytest.param(
            asks_for_less(conditions=[resize_condition("Pending", "Deferred")]),
            Reason.RESIZE_DEFERRED,
            id="deferred",
        ),
        pytest.param(
            asks_for_less(
                6 * MINUTE, conditions=[resize_condition("Pending", "Deferred", ago=400)]
            ),
            Reason.UNBOOST_STUCK,
            id="deferred for long",
        ),
        pytest.param(
            asks_for_less(conditions=[resize_condition("Pending", "Infeasible")]),
            Reason.UNBOOST_STUCK,
            id="U25 infeasible",
        ),
        pytest.param(
            asks_for_less(conditions=[resize_condition("InProgress", "Error", "no")]),
            Reason.UNBOOST_STUCK,
            id="U25 error",
        ),
        pytest.param(
            asks_for_less(ago=61 * MINUTE), Reason.UNBOOST_STUCK, id="in progress for long"
        ),
    ],
)
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
def test_a_stuck_return_never_evicts(pod: Json, expected: Reason, mode: str) -> None:
    """U25: its replacement would be boosted and get stuck as well."""
    found = scene(*several(pod, 3), mode=mode)
    assert found.count(Action.EVICT) == 0
    assert found.told() == (Action.WAIT, expected)


def test_a_return_that_arrived_is_unmarked() -> None:
    """When the kubelet reports the smaller size, both marks go and the pod is like any other."""
    pod = boosted(container("app", "200m/100Mi"), more={MARK + "app": AT})
    found = scene(pod).decision()
    assert (found.action, found.message) == (Action.UNBOOST, "back from its boost")
    assert found.change == PodChange((), ((BOOST + "app", None), (MARK + "app", None)))


def test_a_return_follows_the_recommendation() -> None:
    """While it is stuck, a new recommendation is asked for instead."""
    conditions = [resize_condition("Pending", "Deferred")]
    found = scene(
        asks_for_less(conditions=conditions), recommendation=[recommended("150m/100Mi = =")]
    ).decision()
    assert written(found) == {"app.requests.cpu": "150m"}
    assert found.change is not None
    assert dict(found.change.annotations) == {"vpaInPlaceUpdated": "true"}


def test_a_marked_pod_stays_marked_when_it_gets_unready() -> None:
    """It is brought back all the same, and not evicted for want of memory either."""
    pod = killed(boosted(since=None, more={MARK + "app": AT}))
    found = scene(*several(pod, 3), recommendation=[recommended("200m/2Gi = =")])
    assert found.told() == UNBOOSTED
    tried = Memory(pods={"uid-web-0": PodMemory("default", "web-0", unboosted=NOW - MINUTE)})
    only_tried = killed(boosted(since=None))
    assert scene(*several(only_tried, 3), memory=tried).told() == BUSY


def test_refused_returns_pause_and_are_told() -> None:
    """U24 and U29: the pod keeps its mark, waits, and is never evicted."""
    pause = Pause(Reason.RESIZE_ERROR, "refused: no", 3, NOW + MINUTE)

    def remembered(ago: timedelta) -> Memory:
        found = PodMemory("default", "web-0", pause=pause, unboosted=NOW - ago)
        return Memory(pods={"uid-web-0": found})

    assert scene(boosted(), memory=remembered(MINUTE)).told() == (
        Action.WAIT,
        Reason.RESIZE_ERROR,
    )
    assert scene(boosted(), memory=remembered(6 * MINUTE)).told() == (
        Action.WAIT,
        Reason.UNBOOST_STUCK,
    )
    over = replace(scene(boosted(), memory=remembered(MINUTE)), now=NOW + MINUTE)
    assert over.told() == UNBOOSTED


def test_an_accepted_return_is_not_sent_twice() -> None:
    """The watch may lag behind the answer."""
    found = PodMemory("default", "web-0", resized=Resized(NOW, 2, "1"))
    memory = Memory(pods={"uid-web-0": found})
    assert scene(boosted(), memory=memory).told() == (Action.WAIT, Reason.RESIZE_IN_PROGRESS)


def test_what_is_still_written_after_a_refusal() -> None:
    """Since when it is tried, so that nobody evicts the pod after a restart of ours."""
    found = scene(boosted()).decision()
    assert found.change is not None
    assert after_refusal(found.change) == PodChange((), ((MARK + "app", AT),))


def test_since_when() -> None:
    """The oldest readable mark counts."""
    more = {MARK + "a": make.time(MINUTE) or "", MARK + "b": AT, MARK + "c": "garbage"}
    assert pending_since(read(boosted(more=more))) == NOW - MINUTE
    assert pending_since(read(boosted())) is None


# --- around it


def test_without_the_gate_boosts_do_not_exist() -> None:
    """U26: a marked pod is like any other."""
    found = replace(scene(*several(boosted(), 3)), gates=NO_GATES)
    assert found.told() == (Action.EVICT, Reason.EVICTED)


def test_a_removed_boost_still_ends() -> None:
    """U27: in place; upstream evicts, be it the only pod, unless a worker was faster."""
    assert scene(boosted(), startup=None).told() == UNBOOSTED
    assert scene(*several(boosted(), 2), startup=None, rules=UPSTREAM).told() == (
        Action.EVICT,
        Reason.EVICTED,
    )
    assert scene(boosted(), startup=None, rules=UPSTREAM).told() == (Action.EVICT, Reason.EVICTED)
    switched = with_switches(UNPROVEN, removed_boost_is_ordinary=True)
    assert scene(boosted(), startup=None, rules=switched).told() == (
        Action.WAIT,
        Reason.TOO_FEW_REPLICAS,
    )


def test_a_boosted_pod_that_runs_out_of_memory_is_helped() -> None:
    """U28: it will never get ready, so it is given more memory; its cpu is left alone."""
    pod = killed(boosted(since=None))
    more = [recommended("200m/200Mi = =")]
    assert scene(*several(pod, 3), recommendation=more).told() == (Action.EVICT, Reason.EVICTED)
    assert scene(*several(pod, 3), recommendation=more, rules=UPSTREAM).told() == BUSY
    in_place = scene(*several(pod, 3), recommendation=more, mode="InPlaceOrRecreate").decision()
    assert written(in_place) == {"app.requests.memory": "200Mi"}
    nothing = scene(*several(pod, 3), recommendation=[recommended("200m/100Mi = =")])
    assert nothing.told() == BUSY


def test_failed_returns_are_no_reason_to_evict() -> None:
    """U30: marked pods are nobody's candidates; without marks they are."""
    found = scene(*several(boosted(), 5))
    assert found.count(Action.EVICT) == 0
    assert found.count(Action.UNBOOST) == 5
    plain = scene(*several(running(container("app", "300m/100Mi")), 5))
    assert plain.count(Action.EVICT) == 2


def test_upscale_only_pods_go_back_too() -> None:
    """S13: the end of a boost makes smaller whatever the mode says."""
    found = scene(boosted(), mode="UpscaleOnly", recommendation=[recommended("100m/100Mi = =")])
    assert written(found.decision()) == {"app.requests.cpu": "100m"}
