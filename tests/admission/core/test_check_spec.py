"""Rules for a spec as a whole, and for its update policy."""

from __future__ import annotations

import pytest

from app.admission.core.check_policies import Allowance
from app.admission.core.check_spec import spec_findings, update_policy_findings
from app.admission.core.field_errors import FieldError, FieldWarning, Ratcheted
from app.admission.core.vpa_review import VpaVersion, read_vpa_review
from app.model.fields import Json
from app.model.gates import FeatureGates
from app.model.vpa import UpdatePolicy
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES, NO_GATES


def version(item: Json) -> VpaVersion:
    """Read a VPA as it comes in a review."""
    found = read_vpa_review(make.review(item)).new
    assert found is not None
    return found


def findings(
    new: Json, stored: Json | None = None, gates: FeatureGates = ALL_GATES
) -> list[FieldError | FieldWarning]:
    """Judge a VPA beside the stored one."""
    return list(spec_findings(version(new), version(stored) if stored else None, gates))


def aiming(api_version: str | None, kind: str | None, name: str | None = "web") -> Json:
    """Return a VPA with a target of these words."""
    words = {"apiVersion": api_version, "kind": kind, "name": name}
    target = {key: word for key, word in words.items() if word is not None}
    return make.vpa_json(spec={"targetRef": target})


NO_TARGET = make.vpa_json(target=None)


@cases(
    "new stored expected",
    {
        "a new one without target": (
            NO_TARGET,
            None,
            ["spec.targetRef: Required value: name the workload to scale, as objects of v1 must"],
        ),
        "a stored one without target": (NO_TARGET, NO_TARGET, []),
        "a built-in kind": (aiming("apps/v1", "Deployment"), None, []),
        "a built-in kind alone": (aiming(None, "Deployment"), None, []),
        "a custom kind": (aiming("example.com/v1", "Rollout"), None, []),
        "empty words": (
            aiming("apps/v1", "", ""),
            None,
            ["spec.targetRef.kind: Required value", "spec.targetRef.name: Required value"],
        ),
        "a stored one without kind": (
            aiming("apps/v1", None),
            aiming("apps/v1", None),
            ["spec.targetRef.kind: Required value; tolerated, the stored object has it too"],
        ),
        "a kind misspelled": (
            aiming("apps/v1", "deployment"),
            None,
            [
                'spec.targetRef.kind: "deployment" with apiVersion "apps/v1" is nothing that can '
                'be scaled; did you mean "Deployment"?'
            ],
        ),
        "a kind that is not there": (
            aiming("v1", "Xyz"),
            None,
            ['spec.targetRef.kind: "Xyz" with apiVersion "v1" is nothing that can be scaled'],
        ),
    },
)
def test_target(new: Json, stored: Json | None, expected: list[str]) -> None:
    """A target must be named; one that is named oddly is told of."""
    assert [str(item) for item in findings(new, stored)] == expected


@cases(
    "recommenders expected",
    {
        "none": ([], []),
        "one": ([{"name": "a"}], []),
        "two": (
            [{"name": "a"}, {"name": "b"}],
            ["spec.recommenders: Too many: 2: must have at most 1 item"],
        ),
    },
)
def test_recommenders(recommenders: list[dict[str, str]], expected: list[str]) -> None:
    """One recommender is enough."""
    found = findings(make.vpa_json(spec={"recommenders": recommenders}))
    assert [str(item) for item in found] == expected


def exists(key: str, operator: str = "Exists") -> Json:
    """Return a condition on a label."""
    return {"key": key, "operator": operator}


CONTRADICTION = {"matchExpressions": [exists("a"), exists("a", "DoesNotExist")]}
FLAWED = {"matchLabels": {"-a": "b"}, "matchExpressions": [exists("b", "Like")]}


@cases(
    "selector paths",
    {
        "empty": ({}, []),
        "labels": ({"matchLabels": {"a": "b"}}, []),
        "a contradiction": (CONTRADICTION, ["spec.selector"]),
        "flaws": (
            FLAWED,
            ["spec.selector.matchLabels", "spec.selector.matchExpressions[0].operator"],
        ),
    },
)
def test_selector(selector: Json, paths: list[str]) -> None:
    """A selector must be well formed and possible; if it is stored, it stays with a warning."""
    new = make.vpa_json(selector=selector, mode="InPlaceOrRecreate")
    fresh, kept = findings(new), findings(new, stored=new)
    assert [item.path for item in fresh] == [item.path for item in kept] == paths
    assert all(isinstance(item, FieldError) for item in fresh)
    assert all(isinstance(item, FieldWarning) for item in kept)


LEADER = {"matchLabels": {"role": "leader"}}


