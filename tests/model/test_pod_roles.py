"""Which pod leads by a Lease, and what labels pods have by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.fields import Json
from app.model.pod_roles import (
    NO_ROLES,
    Roles,
    RoleSources,
    as_acting,
    created_labels,
    given_labels,
    role_change,
)
from app.model.pods import Pod
from app.model.role_leaders import Leader, RoleProblem, leader_of, named, renamed
from app.model.role_leases import LeaseStanding, LeaseState, RoleLease
from app.model.snapshot import Collection, Replacement, Snapshot
from tests import make
from tests.cases import cases

UUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
LONG = f"web-{'x' * 56}-7c9fd-abcde"
HOST_NETWORK = {"hostNetwork": True, "nodeName": "node-1"}


def lead(
    identity: str,
    *pods: Pod,
    before: Leader | None = None,
    others: Sequence[Pod] = (),
    workloads: Sequence[str] = (),
) -> Leader:
    """Return who leads when a Lease is held; the others are of another workload."""
    standing = LeaseStanding(LeaseState.HELD, identity, make.NOW)
    all_of_them = {one.name: one for one in (*others, *pods)}
    found = named(identity, renamed({}, (), all_of_them.values()), all_of_them, workloads)
    return leader_of(standing, found, [one.name for one in pods], before)


def pod(name: str = "web-0", spec: Mapping[str, object] | None = None, uid: str = "") -> Pod:
    """Return a pod."""
    metadata = {"uid": uid} if uid else None
    return make.pod(name=name, spec=spec, metadata=metadata)


@cases(
    "identity pods leader",
    {
        "client-go: host and UUID": (f"web-0_{UUID}", [pod()], "web-0"),
        "the pod's name": ("web-0", [pod()], "web-0"),
        "the name, and something behind a hyphen": ("web-0-external", [pod()], "web-0"),
        "the name, and something behind a slash": ("web-0/manager", [pod()], "web-0"),
        "the name, and a port": ("web-0:8080", [pod()], "web-0"),
        "the name, and a host": ("web-0@node-1", [pod()], "web-0"),
        "the full name of its host": ("web-0.web.default.svc.cluster.local", [pod()], "web-0"),
        "spec.hostname": ("primary_1", [pod(spec={"hostname": "primary"})], "web-0"),
        "the name, in spite of spec.hostname": ("web-0_1", [pod(spec={"hostname": "p"})], "web-0"),
        "a host's name cut at 63": (f"{LONG[:63]}_{UUID}", [pod(LONG)], LONG),
        "a name of more than 63": (f"{LONG}_{UUID}", [pod(LONG)], LONG),
        "cut, at a hyphen": (f"{'x' * 62}_1", [pod(f"{'x' * 62}-ab")], f"{'x' * 62}-ab"),
        "the node, on the host's network": (f"node-1_{UUID}", [pod(spec=HOST_NETWORK)], "web-0"),
        "the longest one": ("web-1-0_a", [pod("web-1"), pod("web-1-0")], "web-1-0"),
        "in the other order": ("web-1-0_a", [pod("web-1-0"), pod("web-1")], "web-1-0"),
        "a longer name is another pod's": ("web-1_a", [pod("web-1"), pod("web-10")], "web-1"),
        "the beginning of a word": ("web-10_a", [pod("web-1")], ""),
        "no word of ours": ("a4b5c6d7e8f9", [pod()], ""),
        "a UUID": (UUID, [pod()], ""),
        "only a part in the middle": ("my-web-0", [pod()], ""),
        "no pod at all": ("web-0", [], ""),
        "a pod that is over": ("web-0", [make.pod(status={"phase": "Failed"})], ""),
    },
)
def test_identities(identity: str, pods: list[Pod], leader: str) -> None:
    """A holder is the pod by whose name or host its identity begins, the longest one."""
    found = lead(identity, *pods)
    assert found.pod == leader
    assert found.problem is (None if leader else RoleProblem.NO_POD_MATCHES)


def test_two_matches_are_no_guess() -> None:
    """Two pods on one host's network have one name, so neither leads."""
    pods = [pod(name, HOST_NETWORK, uid=name) for name in ("web-b", "web-a")]
    found = lead(f"node-1_{UUID}", *pods)
    told = f"is held by node-1_{UUID}, which may be web-a or web-b"
    assert found == Leader(f"node-1_{UUID}", "", "", RoleProblem.AMBIGUOUS, told)


def test_who_led_on_a_host_goes_on() -> None:
    """A pod that comes to the host of one that leads does not make it unknown who does."""
    before = Leader(f"node-1_{UUID}", "web-a", "web-a")
    both = [pod(name, HOST_NETWORK, uid=name) for name in ("web-b", "web-a")]
    assert lead(before.identity, *both, before=before) == before


