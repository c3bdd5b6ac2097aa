"""The annotation that names a Lease is judged when it is written, and new pods follow by it."""

from __future__ import annotations

from app.admission.core.field_errors import FieldError
from app.admission.core.mutate import PodAdmission, PodRules, PodVerdict
from app.admission.core.overlap import Disjointness, PendingVpas, conflicts
from app.admission.core.validate import Phase, VpaReason, VpaVerdict, review_vpa
from app.model.fields import Json
from app.model.role_leases import LeaseStanding, LeaseState
from app.model.snapshot import Collection, Replacement
from app.model.vpa import Vpa
from tests import make
from tests.cases import cases

LEADER: Json = {"matchLabels": {"role": "leader"}}
FOLLOWER: Json = {"matchLabels": {"role": "follower"}}
PATH = "metadata.annotations[plumbline/role-lease]"
UNSTABLE = LeaseStanding(LeaseState.HELD, "web-0", is_unstable=True)


def named(lease: str | None, *, selector: Json | None = LEADER, mode: str | None = None) -> Json:
    """Return the VPA of the leader, with the annotation."""
    annotations = None if lease is None else {"plumbline/role-lease": lease}
    return make.vpa_json("leader", annotations=annotations, selector=selector, mode=mode)


def asking(operator: str, *values: str) -> Json:
    """Return a selector of one expression."""
    found = {"key": "role", "operator": operator}
    return {"matchExpressions": [found | ({"values": list(values)} if values else {})]}


def judge(new: Json, old: Json | None = None, *siblings: Vpa) -> VpaVerdict:
    """Judge the creation of a VPA, or its update if there is an old one."""
    operation = "CREATE" if old is None else "UPDATE"
    request = make.review(make.vpa_json(), operation=operation)._replace(new=new, old=old)
    rules, phase = Disjointness.ENFORCE, Phase.VALIDATING
    return review_vpa(request, make.NO_GATES, siblings, rules, phase=phase)


@cases(
    "vpa told",
    {
        "the label that it selects": (named("role=web"), None),
        "one of several values": (named("role=web", selector=asking("In", "leader", "x")), None),
        "any value": (named("role=web", selector=asking("Exists")), None),
        "other values": (
            named("role=web;leader=primary", selector={"matchLabels": {"role": "primary"}}),
            None,
        ),
        "malformed": (
            named("role"),
            'Invalid value: "role": it begins with LABEL-KEY=LEASE-NAME',
        ),
        "no selector": (
            named("role=web", selector=None),
            'Invalid value: "role=web": spec.selector must ask for the label "role", as '
            "matchLabels do",
        ),
        "a selector of another label": (
            named("tier=web"),
            'Invalid value: "tier=web": spec.selector must ask for the label "tier", as '
            "matchLabels do",
        ),
        "a selector that does not require it": (
            named("role=web", selector=asking("NotIn", "leader")),
            'Invalid value: "role=web": spec.selector must ask for the label "role", as '
            "matchLabels do",
        ),
        "a value that no pod gets": (
            named("role=web", selector={"matchLabels": {"role": "primary"}}),
            'Invalid value: "role=web": spec.selector takes neither "leader" nor "follower"; '
            "other values are named behind the Lease: ;leader=VALUE;follower=VALUE",
        ),
    },
)
def test_annotations(vpa: Json, told: str | None) -> None:
    """The annotation has a grammar, and gives a label that the selector asks for."""
    assert [str(error) for error in judge(vpa).errors] == ([f"{PATH}: {told}"] if told else [])


def test_a_change_of_the_annotation_alone_is_judged() -> None:
    """It is metadata, and decides about pods as a spec does."""
    assert judge(named("role"), named(None)).reason is VpaReason.INVALID
    assert judge(named("tier=web"), named("role=web")).reason is VpaReason.INVALID
    assert judge(named("role=other"), named("role=web")).allowed


def test_what_is_stored_stays_editable() -> None:
    """A VPA that has such an annotation already may be changed elsewhere, with a warning."""
    verdict = judge(named("role", mode="Initial"), named("role"))
    assert verdict.allowed
    assert any(PATH in warning for warning in verdict.warnings)
    assert judge(named("role"), named("role")).allowed


def test_a_selector_with_errors_is_judged_alone() -> None:
    """What the annotation needs of a selector cannot be told of one that cannot be read."""
    verdict = judge(named("role=web", selector={"matchLabels": {"role": "a b"}}))
    assert [error.path for error in verdict.errors] == ["spec.selector.matchLabels[role]"]


def sibling(
    lease: str | None, *, selector: Json = FOLLOWER, target: str = "StatefulSet/web"
) -> Vpa:
    """Return the VPA of the followers."""
    annotations = None if lease is None else {"plumbline/role-lease": lease}
    return make.vpa("follower", selector=selector, annotations=annotations, target=target)


