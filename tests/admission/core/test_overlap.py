"""VPAs that claim the same pods are found, also while they are being stored."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.admission.core.field_errors import ErrorKind, FieldError, FieldWarning
from app.admission.core.overlap import (
    LIFETIME_SECONDS,
    LONGEST_SECONDS,
    Disjointness,
    PendingVpas,
    SiblingsWanted,
    conflicts,
    needs_siblings,
    overlap_findings,
)
from app.admission.core.vpa_review import read_vpa_review
from app.model.review import AdmissionRequest
from app.model.selectors import Selector
from app.model.vpa import Vpa
from tests import make
from tests.cases import cases

LEADER: dict[str, Any] = {"matchLabels": {"role": "leader"}}
FOLLOWER: dict[str, Any] = {"matchLabels": {"role": "follower"}}
PROD: dict[str, Any] = {"matchLabels": {"env": "prod"}}
ENFORCE, WARN, OFF = Disjointness.ENFORCE, Disjointness.WARN, Disjointness.OFF


new = partial(make.vpa_json, "new")
old = partial(make.vpa, "old")


def labels(**words: str) -> dict[str, Any]:
    """Return a selector of labels."""
    return {"matchLabels": words}


def role(operator: str, *values: str) -> dict[str, Any]:
    """Return a selector of one expression."""
    return {"matchExpressions": [{"key": "role", "operator": operator, "values": list(values)}]}


BASE = new(selector=LEADER)
CONTRADICTION = {**LEADER, **role("In", "follower")}
WITHOUT_API_VERSION = {"kind": "StatefulSet", "name": "web"}
LEAVING = {"deletionTimestamp": "2026-01-05T10:00:00Z"}
CATCH_ALL, KEYS, VALUES = "(catch-all)", "(different keys)", "(overlapping values)"


@cases(
    "stored new path why",
    {
        "both take all": (None, None, "spec.targetRef", CATCH_ALL),
        "the stored takes all": (None, LEADER, "spec.selector", CATCH_ALL),
        "the new takes all": (LEADER, None, "spec.selector", CATCH_ALL),
        "different keys": (PROD, LEADER, "spec.selector", KEYS),
        "same value, other keys": (
            labels(role="leader", env="prod"),
            labels(role="leader", tier="x"),
            "spec.selector",
            VALUES,
        ),
    },
)
def test_conflict(
    stored: dict[str, Any] | None, new: dict[str, Any] | None, path: str, why: str
) -> None:
    """Two VPAs that a pod could match are told apart by nothing; the text says which and why."""
    other = old(selector=stored)
    (found,) = conflicts(make.vpa("new", selector=new), [other])
    assert (found.path, found.kind) == (path, ErrorKind.FORBIDDEN)
    assert found.detail.endswith(why)
    assert "StatefulSet/web" in found.detail
    assert 'VerticalPodAutoscaler "old"' in found.detail


@cases(
    "other is_sibling",
    {
        "same target": (old(), True),
        "itself": (make.vpa("new"), False),
        "another namespace": (old(namespace="other"), False),
        "another name": (old(target="StatefulSet/db"), False),
        "another kind": (old(target="Deployment/web"), False),
        "version": (old(target="apps/v1beta1/StatefulSet/web"), True),
        "another group": (old(target="x.io/v1/StatefulSet/web"), False),
        "a forgotten group": (old(target="v1/StatefulSet/web"), True),
        "no apiVersion": (old(spec={"targetRef": WITHOUT_API_VERSION}), True),
        "no target": (old(target=None), False),
        "on its way out": (old(metadata=LEAVING), False),
        "one that selects nothing": (old(selector=CONTRADICTION), False),
    },
)
def test_siblings(other: Vpa, is_sibling: bool) -> None:
    """Only VPAs of the same target in the same namespace count, and only while they stay."""
    assert bool(list(conflicts(make.vpa("new"), [other]))) is is_sibling


def test_no_api_version_equals_any() -> None:
    """A custom target without apiVersion may be the one of any group."""
    new = make.vpa("new", spec={"targetRef": {"kind": "Rollout", "name": "web"}})
    other = old(target="argoproj.io/v1/Rollout/web")
    assert list(conflicts(new, [other]))
    assert list(conflicts(other, [new]))


def test_strongest_first() -> None:
    """Each rival is named once, the strongest first; without a target there is none."""
    others = [
        make.vpa(name, created=day) for name, day in (("b", "2026-01-02"), ("a", "2026-01-03"))
    ]
    found = [error.detail for error in conflicts(make.vpa("new"), others)]
    assert ['"b"' in found[0], '"a"' in found[1]] == [True, True]
    assert not list(conflicts(make.vpa("new", target=None), others))


def create(vpa: dict[str, Any] | None = None, subresource: str | None = None) -> AdmissionRequest:
    """Return a review of a creation."""
    return make.review(vpa or BASE, subresource=subresource)


def update(to: dict[str, Any], *, before: dict[str, Any] = BASE) -> AdmissionRequest:
    """Return a review of an update."""
    return make.review(to, old=before, operation="UPDATE")


@cases(
    "request_ mode is_decisive",
    {
        "creation": (create(), ENFORCE, True),
        "creation, only warned of": (create(), WARN, False),
        "selector": (update(new(selector=FOLLOWER)), ENFORCE, True),
        "selector taken away": (update(new()), ENFORCE, True),
        "target": (update(new(selector=LEADER, target="StatefulSet/db")), ENFORCE, True),
        "target that was missing": (
            update(BASE, before=new(selector=LEADER, target=None)),
            ENFORCE,
            True,
        ),
        "selector that was broken": (
            update(new(), before=new(selector=role("Like"))),
            ENFORCE,
            True,
        ),
        "mode": (update(new(selector=LEADER, mode="Off")), ENFORCE, False),
        "version of the target": (
            update(new(selector=LEADER, target="apps/v1beta1/StatefulSet/web")),
            ENFORCE,
            False,
        ),
        "spelling of the selector": (update(new(selector=role("In", "leader"))), ENFORCE, False),
    },
)
def test_needs_siblings(request_: AdmissionRequest, mode: Disjointness, is_decisive: bool) -> None:
    """Siblings decide when pods are claimed anew; otherwise they only cause warnings."""
    asked = needs_siblings(request_, mode)
    target = request_.new["spec"]["targetRef"] if isinstance(request_.new, dict) else {}
    assert asked == SiblingsWanted(
        "default", "StatefulSet", target["name"], is_decisive, make.vpa()
    )


@cases(
    "request_ mode",
    {
        "not asked for": (create(), OFF),
        "status": (create(subresource="status"), ENFORCE),
        "deletion": (make.review(None, old=BASE, operation="DELETE"), ENFORCE),
        "no target": (create(make.vpa_json(target=None)), ENFORCE),
        "no name": (create(make.vpa_json(target="StatefulSet/")), ENFORCE),
        "no kind": (create(make.vpa_json(target="v1//web")), ENFORCE),
        "odd": (create(make.vpa_json(mode="Off", spec={"recommenders": 5})), ENFORCE),
        "broken selector": (create(make.vpa_json(selector=role("Like"))), ENFORCE),
        "selects nothing": (create(make.vpa_json(selector=CONTRADICTION)), ENFORCE),
        "on its way out": (create(make.vpa_json(metadata=LEAVING)), ENFORCE),
    },
)
def test_needs_no_siblings(request_: AdmissionRequest, mode: Disjointness) -> None:
    """What claims no pods, or is refused anyway, asks for nobody."""
    assert needs_siblings(request_, mode) is None
    assert (
        list(overlap_findings(read_vpa_review(request_), None, mode)) == [] or request_.subresource
    )


RIVAL = old(selector=LEADER)


@cases(
    "request_ mode kind",
    {
        "a new one is refused": (create(), ENFORCE, FieldError),
        "a new one is warned of": (create(), WARN, FieldWarning),
        "changed": (update(BASE, before=new()), ENFORCE, FieldError),
        "labelled": (
            update(BASE, before=new(selector=LEADER, metadata={"labels": {}})),
            ENFORCE,
            FieldWarning,
        ),
    },
)
def test_ratchet(request_: AdmissionRequest, mode: Disjointness, kind: type) -> None:
    """VPAs that overlap already stay editable, with a warning."""
    (found,) = overlap_findings(read_vpa_review(request_), [RIVAL], mode)
    assert type(found) is kind
    assert 'VerticalPodAutoscaler "old"' in str(found)


def test_named_once() -> None:
    """A rival that is handed in twice, stored and on its way, is named once."""
    assert len(list(overlap_findings(read_vpa_review(create()), [RIVAL, RIVAL], ENFORCE))) == 1


def test_siblings_unknown() -> None:
    """When nobody knows the siblings, the VPA passes and its author hears of it."""
    (found,) = overlap_findings(read_vpa_review(create()), None, ENFORCE)
    assert isinstance(found, FieldWarning)
    assert "could not be read" in found.text


_EXPRESSION = st.fixed_dictionaries(
    {
        "key": st.sampled_from("ab"),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": st.lists(st.sampled_from("xyz"), min_size=1, max_size=2),
    }
).map(lambda e: e if "In" in e["operator"] else {**e, "values": []})
_SELECTOR = st.none() | st.fixed_dictionaries(
    {"matchExpressions": st.lists(_EXPRESSION, max_size=3)}
)
_POD = st.dictionaries(st.sampled_from("ab"), st.sampled_from("wxyz"))


@given(_SELECTOR, _SELECTOR, _POD)
def test_no_pod_has_two_vpas(
    one: dict[str, Any] | None, other: dict[str, Any] | None, pod: dict[str, str]
) -> None:
    """Whatever passes, no pod can match both; and it does not matter who came first."""
    first, second = make.vpa("first", selector=one), make.vpa("second", selector=other)
    is_refused = bool(list(conflicts(first, [second])))
    assert is_refused == bool(list(conflicts(second, [first])))
    takes_all = Selector()
    if not is_refused:
        assert not all((vpa.selector or takes_all).matches(pod) for vpa in (first, second))


def test_held() -> None:
    """A claim holds until it must be stored."""
    first, second = make.vpa("first"), make.vpa("second")
    claims = PendingVpas().adding(first, 100.0).adding(second, 100.5)
    times = (100.5, 100.0 + LIFETIME_SECONDS, 100.5 + LIFETIME_SECONDS)
    found = [[vpa.name for vpa in claims.pending(time)] for time in times]
    assert found == [["first", "second"], ["second"], []]


def test_a_claim_is_what_others_are_compared_with() -> None:
    """Of a VPA that is remembered nothing is kept but what decides whether another overlaps."""
    policies = [make.policy_json(f"c{number}") for number in range(100)]
    vpa = make.vpa("web", policies=policies, cpu="1", selector=LEADER)
    claims = PendingVpas().adding(vpa, 100.0)
    (kept,) = claims.pending(100.0)
    assert (kept.policies, kept.recommendation, claims.weight) == (None, None, 3)
    assert list(conflicts(make.vpa("other"), [kept])) == list(conflicts(make.vpa("other"), [vpa]))
    assert PendingVpas().adding(make.vpa(), 0.0).weight == 1


def test_forgets() -> None:
    """Adding clears what no review can ask for any more, so that nothing piles up."""
    claims = PendingVpas().adding(make.vpa("first"), 0.0)
    claims = claims.adding(make.vpa("second"), LIFETIME_SECONDS + LONGEST_SECONDS)
    assert len(claims.accepted) == 1