@cases(
    "identity ours leader message",
    {
        "their name is longer": (
            "web-0-7c9fd_1",
            pod(),
            "",
            "is held by web-0-7c9fd_1, which names pod web-0-7c9fd of another workload",
        ),
        "their name is the same: a node's": ("node-1_1", pod(spec=HOST_NETWORK), "web-0", ""),
    },
)
def test_pods_of_other_workloads(identity: str, ours: Pod, leader: str, message: str) -> None:
    """A pod of another workload wins by a longer name, and then none of ours leads."""
    others = [pod("web-0-7c9fd"), pod("agent", HOST_NETWORK)]
    found = lead(identity, ours, others=others)
    assert (found.pod, found.message) == (leader, message)


@cases(
    "identity leader",
    {
        "a pod of it that is gone": ("web-1-0_a", ""),
        "whatever its name goes on with": ("web-1-external", ""),
        "another separator": ("web-1_a", "web-1"),
        "its host's full name": ("web-1.web.shop.svc", "web-1"),
        "a shorter name": ("web-1", "web-1"),
        "another pod of ours": ("web-10-external", "web-10"),
    },
)
def test_a_workload_has_the_name_of_a_pod(identity: str, leader: str) -> None:
    """Behind the name of a workload and a hyphen comes a pod of it, not a suffix of ours."""
    found = lead(identity, pod("web-1"), pod("web-10"), workloads=["web", "web-1"])
    assert found.pod == leader
    assert found.problem is (None if leader else RoleProblem.NO_POD_MATCHES)


def test_a_pod_is_found_behind_the_name_of_its_workload() -> None:
    """The pod itself is named by more than its workload is."""
    names = ["web-1", "web-1-0", "web-1-db"]
    assert lead("web-1-0_a", pod("web-1"), pod("web-1-0"), workloads=names[:1]).pod == "web-1-0"
    assert lead("web-1-db-x1_a", pod("web-1"), workloads=names).pod == ""


def test_long_identities_are_cut() -> None:
    """An identity may be of any length, a sentence may not."""
    assert len(lead("y" * 5000).message) < 200


def test_identities_are_shown_on_one_line() -> None:
    """What others wrote as a holder clears no screen, and breaks no sentence."""
    message = lead("web-1_\x1b[2J\nnext").message
    assert message == r"is held by web-1_\x1b[2J\nnext, which names no pod of the workload"


@cases(
    "identity now leads",
    {
        "it is there": (f"web-0_{UUID}", [pod(uid="old")], "old"),
        "it is gone": (f"web-0_{UUID}", [pod("web-1")], "old"),
        "another one has its name: no process of ours": (
            f"web-0_{UUID}",
            [pod(uid="new")],
            "old",
        ),
        "another one has its name, which is all that it says": ("web-0", [pod(uid="new")], "new"),
    },
)
def test_a_leader_that_is_gone(identity: str, now: list[Pod], leads: str) -> None:
    """What led and is gone leads on until another one does: it is known that no pod leads."""
    before = lead(identity, pod(uid="old"))
    found = lead(identity, *now, before=before)
    assert (found.uid, found.problem) == (leads, None)


def test_what_led_before_counts_for_its_own_identity() -> None:
    """The pod of a former holder says nothing about the next one."""
    before = lead("web-0", pod())
    assert lead("web-9", pod(), before=before).problem is RoleProblem.NO_POD_MATCHES


@cases(
    "standing leader",
    {
        "missing": (
            LeaseStanding(LeaseState.MISSING),
            Leader(problem=RoleProblem.NO_LEASE, message="does not exist"),
        ),
        "forbidden": (
            LeaseStanding(LeaseState.FORBIDDEN, problem="no"),
            Leader(problem=RoleProblem.NO_RIGHT, message="may not be watched: no"),
        ),
        "unreadable": (
            LeaseStanding(LeaseState.UNREADABLE, problem="its spec is no object"),
            Leader(
                problem=RoleProblem.UNREADABLE_LEASE,
                message="cannot be used: its spec is no object",
            ),
        ),
        "vacant": (LeaseStanding(LeaseState.VACANT), Leader()),
        "kept": (LeaseStanding(LeaseState.KEPT, "web-0"), Leader("web-0", "uid-web-0", "web-0")),
    },
)
def test_states(standing: LeaseStanding, leader: Leader) -> None:
    """A Lease without a holder has no leader; what cannot be known has a reason."""
    assert leader_of(standing, [pod()], ["web-0"]) == leader