LEADERS = make.vpa("leader", annotations={"plumbline/role-lease": "role=web"}, selector=LEADER)


@cases(
    "other told",
    {
        "the same": (sibling("role=web"), None),
        "the same, in other words": (sibling("role=web;follower=follower"), None),
        "none: its labels come from the other annotation": (sibling(None), None),
        "one that cannot be read": (sibling("role"), None),
        "another key": (sibling("tier=other"), None),
        "another workload": (sibling("role=other", target="StatefulSet/api"), None),
        "another Lease": (sibling("role=other"), "role=other"),
        "other values": (sibling("role=web;follower=standby"), "role=web;follower=standby"),
    },
)
def test_siblings(other: Vpa, told: str | None) -> None:
    """VPAs of one workload give a label by one Lease, and with the same values."""
    found = list(conflicts(LEADERS, [other]))
    expected = (
        f'{PATH}: Forbidden: VerticalPodAutoscaler "follower" of StatefulSet/web gives the same '
        f'label by "{told}"; both have to name one Lease, and one value for each role'
    )
    assert [str(error) for error in found] == ([expected] if told else [])


REPLICA: Json = {"matchLabels": {"role": "replica"}}


@cases(
    "new other is_warned",
    {
        "a value that pods get": (named("role=web"), sibling(None), False),
        "all others": (named("role=web"), sibling(None, selector=asking("NotIn", "leader")), False),
        "another label": (
            named("role=web"),
            sibling(None, selector={"matchLabels": {"role": "follower", "zone": "a"}}),
            False,
        ),
        "a value that none gets": (named("role=web"), sibling(None, selector=REPLICA), True),
        "written after the other": (
            named(None, selector=REPLICA),
            sibling("role=web", selector=FOLLOWER),
            True,
        ),
    },
)
def test_values_of_siblings(new: Json, other: Vpa, is_warned: bool) -> None:
    """A VPA that no pod would match by the other's Lease is let pass with a warning.

    Pods may have that label of their own.
    """
    verdict = judge(new, None, other)
    assert verdict.allowed
    told = [str(one) for one in verdict.warnings if "by Lease" in str(one)]
    assert len(told) == is_warned


def test_a_sibling_with_another_lease_refuses() -> None:
    """A VPA is refused for it, also if only the annotation changes."""
    other = sibling("role=other")
    for old in (None, named(None), named("role=other")):
        assert judge(named("role=web"), old, other).reason is VpaReason.OVERLAPPING
    assert judge(named("role=web", mode="Initial"), named("role=web"), other).allowed


def test_overlaps_are_told_as_before() -> None:
    """Whatever Leases say, selectors must be disjoint by themselves."""
    other = sibling("role=web", selector=asking("Exists"))
    (found,) = conflicts(LEADERS, [other])
    assert found.path == "spec.selector"


def test_claims_keep_the_annotation() -> None:
    """A VPA that is not stored yet is compared with others by its Lease too."""
    (kept,) = PendingVpas().adding(sibling("role=other"), 1.0).pending(1.0)
    errors: list[FieldError] = list(conflicts(LEADERS, [kept]))
    assert len(errors) == 1


# --- pods that are being created


def created(*leases: Replacement, labels: dict[str, str] | None = None) -> PodVerdict:
    """Return what a pod gets that takes the place of the leader."""
    snapshot = make.snapshot(
        LEADERS,
        sibling("role=web"),
        make.workload_json(),
    ).changed(leases)
    pod = make.pod_json(name="web-0", labels={**make.LABELS, **(labels or {})})
    verdict = PodAdmission(PodRules()).admit(make.review(pod), snapshot.of("default"), {})
    assert isinstance(verdict, PodVerdict)
    return verdict


def leased(standing: LeaseStanding) -> Replacement:
    """Return the change of the Lease."""
    return Replacement(Collection.LEASES, "default", "web", standing)


@cases(
    "leases labels vpa",
    {
        "the Lease is not known": ([], {}, "follower"),
        "a pod of that name holds it": (
            [leased(LeaseStanding(LeaseState.HELD, "web-0"))],
            {},
            "follower",
        ),
        "a label of its own": ([], {"role": "leader"}, "leader"),
        "it changed hands too often": ([leased(UNSTABLE)], {}, "leader"),
    },
)
def test_created_pods(leases: list[Replacement], labels: dict[str, str], vpa: str) -> None:
    """A new pod holds no Lease, so it follows, which no label could say."""
    match = created(*leases, labels=labels).match
    assert match is not None
    assert match.vpa is not None
    given = "" if labels else f", with role={vpa} by its Lease"
    assert (match.vpa.name, match.message) == (
        vpa,
        f"VPA {vpa} targets StatefulSet/web{given}",
    )