@cases(
    "mode selector warns",
    {
        "Recreate": ("Recreate", LEADER, True),
        "Recreate, unnamed": (None, LEADER, True),
        "Auto": ("Auto", LEADER, True),
        "UpscaleOnly": ("UpscaleOnly", LEADER, True),
        "resized first": ("InPlaceOrRecreate", LEADER, False),
        "never evicted": ("InPlace", LEADER, False),
        "nothing is done": ("Off", LEADER, False),
        "all pods": ("Recreate", {}, False),
        "no selector": ("Recreate", None, False),
    },
)
def test_roles_that_an_eviction_takes_away(
    mode: str | None, selector: Json | None, warns: bool
) -> None:
    """Who evicts pods that a selector tells apart learns what that does, and what to do instead."""
    found = [item for item in findings(make.vpa_json(mode=mode, selector=selector))
             if "deprecated" not in str(item)]  # fmt: skip
    assert all(isinstance(item, FieldWarning) for item in found)
    assert [str(item) for item in found] == [
        f"spec.updatePolicy.updateMode: {mode or 'Recreate'} evicts pods, and a replacement has "
        "the labels of its template. So a pod that has matched spec.selector only since its "
        "labels were changed is resized in place first, and not evicted if no other one matches. "
        "InPlaceOrRecreate resizes all pods first"
    ] * warns


def test_order() -> None:
    """Problems come in the order of the rules, each at its field, all at once."""
    new = make.vpa_json(
        target=None,
        mode="bad",
        policies=[{}],
        boost={"cpu": {}},
        selector=FLAWED,
        spec={"recommenders": [{}, {}]},
    )
    assert [item.path for item in findings(new)] == [
        "spec.targetRef",
        "spec.updatePolicy.updateMode",
        "spec.resourcePolicy.containerPolicies[0].containerName",
        "spec.startupBoost.cpu.type",
        "spec.recommenders",
        "spec.selector.matchLabels",
        "spec.selector.matchExpressions[0].operator",
    ]


def test_gate_kept_open() -> None:
    """A stored object that used a feature may go on when its gate is off, a new one may not."""
    new = make.vpa_json(boost=make.boost_json(factor=2))
    assert findings(new, stored=new, gates=NO_GATES) == []
    assert [item.path for item in findings(new, gates=NO_GATES)] == ["spec.startupBoost"]


ALL = Allowance(gated_modes=frozenset({"InPlace"}), startup_boost=True, per_vpa_config=True)
AT = "spec.updatePolicy"
MODES = '"InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate", "UpscaleOnly"'
ALLOWED_MODES = MODES.replace('"', "").split(", ")
HIGHER, LOWER = "TargetHigherThanRequests", "TargetLowerThanRequests"


def read(policy: Json | None) -> UpdatePolicy | None:
    """Read an update policy as it stands in a VPA."""
    return make.vpa(spec={"updatePolicy": policy}).update_policy


def policy_findings(
    policy: Json | None,
    allowed: Allowance = ALL,
    stored: Json | None = None,
) -> list[FieldError | FieldWarning | Ratcheted]:
    """Judge an update policy beside the stored one."""
    return list(update_policy_findings(read(policy), read(stored), allowed))


def requiring(*requirements: tuple[list[str], str | None], mode: str = "Recreate") -> Json:
    """Return an update policy with eviction requirements."""
    entries = [
        {"resources": resources, "changeRequirement": change} for resources, change in requirements
    ]
    return {"updateMode": mode, "evictionRequirements": entries}


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(None, id="no policy"),
        *(pytest.param({"updateMode": mode}, id=mode) for mode in ALLOWED_MODES),
        pytest.param({"updateMode": "Off", "minReplicas": 1}, id="one replica"),
        pytest.param({"updateMode": "Off", "evictAfterOOMSeconds": 1}, id="a second"),
        pytest.param(requiring((["cpu"], HIGHER), (["memory"], LOWER)), id="one each"),
        pytest.param(requiring((["cpu", "memory"], HIGHER)), id="both in one"),
        pytest.param(requiring((["CPU"], HIGHER), (["Memory"], HIGHER)), id="capitals"),
        pytest.param(requiring((["cpu"], HIGHER), mode="UpscaleOnly"), id="up and up"),
    ],
)
def test_update_policy_allowed(policy: Json | None) -> None:
    """A policy that makes sense passes without a word."""
    assert policy_findings(policy) == []


FIRST = ".evictionRequirements[0].resources"
SECOND = ".evictionRequirements[1].resources[0]"
CHANGE = ".evictionRequirements[0].changeRequirement"
STANDS_AT = "it stands at evictionRequirements[0].resources"
ONCE = ", and a resource may be named only once"