@given(
    st.text(alphabet="web-01_x.", min_size=1, max_size=12),
    st.lists(st.text(alphabet="web-01x", min_size=1, max_size=8), unique=True, max_size=5),
)
def test_one_leader_at_most(identity: str, names: list[str]) -> None:
    """Whatever the names are, a Lease has one leader or none, and never without a match."""
    pods = [make.pod(name=name) for name in names]
    found = lead(identity, *pods)
    assert found.pod in ("", *names)
    assert identity.startswith(found.pod)
    assert bool(found.pod) != (found.problem is not None)


# --- in a snapshot

ROLE = {"plumbline/role-lease": "role=web"}
LEADER: Json = {"matchLabels": {"role": "leader"}}
FOLLOWER: Json = {"matchLabels": {"role": "follower"}}


def vpas(annotations: Mapping[str, str] | None = ROLE) -> list[Json]:
    """Return the VPAs of leader and followers."""
    return [
        make.vpa_json("web-leader", selector=LEADER, annotations=annotations),
        make.vpa_json("web-follower", selector=FOLLOWER, annotations=annotations),
    ]


def pods(count: int = 3, **more: object) -> list[Json]:
    """Return the pods of a StatefulSet."""
    return [make.pod_json(name=f"web-{index}", **more) for index in range(count)]  # type: ignore[arg-type]


def roles(snapshot: Snapshot) -> dict[str, str | None]:
    """Return the label by which each pod is selected."""
    return {name: found.labels.get("role") for name, found in snapshot.of("default").pods.items()}


def leased(standing: LeaseStanding, name: str = "web") -> Replacement:
    """Return the change of a Lease."""
    return Replacement(Collection.LEASES, "default", name, standing)


def problem(snapshot: Snapshot, vpa: str = "web-leader") -> tuple[str, str] | None:
    """Return what is told of a VPA."""
    return snapshot.of("default").vpas[vpa].role_problem


LEADS = {"web-0": "leader", "web-1": "follower", "web-2": "follower"}
UNKNOWN = dict.fromkeys(LEADS, None)
HELD = LeaseStanding(LeaseState.HELD, f"web-0_{UUID}", make.NOW)


def test_pods_have_labels_by_their_lease() -> None:
    """The holder is the leader, the others follow, and each says why."""
    view = make.snapshot(*vpas(), *pods(), make.lease_json()).of("default")
    assert roles(Snapshot({"default": view})) == LEADS
    why = "because Lease default/web is held by web-0_4f5c since 2026-01-05 09:00"
    assert [one.roles[0].why for one in view.pods.values()] == [
        f"leader, {why}",
        f"follower, {why}",
        f"follower, {why}",
    ]
    assert [one.roles[0].leads for one in view.pods.values()] == [True, False, False]
    assert view.vpas["web-leader"].role_problem is None


def test_any_order_comes_to_the_same() -> None:
    """It does not matter in which order objects are read."""
    items = [*vpas(), *pods(), make.lease_json(), make.workload_json()]
    for turn in range(len(items)):
        found = Snapshot()
        for item in (*items[turn:], *items[:turn]):
            found = found.changed([make.change(item)])
        assert roles(found) == LEADS
        assert problem(found) is None


def test_a_change_of_hands() -> None:
    """When another pod holds the Lease, the labels of both change, and nothing else does."""
    before = make.snapshot(*vpas(), *pods(), make.lease_json())
    after = before.changed([make.change(make.lease_json("web-1_9"))])
    assert roles(after) == {"web-0": "follower", "web-1": "leader", "web-2": "follower"}
    assert [given_labels(one) for one in after.of("default").pods.values()] == [make.LABELS] * 3


def test_a_lease_that_gets_unstable() -> None:
    """All pods have other labels by the same leader, and the same again when it is quiet."""
    found = make.snapshot(*vpas(), *pods())
    held = LeaseStanding(LeaseState.HELD, "web-0")
    for is_unstable in (False, True, False):
        found = found.changed([leased(replace(held, is_unstable=is_unstable))])
        assert roles(found) == (dict.fromkeys(LEADS, "leader") if is_unstable else LEADS)
        assert (problem(found) is not None) is is_unstable


def test_a_pod_that_changes_keeps_its_role() -> None:
    """What is read of a pod again has the label again; what is not touched stays as it is."""
    before = make.snapshot(*vpas(), *pods(), make.lease_json())
    again = make.pod_json(name="web-0", metadata={"resourceVersion": "2"})
    after = before.changed([make.change(again)])
    view, old = after.of("default"), before.of("default")
    assert view.pods["web-0"].resource_version == "2"
    assert roles(after) == LEADS
    assert view.pods["web-1"] is old.pods["web-1"]
    assert view.roles == old.roles


