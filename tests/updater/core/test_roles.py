"""Pods whose VPA changed because their labels did: resized first, the last of a role never evicted.

What tells of it stands in pod, template and VPAs, so the updater may have been restarted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.fields import Json
from app.model.pods import updates_annotation
from app.model.role_leases import PodRole, RoleLease
from app.model.snapshot import Collection, Replacement
from app.model.vpa import Vpa, read_vpa
from app.model.workloads import Workload
from app.updater.core.action_queue import LAST_OF_ROLE, QueueCursor
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import Infeasible, Memory, PodMemory
from app.updater.core.owners import Role, role_of
from app.updater.core.plan import PlanOptions, plan
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES
from tests.updater.core.owners import rollout
from tests.updater.core.resizes import asking
from tests.updater.core.scenes import (
    EVICTED,
    HOUR,
    NOW,
    RESIZED,
    UNPROVEN,
    Scene,
    annotated,
    container,
    recommended,
    resize_condition,
    running,
    terminating,
    unscheduled,
    with_metadata,
)

LEADER, FOLLOWER = make.LABELS | {"role": "leader"}, make.LABELS | {"role": "follower"}
NO_ROLE = make.LABELS
OF_FOLLOWERS = make.workload(labels=FOLLOWER)
OF_ANY = make.workload(labels=NO_ROLE)
OF_LEADERS = make.workload(labels=LEADER)


def created_by(vpa: str) -> dict[str, str]:
    """Return the annotation of the webhook that sized a pod for a VPA."""
    return {"vpaUpdates": updates_annotation(vpa, ["container 0: cpu request"])}


def resized_by(vpa: str) -> dict[str, str]:
    """Return the annotation of a resize for a VPA."""
    return {"vpaInPlaceUpdatedBy": vpa}


def role_vpa(role: str, *, mode: str = "Recreate", cpu: str | None = "200m") -> Json:
    """Return the VPA of a role."""
    found = None if cpu is None else [recommended(f"{cpu}/200Mi = =")]
    selector = {"matchLabels": {"role": role}}
    return make.vpa_json(role, mode=mode, selector=selector, recommendations=found)


LEADERS, FOLLOWERS = (read_vpa(role_vpa(role)) for role in ("leader", "follower"))
EVERY = make.vpa("every")
ZEROTH = make.vpa("zeroth", selector={"matchLabels": {"apps.kubernetes.io/pod-index": "0"}})
NOT_LED = make.vpa(
    "not-led", selector={"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]}
)


@cases(
    "labels annotations vpa owner expected",
    {
        "no selector": (LEADER, {}, EVERY, OF_ANY, Role.ORIGINAL),
        "labels of the template": (FOLLOWER, {}, FOLLOWERS, OF_FOLLOWERS, Role.ORIGINAL),
        "promoted": (LEADER, {}, LEADERS, OF_FOLLOWERS, Role.ACQUIRED),
        "promoted, and resized": (
            LEADER,
            created_by("follower") | resized_by("leader"),
            LEADERS,
            OF_FOLLOWERS,
            Role.ACQUIRED,
        ),
        "a first role": (FOLLOWER, {}, FOLLOWERS, OF_ANY, Role.ACQUIRED),
        "a label that another webhook gives": (
            LEADER,
            created_by("leader"),
            LEADERS,
            OF_ANY,
            Role.ORIGINAL,
        ),
        "a label that its controller gives": (
            NO_ROLE | {"apps.kubernetes.io/pod-index": "0"},
            {},
            ZEROTH,
            OF_ANY,
            Role.ORIGINAL,
        ),
        "a label is gone": (NO_ROLE, {}, NOT_LED, OF_FOLLOWERS, Role.ACQUIRED),
        "demoted": (FOLLOWER, resized_by("leader"), FOLLOWERS, OF_FOLLOWERS, Role.RESUMED),
        "demoted, from what another webhook gave": (
            FOLLOWER,
            created_by("leader"),
            FOLLOWERS,
            OF_FOLLOWERS,
            Role.RESUMED,
        ),
        "demoted, and resized since": (
            FOLLOWER,
            created_by("leader") | resized_by("follower"),
            FOLLOWERS,
            OF_FOLLOWERS,
            Role.ORIGINAL,
        ),
        "demoted to no role": (NO_ROLE, resized_by("leader"), EVERY, OF_ANY, Role.RESUMED),
        "sized by a VPA that is gone": (FOLLOWER, resized_by("x"), FOLLOWERS, OF_FOLLOWERS,
                                        Role.ORIGINAL),
        "sized by a VPA that selects it still": (LEADER, resized_by("leader"), EVERY, OF_ANY,
                                                 Role.ORIGINAL),
        "not our annotation": (FOLLOWER, {"vpaUpdates": "leader"}, FOLLOWERS, OF_FOLLOWERS,
                               Role.ORIGINAL),
        "a template that is not known": (LEADER, {}, LEADERS, rollout(3), Role.ACQUIRED),
        "nor known, but created so": (LEADER, created_by("leader"), LEADERS, rollout(3),
                                      Role.ORIGINAL),
        "an owner that is not known": (LEADER, {}, LEADERS, None, Role.ACQUIRED),
    },
)  # fmt: skip
def test_role_of(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    vpa: Vpa,
    owner: Workload | None,
    expected: Role,
) -> None:
    """A pod has acquired its role if a replacement would be of another VPA, or of none."""
    pod = make.pod(labels=labels, annotations=annotations)
    assert role_of(pod, vpa, owner, (LEADERS, FOLLOWERS, EVERY)) is expected


@cases(
    "leads vpa owner expected",
    {
        "it leads": (True, LEADERS, OF_ANY, Role.HELD),
        "it follows, as a replacement does": (False, FOLLOWERS, OF_ANY, Role.ORIGINAL),
        "it leads, and the template makes leaders": (True, LEADERS, OF_LEADERS, Role.ORIGINAL),
        "a template that is not known: it leads": (True, LEADERS, rollout(3), Role.HELD),
        "a template that is not known: it follows": (False, FOLLOWERS, rollout(3), Role.ORIGINAL),
    },
)
def test_roles_by_a_lease(leads: bool, vpa: Vpa, owner: Workload, expected: Role) -> None:
    """A replacement follows by the Lease, unless its template gives it the label."""
    value = "leader" if leads else "follower"
    role = PodRole(RoleLease("role", "web"), value, leads, "", None)
    pod = replace(make.pod(labels={**NO_ROLE, "role": value}), roles=(role,))
    assert role_of(pod, vpa, owner, (LEADERS, FOLLOWERS)) is expected


# --- what is decided


def pod(
    name: str = "web-0", requests: str = "100m/100Mi", role: str = "leader", **members: object
) -> Json:
    """Return a pod in a role, with further members of its metadata."""
    labels = make.LABELS | {"role": role}
    return with_metadata(running(container("app", requests), name=name, labels=labels), **members)


REST = [pod(f"web-{number}", "200m/200Mi", "follower") for number in (1, 2, 3)]


def scene(
    *pods: Json,
    mode: str = "Recreate",
    rules: UpdateRules = UNPROVEN,
    memory: Memory | None = None,
    cpu: str | None = "200m",
) -> Scene:
    """Return a scene of leaders, or of some pods, beside followers that are as recommended."""
    owner = make.workload_json(labels=FOLLOWER, replicas=len(pods) + len(REST))
    owner["spec"]["selector"] = {"matchLabels": dict(make.LABELS)}
    vpas = [role_vpa(role, mode=mode, cpu=cpu) for role in ("leader", "follower")]
    whole = make.snapshot(*pods, *REST, *vpas, owner)
    return Scene([*pods, *REST], whole=whole, rules=rules, memory=memory or Memory())


DEFERRED = resize_condition("Pending", "Deferred", "no room", HOUR.total_seconds() / 2)
NOT_DEMOTED = pod(role="follower", requests="900m/900Mi")
DEMOTED = with_metadata(NOT_DEMOTED, annotations=resized_by("leader"))
ALONE = (Action.WAIT, Reason.LAST_OF_ROLE)


@pytest.mark.parametrize("mode", ["Recreate", "Auto", "UpscaleOnly", "InPlaceOrRecreate"])
def test_a_promoted_pod_is_resized_in_every_mode(mode: str) -> None:
    """Only the sentence says that the mode alone would evict it."""
    found = scene(pod(), mode=mode).decision()
    assert (found.action, found.reason) == RESIZED
    assert annotated(found)["vpaInPlaceUpdatedBy"] == "leader"
    says = "cpu 100m is below its lower bound 200m: 100m -> 200m; memory 100Mi -> 200Mi"
    if mode != "InPlaceOrRecreate":
        says += "; in place, because evicting it would lose its role"
    assert found.message == says


@cases(
    "first mode expected",
    {
        "never promoted": (pod(role="follower"), "Recreate", EVICTED),
        "never demoted": (NOT_DEMOTED, "Recreate", EVICTED),
        "demoted": (DEMOTED, "Recreate", RESIZED),
        "demoted, and never made smaller": (
            DEMOTED,
            "UpscaleOnly",
            (Action.NONE, Reason.NOT_UPSCALE),
        ),
        "on no node": (
            unscheduled(pod(requests="9/9Gi")),
            "Recreate",
            (Action.RESIZE, Reason.TOO_BIG_FOR_NODE),
        ),
        "a leader in mode Off": (pod(), "Off", (Action.NONE, Reason.MODE_OFF)),
    },
)
def test_other_pods(first: Json, mode: str, expected: tuple[Action, Reason]) -> None:
    """One that is as its template made it is evicted as ever; a demoted one is resized once."""
    assert scene(first, mode=mode).told() == expected


def test_why_a_demoted_pod_is_resized() -> None:
    """It would keep its role, but its labels changed."""
    why = "; in place, because its role changed since it was sized"
    assert scene(DEMOTED).decision().message.endswith(why)


def test_a_role_is_told_again_when_a_vpa_goes() -> None:
    """A demoted pod whose former VPA is deleted is like any other."""
    small = resize_condition("Pending", "Deferred", "no room", HOUR.total_seconds() / 2)
    waiting = with_metadata(
        asking(small, wanted="101m/101Mi"), labels=FOLLOWER, annotations=resized_by("leader")
    )
    selector = {"matchLabels": {"role": "follower"}}
    wide = [recommended("101m/101Mi 1m/1Mi 1/1Gi")]
    vpa = make.vpa_json("follower", mode="Recreate", selector=selector, recommendations=wide)
    before = make.snapshot(waiting, vpa, role_vpa("leader"), make.workload_json(labels=FOLLOWER))
    gone = Replacement(Collection.VPAS, "default", "leader", None)
    first = plan(before, UNPROVEN, ALL_GATES, Memory(), NOW)
    (decision,) = first.decisions
    assert (decision.reason, decision.until) == (Reason.TOO_SMALL, NOW + HOUR / 2)
    around = PlanOptions(before=first)
    (decision,) = plan(before.changed([gone]), UNPROVEN, ALL_GATES, Memory(), NOW, around).decisions
    assert (decision.reason, decision.until) == (Reason.TOO_SMALL, None)


# --- the last of a role


STUCK = asking(DEFERRED)
STUCK["metadata"]["labels"] = LEADER
OVERDUE = asking(resize_condition("Pending", "Deferred", "no room", 2 * HOUR.total_seconds()))
OVERDUE["metadata"]["labels"] = LEADER
SECOND = pod("web-9", "200m/200Mi")
UNREADY = with_metadata(
    running(container("app", "200m/200Mi"), ready=False), name="web-9", uid="uid-web-9",
    labels=LEADER,
)  # fmt: skip


@pytest.mark.parametrize("mode", ["Recreate", "UpscaleOnly", "InPlaceOrRecreate"])
@cases(
    "first others expected",
    {
        "stuck": (STUCK, [], ALONE),
        "of two": (STUCK, [SECOND], EVICTED),
        "the other one goes": (STUCK, [terminating(SECOND)], ALONE),
        "the other one is not ready": (STUCK, [UNREADY], ALONE),
        "stuck for long": (OVERDUE, [], (Action.RESIZE, Reason.RESIZE_DEFERRED)),
    },
)
def test_the_last_of_its_role(
    first: Json, others: Sequence[Json], expected: tuple[Action, Reason], mode: str
) -> None:
    """It is not evicted, whatever becomes of its resize; one that is stuck for long is reverted."""
    found = scene(first, *others, mode=mode).decision()
    assert (found.action, found.reason) == expected


def test_a_node_that_is_too_small() -> None:
    """What the node refused before is not asked for again, nor is the last of its role evicted."""
    wanted = {("app", "cpu"): make.quantity("200m")}
    past = Infeasible(wanted, frozenset(), NOW, None)
    refused = Memory(pods={"uid-web-0": PodMemory("default", "web-0", infeasible=past)})
    assert scene(pod(), memory=refused).told() == ALONE
    assert scene(pod(), SECOND, memory=refused).told() == EVICTED


def test_what_is_evicted_already_is_no_other() -> None:
    """The watch shows it still."""
    gone = Memory(pods={"uid-web-9": PodMemory("default", "web-9", evicted=NOW)})
    assert scene(STUCK, SECOND, memory=gone).told() == ALONE


def two_leaders(first: Json, second: Json) -> QueueCursor:
    """Return a walk through the actions upon two leaders."""
    rules = replace(UNPROVEN, eviction_tolerance=1.0)
    (queue,) = scene(first, second, rules=rules).plan().queues
    return QueueCursor(queue)


def test_not_even_together_do_they_lose_their_role() -> None:
    """Of two that cannot be resized one goes, also if only the calls showed that."""
    other = with_metadata(STUCK, name="web-9", uid="uid-web-9")
    found = scene(STUCK, other, rules=replace(UNPROVEN, eviction_tolerance=1.0))
    assert found.count(Action.EVICT) == 1
    assert found.decisions()["web-9"].reason is Reason.LAST_OF_ROLE

    walk = two_leaders(pod(), pod("web-9"))
    for step in (walk.next(), walk.next()):
        assert step is not None
        assert step.decision.may_evict_instead
        walk.came_to_nothing(step)
        walk.evict_later(step)
    assert walk.next() is not None
    assert walk.next() is None
    assert [(step.pod.name, why[0]) for step, why in walk.rest()] == [
        ("web-9", Reason.LAST_OF_ROLE)
    ]


@cases(
    "change expected",
    {
        "nothing": ({}, True),
        "the other one is demoted": ({"labels": FOLLOWER}, False),
        "the other one goes": ({"deletionTimestamp": make.time(timedelta())}, False),
        "the other one is another pod": ({"uid": "new"}, False),
    },
)
def test_a_last_look_at_the_role(change: Mapping[str, object], expected: bool) -> None:
    """Right before the call another pod of the role must still be there."""
    walk = two_leaders(STUCK, SECOND)
    step = walk.next()
    assert step is not None
    after = make.snapshot(STUCK, with_metadata(SECOND, **change), *REST)
    walk.recount(after.of("default").pods)
    assert walk.why_slot_is_lost(step) == (None if expected else LAST_OF_ROLE)


def test_a_role_whose_pods_are_gone() -> None:
    """Nor may the last one go if the watch shows no other."""
    walk = two_leaders(STUCK, SECOND)
    step = walk.next()
    assert step is not None
    walk.recount(make.snapshot(STUCK).of("default").pods)
    assert walk.why_slot_is_lost(step) == LAST_OF_ROLE