@cases(
    "policy expected",
    {
        "no mode": ({}, [".updateMode: Required value: an updatePolicy must say its updateMode"]),
        "an unknown mode": (
            {"updateMode": "bad"},
            [f'.updateMode: Unsupported value: "bad": supported values: {MODES}'],
        ),
        "empty": (
            {"updateMode": ""},
            [f'.updateMode: Unsupported value: "": supported values: {MODES}'],
        ),
        "several fields": (
            {"updateMode": "bad", "minReplicas": 0, "evictAfterOOMSeconds": -1},
            [
                f'.updateMode: Unsupported value: "bad": supported values: {MODES}',
                ".minReplicas: Invalid value: 0: must be at least 1",
                ".evictAfterOOMSeconds: Invalid value: -1: must be at least 1",
            ],
        ),
        "a resource in two requirements": (
            requiring((["cpu"], HIGHER), (["cpu"], LOWER)),
            [f'{SECOND}: Duplicate value: "cpu": {STANDS_AT}[0]{ONCE}'],
        ),
        "a resource spelled otherwise": (
            requiring((["cpu", "memory"], HIGHER), (["Memory"], HIGHER)),
            [f'{SECOND}: Duplicate value: "Memory": {STANDS_AT}[1]{ONCE}'],
        ),
        "a resource twice in one requirement": (
            requiring((["cpu", "cpu"], HIGHER)),
            [f'{FIRST}[1]: Duplicate value: "cpu": {STANDS_AT}[0]{ONCE}'],
        ),
        "no resource": (
            requiring(([], HIGHER)),
            [".evictionRequirements[0].resources: Required value: name cpu, memory or both"],
        ),
        "a resource that is not recommended": (
            requiring((["storage"], HIGHER)),
            [f'{FIRST}[0]: Unsupported value: "storage": supported values: "cpu", "memory"'],
        ),
        "no change": (
            requiring((["cpu"], None)),
            [f"{CHANGE}: Required value: {HIGHER} or {LOWER}"],
        ),
        "an unknown change": (
            requiring((["cpu"], "Higher")),
            [f'{CHANGE}: Unsupported value: "Higher": supported values: "{HIGHER}", "{LOWER}"'],
        ),
    },
)
def test_update_policy_refused(policy: Json, expected: list[str]) -> None:
    """What makes no sense is refused at its field, with all that is wrong with it."""
    found = policy_findings(policy)
    assert all(isinstance(item, FieldError) for item in found)
    assert [str(item).removeprefix(AT) for item in found] == expected


def test_gates_off() -> None:
    """What needs a gate is forbidden, and its value is not looked at."""
    found = policy_findings({"updateMode": "InPlace", "evictAfterOOMSeconds": -1}, Allowance())
    assert [str(item) for item in found] == [
        f'{AT}.updateMode: Forbidden: updateMode "InPlace" needs feature gate InPlace (alpha), '
        "which is off; --feature-gates=InPlace=true of the admission controller and the "
        "updater turns it on",
        f"{AT}.evictAfterOOMSeconds: Forbidden: evictAfterOOMSeconds needs feature gate "
        "PerVPAConfig (alpha), which is off; --feature-gates=PerVPAConfig=true of the admission "
        "controller, the updater and the recommender turns it on",
    ]


def test_auto_is_deprecated() -> None:
    """Mode Auto passes with a warning that API servers show in full."""
    (found,) = policy_findings({"updateMode": "Auto"})
    assert isinstance(found, FieldWarning)
    text = str(found)
    assert text.startswith('spec.updatePolicy: updateMode "Auto" is deprecated')
    assert "[InPlace InPlaceOrRecreate Initial Off Recreate UpscaleOnly]" in text
    assert "kubernetes/autoscaler#8424" in text
    assert len(text) <= 256


def test_upscale_only_beside_lower() -> None:
    """A requirement that the mode can never meet is told, not refused."""
    policy = requiring((["cpu"], HIGHER), (["memory"], LOWER), mode="UpscaleOnly")
    (found,) = policy_findings(policy)
    assert isinstance(found, FieldWarning)
    assert found.path == f"{AT}.evictionRequirements[1].changeRequirement"


CONFLICTING = requiring((["cpu"], HIGHER), (["cpu"], LOWER))


@cases(
    "policy is_refused",
    {
        "the same": (CONFLICTING, False),
        "the same beside a change": ({**CONFLICTING, "minReplicas": 3}, False),
        "one more": (requiring((["cpu"], HIGHER), (["cpu"], LOWER), (["memory"], LOWER)), True),
        "another order": (requiring((["cpu"], LOWER), (["cpu"], HIGHER)), True),
    },
)
def test_stored_requirements(policy: Json, is_refused: bool) -> None:
    """Requirements that are stored already pass with a warning, but only unchanged."""
    (found,) = policy_findings(policy, stored=CONFLICTING)
    assert isinstance(found, FieldError) is is_refused