def test_a_pod_that_comes_follows_at_once() -> None:
    """A new pod follows, also one that takes the name of a leader that is gone."""
    before = make.snapshot(*vpas(), *pods(), make.lease_json(f"web-0_{UUID}"))
    gone = Replacement(Collection.PODS, "default", "web-0", None)
    come = make.change(make.pod_json(name="web-0", metadata={"uid": "another"}))
    assert roles(before.changed([gone])) == {"web-1": "follower", "web-2": "follower"}
    assert roles(before.changed([gone]).changed([come])) == dict.fromkeys(LEADS, "follower")


def test_a_pod_that_is_bound_leads_by_its_host() -> None:
    """A pod on its host's network has a name to lead by as soon as it has a host."""
    lease = make.lease_json(f"node-1_{UUID}")
    before = make.snapshot(*vpas(), make.pod_json(name="web-0"), lease)
    assert roles(before) == {"web-0": None}
    after = before.changed([make.change(make.pod_json(name="web-0", spec=HOST_NETWORK))])
    assert roles(after) == {"web-0": "leader"}


def test_a_real_label_wins() -> None:
    """A pod that has the label itself keeps it, whatever the Lease says."""
    labels = {**make.LABELS, "role": "witness"}
    found = make.snapshot(*vpas(), *pods(2), make.pod_json(name="web-2", labels=labels))
    found = found.changed([leased(LeaseStanding(LeaseState.HELD, "web-2"))])
    assert roles(found) == {"web-0": "follower", "web-1": "follower", "web-2": "witness"}
    assert found.of("default").pods["web-2"].roles == ()


def test_pods_of_other_workloads_have_no_role() -> None:
    """Only pods of the target have labels by its Lease, whatever stands between."""
    replica_set = make.workload_json("ReplicaSet/api-1", owner="Deployment/api")
    vpa = make.vpa_json("api", target="Deployment/api", selector=LEADER, annotations=ROLE)
    ours = make.pod_json(name="api-1-a", owner="ReplicaSet/api-1")
    bare = make.pod_json(name="bare", owner=None)
    found = make.snapshot(vpa, ours, bare, *pods(1), make.lease_json("api-1-a"))
    assert roles(found) == {"api-1-a": None, "bare": None, "web-0": None}
    found = found.changed([make.change(replica_set)])
    assert roles(found) == {"api-1-a": "leader", "bare": None, "web-0": None}
    assert roles(found.changed([make.change(replica_set)])) == roles(found)


def test_other_values() -> None:
    """The labels are those that the annotation names."""
    annotations = {"plumbline/role-lease": "role=web;leader=primary;follower=replica"}
    found = make.snapshot(*vpas(annotations), *pods(2), make.lease_json())
    assert roles(found) == {"web-0": "primary", "web-1": "replica"}


@cases(
    "lease labels told",
    {
        "no Lease": (
            LeaseStanding(LeaseState.MISSING),
            UNKNOWN,
            ("NoLease", "Lease default/web does not exist"),
        ),
        "no right": (
            LeaseStanding(LeaseState.FORBIDDEN, problem="forbidden"),
            UNKNOWN,
            ("NoRight", "Lease default/web may not be watched: forbidden"),
        ),
        "no pod of ours": (
            LeaseStanding(LeaseState.HELD, "other"),
            UNKNOWN,
            (
                "NoPodMatches",
                "Lease default/web is held by other, which names no pod of the workload",
            ),
        ),
        "not read yet": (None, UNKNOWN, ("LeaseNotRead", "Lease default/web is not read yet")),
        "no holder: all follow": (
            LeaseStanding(LeaseState.VACANT),
            dict.fromkeys(LEADS, "follower"),
            None,
        ),
        "expired lately": (LeaseStanding(LeaseState.KEPT, "web-0"), LEADS, None),
        "unstable: all are sized as leaders": (
            LeaseStanding(LeaseState.HELD, "web-0", make.NOW, is_unstable=True),
            dict.fromkeys(LEADS, "leader"),
            (
                "RoleUnstable",
                "Lease default/web changed hands more than 3 times within 10 minutes: all pods "
                "are sized as leader until it is quiet for as long",
            ),
        ),
    },
)
def test_what_is_known(
    lease: LeaseStanding | None,
    labels: dict[str, str | None],
    told: tuple[str, str] | None,
) -> None:
    """Where it is not known who leads no pod gets a label, and the VPA says why."""
    found = make.snapshot(*vpas(), *pods())
    found = found if lease is None else found.changed([leased(lease)])
    assert (roles(found), problem(found)) == (labels, told)


