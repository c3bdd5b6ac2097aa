"""Verdicts on VPAs, from the review to the answer."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence

import orjson
from hypothesis import given
from hypothesis import strategies as st

from app.admission.core.field_errors import ErrorKind
from app.admission.core.overlap import Disjointness
from app.admission.core.validate import (
    Phase,
    VpaReason,
    VpaVerdict,
    review_vpa,
)
from app.model.fields import Json
from app.model.gates import FeatureGate, FeatureGates, ServerVersion
from app.model.review import AdmissionRequest
from app.model.snapshot import EMPTY_VIEW, NamespaceView
from app.model.vpa import Vpa
from tests import make
from tests.cases import cases
from tests.junk import ANYTHING, objects_like
from tests.make import ALL_GATES, NO_GATES

Errors = list[tuple[str, ErrorKind]]

RULES = Disjointness.ENFORCE
IN_PLACE = FeatureGates(frozenset({FeatureGate.IN_PLACE}))
REQUIRED, INVALID, FORBIDDEN = ErrorKind.REQUIRED, ErrorKind.INVALID, ErrorKind.FORBIDDEN
NOT_SUPPORTED, TOO_MANY = ErrorKind.NOT_SUPPORTED, ErrorKind.TOO_MANY
POLICY = "spec.resourcePolicy.containerPolicies[0]"
UPDATE = "spec.updatePolicy"
HIGHER = "TargetHigherThanRequests"


def judge(
    new: object,
    *,
    old: object = None,
    gates: FeatureGates = NO_GATES,
    siblings: Sequence[Vpa] | None = (),
    rules: Disjointness = RULES,
    phase: Phase = Phase.MUTATING,
    view: NamespaceView = EMPTY_VIEW,
    server: ServerVersion | None = None,
) -> VpaVerdict:
    """Judge the creation of a VPA, or its update if there is an old one."""
    operation = "CREATE" if old is None else "UPDATE"
    request = make.review(make.vpa_json(), operation=operation)._replace(new=new, old=old)
    return review_vpa(request, gates, siblings, rules, phase=phase, view=view, server=server)


def errors(verdict: VpaVerdict) -> Errors:
    """Return where something is wrong, and how."""
    return [(error.path, error.kind) for error in verdict.errors]


def vpa(
    policy: Json | None = None,
    *,
    mode: str | None = "Off",
    boost: Json | None = None,
    selector: Json | None = None,
    spec: Json | None = None,
) -> Json:
    """Return a VPA, by default of a mode that needs no default."""
    policies = None if policy is None else [policy]
    return make.vpa_json(mode=mode, policies=policies, boost=boost, selector=selector, spec=spec)


def updating(**fields: object) -> Json:
    """Return a VPA with this update policy."""
    return vpa(spec={"updatePolicy": fields})


POLICY_JSON = make.policy_json
FACTOR = make.boost_json(factor=2)


@cases(
    "new gates expected warnings",
    {
        "valid": (vpa(), NO_GATES, [], 0),
        "a deprecated mode is warned of": (vpa(mode="Auto"), NO_GATES, [], 1),
        "gate off": (vpa(mode="InPlace"), NO_GATES, [(f"{UPDATE}.updateMode", FORBIDDEN)], 0),
    },
)
def test_created(new: Json, gates: FeatureGates, expected: Errors, warnings: int) -> None:
    """A new VPA is refused for what is wrong with it, at the field where it is."""
    verdict = judge(new, gates=gates)
    assert verdict.allowed is not bool(expected)
    assert (errors(verdict), len(verdict.warnings)) == (expected, warnings)


WAS_BOOSTED = vpa(boost=FACTOR)


FACTOR = make.boost_json(factor=2)
OLD_SERVER = (
    "{}: this is Kubernetes 1.32, and only from 1.33 on running pods can be resized, "
    "so boosted pods keep their CPU for their whole life"
)
NO_PROBE = (
    "{}: without a readiness or startup probe in each boosted container pods may be Ready, "
    "and their boosts over, long before they have started; missing in app"
)


@cases(
    "new server probed expected",
    {
        "all is there": (vpa(boost=FACTOR), (1, 33), True, []),
        "no boost": (vpa(), (1, 32), False, []),
        "no boost here": (vpa(boost={}), (1, 32), False, []),
        "an old server": (vpa(boost=FACTOR), (1, 32), True, [(OLD_SERVER, "spec.startupBoost")]),
        "one of unknown age": (vpa(boost=FACTOR), None, True, []),
        "no probe": (vpa(boost=FACTOR), (1, 33), False, [(NO_PROBE, "spec.startupBoost")]),
        "of a policy": (
            vpa(make.policy_json("app", boost=FACTOR)),
            (1, 32),
            False,
            [(OLD_SERVER, f"{POLICY}.startupBoost"), (NO_PROBE, f"{POLICY}.startupBoost")],
        ),
    },
)
def test_what_boosts_need(
    new: Json, server: ServerVersion | None, probed: bool, expected: list[tuple[str, str]]
) -> None:
    """A boost that cannot end, or may end too early, is stored with a warning."""
    probe = {"httpGet": {"port": 80}} if probed else None
    workload = make.workload_json(containers=[make.container_json("app", startupProbe=probe)])
    view = make.snapshot(workload).of("default")
    found = judge(new, gates=ALL_GATES, view=view, server=server)
    assert found.allowed
    assert list(found.warnings) == [text.format(path) for text, path in expected]


@cases(
    "value expected",
    {
        "a boolean": ("true", []),
        "another": ("F", []),
        "none": (
            "yes",
            [
                'metadata.annotations[plumbline/paused]: "yes" is no boolean; it counts as true, '
                "so running pods are neither evicted nor resized"
            ],
        ),
    },
)
def test_a_pause_that_is_no_boolean(value: str, expected: list[str]) -> None:
    """A VPA is stored whatever pauses it, with a warning if that is no boolean."""
    found = judge(make.vpa_json(annotations={"plumbline/paused": value}))
    assert (found.allowed, list(found.warnings)) == (True, expected)


@cases(
    "new old expected warnings",
    {
        "mode": (updating(updateMode="InPlace", minReplicas=2), vpa(mode="InPlace"), [], 0),
        "a boost whose gate was closed is still checked": (
            vpa(boost=make.boost_json(factor=0)),
            WAS_BOOSTED,
            [("spec.startupBoost.cpu.factor", INVALID)],
            0,
        ),
        "one field of the gate keeps all of them open": (
            updating(updateMode="Off", evictAfterOOMSeconds=0),
            vpa(POLICY_JSON(oomMinBumpUp="1Mi")),
            [(f"{UPDATE}.evictAfterOOMSeconds", INVALID)],
            0,
        ),
        "a target is only required of new ones": (make.vpa_json(target=None), vpa(), [], 0),
        "unreadable before": (vpa(), {"spec": 5}, [("spec", INVALID)], 0),
        "unreadable now": ({"spec": 5}, vpa(), [("spec", INVALID)], 0),
    },
)
def test_updated(new: Json, old: Json, expected: Errors, warnings: int) -> None:
    """With gates off, an update may keep what it found, but the rules still hold."""
    verdict = judge(new, old=old)
    assert (errors(verdict), len(verdict.warnings)) == (expected, warnings)


VERY_BROKEN = make.vpa_json(
    target=None,
    policies=[
        make.policy_json("app", resources=["cpu", "memory", "broken"], boost={"cpu": {}}),
    ],
    boost={},
    spec={
        "updatePolicy": {"updateMode": "bad", "minReplicas": -1, "evictAfterOOMSeconds": -1},
        "recommenders": [{"name": "a"}, {"name": "b"}],
    },
)


def test_very_broken() -> None:
    """A VPA with eight faults hears of all eight, in their order."""
    assert errors(judge(VERY_BROKEN)) == [
        ("spec.targetRef", REQUIRED),
        (f"{UPDATE}.updateMode", NOT_SUPPORTED),
        (f"{UPDATE}.minReplicas", INVALID),
        (f"{UPDATE}.evictAfterOOMSeconds", FORBIDDEN),
        (f"{POLICY}.controlledResources[2]", NOT_SUPPORTED),
        (f"{POLICY}.startupBoost", FORBIDDEN),
        ("spec.startupBoost", FORBIDDEN),
        ("spec.recommenders", TOO_MANY),
    ]


RECREATE = {"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}
PLAIN = vpa(mode=None)


@cases(
    "new old phase is_patched",
    {
        "created": (PLAIN, None, Phase.MUTATING, True),
        "updated": (PLAIN, vpa(), Phase.MUTATING, True),
        "labelled": (PLAIN, PLAIN, Phase.MUTATING, True),
        "too late to change it": (PLAIN, None, Phase.VALIDATING, False),
        "it has one": (vpa(), None, Phase.MUTATING, False),
        "null is absent": (vpa(spec={"updatePolicy": None}), None, Phase.MUTATING, True),
        "empty is refused": (updating(), None, Phase.MUTATING, False),
        "refused otherwise": (vpa({}, mode=None), None, Phase.MUTATING, False),
        "no spec to put it into": ({}, vpa(), Phase.MUTATING, False),
    },
)
def test_default(new: Json, old: Json | None, phase: Phase, is_patched: bool) -> None:
    """A valid VPA without an update policy gets one that says what is meant anyway."""
    verdict = judge(new, old=old, phase=phase)
    assert verdict.patch == ((RECREATE,) if is_patched else ())
    assert (verdict.reason is VpaReason.DEFAULTED) is is_patched


TERMINATING = {"metadata": {"name": "web", "deletionTimestamp": "2026-01-05T10:00:00Z"}}


@cases(
    "request_",
    {
        "deletion": (make.review(None, old=VERY_BROKEN, operation="DELETE"),),
        "a finalizer on the way out": (
            make.review(VERY_BROKEN | TERMINATING, old=VERY_BROKEN, operation="UPDATE"),
        ),
    },
)
def test_exempt(request_: AdmissionRequest) -> None:
    """What writes no spec is never refused, never warned of, and never changed."""
    verdict = review_vpa(request_, NO_GATES, None, RULES, phase=Phase.MUTATING)
    assert verdict == VpaVerdict(VpaReason.EXEMPT)
    assert verdict.allowed


@cases(
    "item warnings",
    {
        "invalid, less what only new ones must have": (VERY_BROKEN, 6),
        "unreadable": ({"spec": 5}, 2),
        "a bad quantity": (vpa(POLICY_JSON(oomMinBumpUp="x")), 2),
        "garbage in status": ({**vpa(), "status": 5}, 2),
    },
)
def test_stored_that_way(item: Json, warnings: int) -> None:
    """However a bad object got in, it can still be labelled and lose its finalizers."""
    labelled = {**item, "metadata": {"name": "web", "labels": {"a": "b"}}}
    verdict = judge(labelled, old=item)
    assert verdict.reason is VpaReason.TOLERATED
    assert verdict.allowed
    assert not verdict.patch
    assert len(verdict.warnings) == warnings, verdict.warnings
    assert all("tolerated" in warning for warning in verdict.warnings)
    assert not judge({**labelled, "spec": {"recommenders": 5}}, old=item).allowed


RIVAL = make.vpa("old", selector={"matchLabels": {"role": "leader"}})
LEADER = make.vpa_json("new", mode="Off", selector={"matchLabels": {"role": "leader"}})
FOLLOWER = make.vpa_json("new", mode="Off", selector={"matchLabels": {"role": "follower"}})
CROWDED = make.with_value(LEADER, "spec.recommenders", [{}, {}])
WARN, OFF = Disjointness.WARN, Disjointness.OFF


@cases(
    "new siblings rules reason warnings",
    {
        "refused": (LEADER, [RIVAL], RULES, VpaReason.OVERLAPPING, 0),
        "kept apart": (FOLLOWER, [RIVAL], RULES, VpaReason.ACCEPTED, 0),
        "only warned of": (LEADER, [RIVAL], WARN, VpaReason.ACCEPTED, 1),
        "not looked at": (LEADER, [RIVAL], OFF, VpaReason.ACCEPTED, 0),
        "not looked at, unknown": (LEADER, None, OFF, VpaReason.ACCEPTED, 0),
        "siblings unknown": (LEADER, None, RULES, VpaReason.SIBLINGS_UNKNOWN, 1),
        "something else is wrong too": (CROWDED, [RIVAL], RULES, VpaReason.INVALID, 0),
    },
)
def test_overlap(
    new: Json,
    siblings: list[Vpa] | None,
    rules: Disjointness,
    reason: VpaReason,
    warnings: int,
) -> None:
    """Two VPAs may share a target only if no pod can have both."""
    request = make.review(new)
    verdict = review_vpa(request, NO_GATES, siblings, rules, phase=Phase.VALIDATING)
    assert (verdict.reason, len(verdict.warnings)) == (reason, warnings)
    assert verdict.allowed is (reason not in (VpaReason.OVERLAPPING, VpaReason.INVALID))


@cases(
    "request_ rules claims",
    {
        "created": (make.review(LEADER), RULES, True),
        "never stored": (make.review(LEADER, dry_run=True), RULES, False),
        "refuses nobody": (make.review(LEADER), WARN, False),
        "as before": (make.review(LEADER, old=LEADER, operation="UPDATE"), RULES, False),
        "no name yet": (make.review(make.vpa_json("", mode="Off"))._replace(name=""), RULES, False),
        "refused": (make.review(VERY_BROKEN), RULES, False),
    },
)
def test_claim(request_: AdmissionRequest, rules: Disjointness, claims: bool) -> None:
    """Whoever takes pods anew is handed back, to be noted until it is stored."""
    verdict = review_vpa(request_, NO_GATES, (), rules, phase=Phase.VALIDATING)
    assert (verdict.claim is not None) is claims


def test_answer_of_denial() -> None:
    """A denial reaches the user as a Status that names the object, with its warnings."""
    new = make.vpa_json("hamster", mode="Auto", policies=[POLICY_JSON(oomBumpUpRatio="2")])
    request = make.review(new)
    answer = review_vpa(request, NO_GATES, (), RULES, phase=Phase.MUTATING).response(request)
    assert not answer["allowed"]
    assert answer["status"]["message"].startswith(
        'VerticalPodAutoscaler.autoscaling.k8s.io "hamster" is invalid: '
        f"{POLICY}.oomBumpUpRatio: Forbidden: "
    )
    assert len(answer["warnings"]) == 1
    assert answer["auditAnnotations"] == {"reason": "Invalid", "fields": f"{POLICY}.oomBumpUpRatio"}


def test_answer_of_nameless_review() -> None:
    """A review written by hand may lack what an API server always says."""
    request = AdmissionRequest(
        uid="",
        kind=make.review(vpa()).kind._replace(word=""),
        resource=make.review(vpa()).resource._replace(group=""),
        subresource="",
        operation="",
        namespace="",
        name="",
        dry_run=False,
        new=None,
        old=None,
    )
    answer = review_vpa(request, NO_GATES, (), RULES, phase=Phase.MUTATING).response(request)
    assert answer["status"]["message"] == (
        'VerticalPodAutoscaler.autoscaling.k8s.io "" is invalid: '
        ".: Internal error: the review carries no object"
    )


def test_answer_of_acceptance() -> None:
    """An acceptance carries its patch and its reason."""
    request = make.review(PLAIN)
    answer = review_vpa(request, NO_GATES, (), RULES, phase=Phase.MUTATING).response(request)
    assert answer == {
        "uid": "review-1",
        "allowed": True,
        "patch": b64encode(orjson.dumps([RECREATE])).decode(),
        "patchType": "JSONPatch",
        "auditAnnotations": {"reason": "Defaulted"},
    }


def test_audit_is_short() -> None:
    """However much is wrong, the audit log gets a line."""
    broken = make.vpa_json(policies=[{"mode": "bad"} for _ in range(50)])
    fields = judge(broken).audit["fields"]
    assert fields.endswith(", and 90 more")
    assert fields.count(",") == 10


def test_warnings_are_counted() -> None:
    """However much is odd, the author gets a page of it."""
    warnings = judge(make.vpa_json(policies=[make.policy_json()] * 100)).warnings
    assert (len(warnings), warnings[-1]) == (51, "and 49 more")


_FULL = make.vpa_json(
    mode="InPlaceOrRecreate",
    min_replicas=2,
    policies=[
        make.policy_json(
            "app",
            mode="Auto",
            min_allowed={"cpu": "1", "memory": "1Gi"},
            max_allowed={"cpu": "2"},
            resources=["cpu"],
            values="RequestsOnly",
            boost=make.boost_json(quantity="1", duration="10s"),
            oomBumpUpRatio="1.2",
            oomMinBumpUp="1Mi",
            memoryAggregationIntervalSeconds=1,
            memoryAggregationIntervalCount=1,
        ),
        make.policy_json(boost=make.boost_json(factor=2, duration_seconds=1)),
    ],
    boost=FACTOR,
    selector={
        "matchLabels": {"role": "leader"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
    },
    spec={
        "recommenders": [{"name": "default"}],
        "updatePolicy": {
            "updateMode": "InPlaceOrRecreate",
            "minReplicas": 2,
            "evictionRequirements": [{"resources": ["cpu"], "changeRequirement": HIGHER}],
            "evictAfterOOMSeconds": 1,
        },
    },
    cpu="1",
    status={"conditions": [{"type": "a", "status": "b"}]},
)


_ODD = objects_like(_FULL)
_GATES = st.sampled_from([NO_GATES, ALL_GATES])
_SIBLINGS = st.sampled_from([None, [], [RIVAL, make.vpa("all")]])


@given(_ODD, st.none() | _ODD | ANYTHING, _GATES, _SIBLINGS, st.sampled_from(Phase))
def test_never_crashes(
    new: object, old: object, gates: FeatureGates, siblings: Sequence[Vpa] | None, phase: Phase
) -> None:
    """Whatever stands wherever, a VPA is allowed, or refused with a field to look at."""
    request = make.review(_FULL, operation="UPDATE")._replace(new=new, old=old)
    verdict = review_vpa(request, gates, siblings, RULES, phase=phase)
    answer = verdict.response(request)
    assert verdict.allowed or all(error.path for error in verdict.errors)
    assert json.dumps(answer)
    assert not (verdict.errors and (verdict.patch or verdict.claim))


@given(_ODD, _GATES)
def test_touching_metadata_is_always_allowed(item: object, gates: FeatureGates) -> None:
    """An object can be labelled whatever it holds, once it is stored."""
    old = item if isinstance(item, dict) else {"spec": item}
    new = {**old, "metadata": old.get("metadata")}
    request = make.review(_FULL, operation="UPDATE")._replace(new=new, old=old)
    assert review_vpa(request, gates, (), RULES, phase=Phase.MUTATING).allowed


def test_full_vpa_is_allowed() -> None:
    """What the random objects are made of is a good VPA."""
    verdict = judge(_FULL, gates=ALL_GATES)
    assert (verdict.reason, verdict.warnings) == (VpaReason.ACCEPTED, ())