@cases(
    "lease words",
    {
        "vacant": (LeaseStanding(LeaseState.VACANT), "Lease default/web is not held"),
        "kept": (
            LeaseStanding(LeaseState.KEPT, "web-0", make.NOW),
            "Lease default/web was last held by web-0 since 2026-01-05 10:00",
        ),
        "unstable": (
            LeaseStanding(LeaseState.HELD, "web-0", make.NOW, is_unstable=True),
            "Lease default/web changed hands more than 3 times within 10 minutes",
        ),
        "since nobody knows when": (
            LeaseStanding(LeaseState.HELD, "web-0"),
            "Lease default/web is held by web-0",
        ),
    },
)
def test_reasons(lease: LeaseStanding, words: str) -> None:
    """A follower says why it is one, or why it has a leader's size."""
    found = make.snapshot(*vpas(), *pods()).changed([leased(lease)]).of("default")
    assert found.pods["web-1"].roles[0].why.partition(", because ")[2] == words


@cases(
    "annotation told",
    {
        "unreadable": (
            "role",
            (
                "UnreadableAnnotation",
                "annotation plumbline/role-lease: it begins with LABEL-KEY=LEASE-NAME",
            ),
        ),
        "another Lease than that of its sibling": (
            "role=other",
            (
                "RolesContradict",
                "VPAs of StatefulSet/web name different Leases or values for role, "
                "or none that can be read",
            ),
        ),
    },
)
def test_annotations_that_cannot_be_used(annotation: str, told: tuple[str, str]) -> None:
    """An annotation that passed by the webhook is told of, and makes no guess."""
    leader, follower = vpas()
    leader = make.with_value(leader, "metadata.annotations", {"plumbline/role-lease": annotation})
    found = make.snapshot(leader, follower, *pods(), make.lease_json())
    assert problem(found) == told
    assert roles(found) == (LEADS if annotation == "role" else UNKNOWN)


def asking(operator: str, *values: str) -> Json:
    """Return a selector of one expression."""
    found = {"key": "role", "operator": operator}
    return {"matchExpressions": [found | ({"values": list(values)} if values else {})]}


def taken(snapshot: Snapshot, vpa: str) -> list[str]:
    """Return the pods that the selector of a VPA lets in."""
    view = snapshot.of("default")
    selector = view.vpas[vpa].selector
    assert selector is not None
    return [name for name, one in view.pods.items() if selector.matches(one.labels)]


OTHERS = asking("NotIn", "leader")
NOT_KNOWN = {
    "missing": LeaseStanding(LeaseState.MISSING),
    "forbidden": LeaseStanding(LeaseState.FORBIDDEN),
    "unreadable": LeaseStanding(LeaseState.UNREADABLE),
    "held by a stranger": LeaseStanding(LeaseState.HELD, "stranger"),
    "not read yet": None,
}


@pytest.mark.parametrize("selector", [OTHERS, asking("DoesNotExist"), asking("NotIn", "x")])
@pytest.mark.parametrize("lease", list(NOT_KNOWN.values()), ids=list(NOT_KNOWN))
def test_no_selector_guesses(lease: LeaseStanding | None, selector: Json) -> None:
    """While it is not known who leads, what asks for no leader takes no pod, and says why."""
    sibling = make.vpa_json("others", selector=selector)
    found = make.snapshot(*vpas()[:1], sibling, *pods())
    found = found if lease is None else found.changed([leased(lease)])
    assert taken(found, "others") == []
    assert problem(found, "others") == problem(found)
    assert problem(found) is not None


def test_selectors_without_a_value_take_followers() -> None:
    """Once it is known who leads, all others are taken by what asks for no leader."""
    sibling = make.vpa_json("others", selector=OTHERS)
    own = make.pod_json(name="web-3", labels={**make.LABELS, "role": "witness"})
    found = make.snapshot(*vpas()[:1], sibling, *pods(), own)
    assert taken(found, "others") == ["web-3"]
    found = found.changed([leased(HELD)])
    assert taken(found, "others") == ["web-1", "web-2", "web-3"]
    assert problem(found, "others") is None


@cases(
    "named",
    {
        "VPAs contradict each other": (
            [vpas()[0], vpas({"plumbline/role-lease": "role=other"})[1]],
        ),
        "an annotation cannot be read": (vpas({"plumbline/role-lease": "role"})[1:],),
    },
)
def test_no_selector_guesses_by_bad_annotations(named: list[Json]) -> None:
    """What annotations say that cannot be used is not known either, also to a VPA that comes."""
    found = make.snapshot(*named, *pods(), make.lease_json())
    found = found.changed([make.change(make.vpa_json("others", selector=OTHERS))])
    assert taken(found, "others") == []
    assert (problem(found, "others") or ("",))[0] == RoleProblem.CONTRADICTION
    found = found.changed(make.change(item) for item in vpas(None))
    assert taken(found, "others") == ["web-0", "web-1", "web-2"]
    assert problem(found, "others") is None


def test_one_vpa_may_name_the_lease_for_all() -> None:
    """The sibling's selector sees the labels too."""
    leader, follower = vpas()[0], vpas(None)[1]
    found = make.snapshot(leader, follower, *pods(), make.lease_json())
    assert roles(found) == LEADS
    assert (problem(found), problem(found, "web-follower")) == (None, None)


def test_without_the_annotation_all_is_as_it_was() -> None:
    """When the last VPA loses the annotation, pods have their own labels again."""
    found = make.snapshot(*vpas(), *pods(), make.lease_json())
    found = found.changed(make.change(item) for item in vpas(None))
    assert roles(found) == UNKNOWN
    assert found.of("default").roles is NO_ROLES
    assert all(one.roles == () for one in found.of("default").pods.values())


def test_siblings_of_the_vpa_that_names_the_lease() -> None:
    """A VPA that selects by the label is told what is not known, though another names the Lease."""
    leader, follower = vpas()[0], vpas(None)[1]
    other = make.vpa_json("other", selector={"matchLabels": {"zone": "a"}})
    found = make.snapshot(leader, follower, other, *pods())
    found = found.changed([leased(LeaseStanding(LeaseState.MISSING))])
    told = (RoleProblem.NO_LEASE, "Lease default/web does not exist")
    assert [problem(found, name) for name in ("web-leader", "web-follower")] == [told, told]
    assert problem(found, "other") is None
    found = found.changed([leased(HELD)])
    assert problem(found, "web-follower") is None


def test_a_vpa_without_a_target_asks_for_nothing() -> None:
    """A VPA that names no workload has no pods, and nothing to tell."""
    found = make.snapshot(make.vpa_json(target=None, annotations=ROLE))
    assert problem(found, "web") is None


def test_vpas_that_no_lease_concerns() -> None:
    """A VPA without a target, or without a selector, is not told of a Lease that others name."""
    untold = [make.vpa_json("lost", target=None), make.vpa_json("all")]
    found = make.snapshot(*vpas(), *untold, *pods())
    found = found.changed([leased(LeaseStanding(LeaseState.MISSING))])
    assert problem(found) is not None
    assert (problem(found, "lost"), problem(found, "all")) == (None, None)


def test_two_leases_of_one_target() -> None:
    """Labels of different keys come from different Leases."""
    other = {"plumbline/role-lease": "zone=zones;leader=hot;follower=cold"}
    vpa = make.vpa_json("zones", selector={"matchLabels": {"zone": "hot"}}, annotations=other)
    found = make.snapshot(*vpas(), vpa, *pods(2), make.lease_json())
    found = found.changed([leased(LeaseStanding(LeaseState.HELD, "web-1"), "zones")])
    assert [one.labels for one in found.of("default").pods.values()] == [
        {**make.LABELS, "role": "leader", "zone": "cold"},
        {**make.LABELS, "role": "follower", "zone": "hot"},
    ]


@cases(
    "labels leases expected",
    {
        "it follows": ({}, {}, {"role": "follower"}),
        "a real label wins": ({"role": "x"}, {}, {"role": "x"}),
        "it follows, though the Lease is held": ({}, {"web": HELD}, {"role": "follower"}),
        "unstable": (
            {},
            {"web": LeaseStanding(LeaseState.HELD, "a", is_unstable=True)},
            {"role": "leader"},
        ),
        "Leases may not be watched": ({}, {"web": LeaseStanding(LeaseState.FORBIDDEN)}, {}),
    },
)
def test_created_pods(
    labels: dict[str, str], leases: dict[str, LeaseStanding], expected: dict[str, str]
) -> None:
    """A pod that is being created holds no Lease."""
    assert created_labels(labels, [RoleLease("role", "web")], leases) == expected


PODS: Mapping[str, Mapping[str, object]] = {
    "": {},
    "first": {"metadata": {"uid": "first"}},
    "second": {"metadata": {"uid": "second"}},
    "changed": {"metadata": {"uid": "first", "resourceVersion": "2"}},
    "on a host's network": {"spec": HOST_NETWORK},
    "over": {"status": {"phase": "Failed"}},
    "of a ReplicaSet": {"owner": "ReplicaSet/rs"},
    "of another": {"owner": "StatefulSet/else"},
    "with a label": {"labels": {**make.LABELS, "role": "witness"}},
}
WORKLOADS: Mapping[str, str | None] = {"": None, "ours": "StatefulSet/web", "alone": None}
IDENTITIES = [
    "",
    "web-0",
    "web-0!",
    f"web-0_{UUID}",
    "web-1_x",
    "web-1-0_x",
    "web-2-x",
    f"node-1_{UUID}",
]

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 3), st.sampled_from(["a", "b", ""])),
        st.tuples(st.just("lease"), st.integers(0, 4), st.sampled_from(list(LeaseState))),
        st.tuples(st.just("vpa"), st.integers(0, 1), st.sampled_from(["role=web", "role=x", ""])),
    ),
    max_size=25,
)


@given(EVENTS)
def test_at_most_one_leader(events: list[tuple[str, int, str]]) -> None:
    """In any order of events at most one pod leads by a Lease, and only that has its label."""
    found = Snapshot()
    for kind, index, value in events:
        found = found.changed([_event(kind, index, value)])
        view = found.of("default")
        for lease in ("web", "x"):
            leads = [
                one.name
                for one in view.pods.values()
                if any(role.leads and role.lease.lease == lease for role in one.roles)
            ]
            assert len(leads) <= 1
        for one in view.pods.values():
            assert (one.labels.get("role") == "leader") == any(role.leads for role in one.roles)


@cases(
    "before now identity expected",
    {
        "replaced under its name in one batch": (
            {"metadata": {"uid": "old"}},
            {"metadata": {"uid": "new"}},
            f"web-0_{UUID}",
            "follower",
        ),
        "adopted by the workload": ({"owner": "StatefulSet/else"}, {}, "web-0", "leader"),
        "not over any more": ({"status": {"phase": "Failed"}}, {}, "web-0", "leader"),
    },
)
def test_a_pod_that_becomes_another(
    before: Mapping[str, object], now: Mapping[str, object], identity: str, expected: str | None
) -> None:
    """Who leads is worked out again when the pod of the holder's name is not what it was."""
    first, second = (make.pod_json(name="web-0", **one) for one in (before, now))  # type: ignore[arg-type]
    found = make.snapshot(*vpas(), first).changed(
        [leased(LeaseStanding(LeaseState.HELD, identity))]
    )
    assert roles(found.changed([make.change(second)])) == {"web-0": expected}


def test_the_pod_that_is_not_over_leads() -> None:
    """Of two pods of one host's name the one leads that runs when the other has failed."""
    on_host = [make.pod_json(name=f"web-{at}", spec=HOST_NETWORK) for at in range(2)]
    found = make.snapshot(*vpas(), *on_host, make.lease_json(f"node-1_{UUID}"))
    assert (problem(found) or ("",))[0] == RoleProblem.AMBIGUOUS
    over = make.pod_json(name="web-0", spec=HOST_NETWORK, status={"phase": "Failed"})
    assert roles(found.changed([make.change(over)]))["web-1"] == "leader"


def test_a_workload_that_comes_takes_its_name() -> None:
    """A workload whose name a pod has makes the holder a pod of it, and again none if it goes."""
    found = make.snapshot(*vpas(), *pods(2))
    found = found.changed([leased(LeaseStanding(LeaseState.HELD, "web-1-0_x"))])
    come = make.change(make.workload_json("StatefulSet/web-1"))
    assert roles(found)["web-1"] == "leader"
    found = found.changed([come])
    assert roles(found)["web-1"] is None
    assert problem(found) == (
        "NoPodMatches",
        "Lease default/web is held by web-1-0_x, which names no pod of the workload",
    )
    assert roles(found.changed([come._replace(value=None)]))["web-1"] == "leader"


def test_owners_above_each_other() -> None:
    """A target may be ten controllers above its pods, and no more."""
    chain = [
        make.workload_json(f"ReplicaSet/r{at}", owner=f"ReplicaSet/r{at + 1}") for at in range(12)
    ]
    lowest = {9: "leader", 10: None}
    for height, expected in lowest.items():
        target = f"ReplicaSet/r{height}"
        vpa = make.vpa_json(target=target, selector=LEADER, annotations=ROLE)
        found = make.snapshot(vpa, *chain, make.pod_json(name="web-0", owner="ReplicaSet/r0"))
        assert roles(found.changed([leased(HELD)])) == {"web-0": expected}


def test_a_pod_without_a_uid_does_not_lead_when_none_does() -> None:
    """What has no identity is not the same as a Lease without a holder."""
    found = make.snapshot(*vpas(), make.pod_json(name="web-0", metadata={"uid": ""}))
    found = found.changed([leased(LeaseStanding(LeaseState.VACANT))])
    assert roles(found) == {"web-0": "follower"}
    assert not found.of("default").pods["web-0"].roles[0].leads


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("any pod"), st.integers(0, 3), st.sampled_from(sorted(PODS))),
        st.tuples(st.just("workload"), st.integers(0, 2), st.sampled_from(sorted(WORKLOADS))),
        st.tuples(st.just("identity"), st.integers(0, 1), st.sampled_from(IDENTITIES)),
        st.tuples(st.just("vpa"), st.integers(0, 1), st.sampled_from(["role=web", "role=x", "?"])),
    ),
    min_size=3,
    max_size=30,
)


@settings(max_examples=300)
@given(CHANGES, st.integers(1, 4))
def test_each_change_comes_to_what_all_of_it_comes_to(
    events: list[tuple[str, int, str]], size: int
) -> None:
    """What is worked out again with some changes is the same as if everything was."""
    found = make.snapshot(*vpas(), *pods(), make.lease_json())
    for first in range(0, len(events), size):
        known = found.of("default").roles.leaders
        found = found.changed([_event(*one) for one in events[first : first + size]])
        view = found.of("default")
        now = RoleSources(view.vpas, view.leases, view.workloads, view.pods)
        whole = role_change(Roles(leaders=known), RoleSources({}, {}, {}, {}), now, list(view.pods))
        if view.roles is NO_ROLES:
            assert not any(one.roles for one in view.pods.values())
        else:
            assert whole == (view.roles, {}, {})


def _event(kind: str, index: int, value: str) -> Replacement:
    match kind:
        case "any pod" if value:
            pod = make.pod_json(name=f"web-{index}", **PODS[value])  # type: ignore[arg-type]
            return make.change(pod)
        case "any pod":
            return Replacement(Collection.PODS, "default", f"web-{index}", None)
        case "workload":
            name = ("ReplicaSet/rs", "StatefulSet/web-1", "Job/web-2")[index]
            made = make.workload_json(name, owner=WORKLOADS[value])
            change = make.change(made)
            return change if value else change._replace(value=None)
        case "identity":
            is_unstable = value.endswith("!")
            holder = value.removesuffix("!")
            lease = LeaseStanding(LeaseState.HELD, holder, None, is_unstable) if value else None
            return Replacement(Collection.LEASES, "default", ("web", "x")[index], lease)
        case "pod" if value:
            return make.change(
                make.pod_json(name=f"web-{index}", metadata={"uid": value + str(index)})
            )
        case "pod":
            return Replacement(Collection.PODS, "default", f"web-{index}", None)
        case "lease":
            state = LeaseState(value)
            is_known = state in (LeaseState.HELD, LeaseState.KEPT)
            holder = f"web-{index}_{UUID}" if is_known else ""
            return leased(LeaseStanding(state, holder, make.NOW + timedelta(minutes=index)))
        case _:
            annotations = {"plumbline/role-lease": value} if value else None
            return make.change(vpas(annotations)[index])


@pytest.mark.parametrize("name", ["a" * 63, "a" * 64])
def test_names_at_the_limit(name: str) -> None:
    """Names of hosts end at 63 characters."""
    assert lead(f"{name[:63]}_1", pod(name)).pod == name


def test_what_is_only_sized_as_a_leader_acts_as_a_follower() -> None:
    """Of a Lease that changes hands too often the holder alone leads, and is learned of so."""
    unstable = LeaseStanding(LeaseState.HELD, "web-0", make.NOW, is_unstable=True)
    found = make.snapshot(*vpas(), *pods()).changed([leased(unstable)]).of("default").pods
    acting = {name: as_acting(one) for name, one in found.items()}
    assert {name: one.labels["role"] for name, one in acting.items()} == LEADS
    assert acting["web-0"] is found["web-0"]


def test_pods_by_lease() -> None:
    """The pods are known whose roles a Lease decides about."""
    other = make.pod_json(name="api-0", owner="StatefulSet/api")
    view = make.snapshot(*vpas(), *pods(), other, make.lease_json()).of("default")
    assert [one.name for one in view.pods_by_lease("web")] == ["web-0", "web-1", "web-2"]
    assert list(view.pods_by_lease("api")) == []
    assert list(make.snapshot(*pods()).of("default").pods_by_lease("web")) == []
