"""Rules for update policies."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.admission.allowance import Allowance
from app.core.admission.check_update_policy import update_policy_findings
from app.core.admission.problems import Caution, Problem, Ratcheted
from app.model.vpa import UpdatePolicy
from tests import make

ALL = Allowance(in_place=True, startup_boost=True, per_vpa_config=True)
AT = "spec.updatePolicy"
HIGHER, LOWER = "TargetHigherThanRequests", "TargetLowerThanRequests"


def read(policy: dict[str, Any] | None) -> UpdatePolicy | None:
    """Read an update policy as it stands in a VPA."""
    return make.vpa(spec={"updatePolicy": policy}).update_policy


def findings(
    policy: dict[str, Any] | None,
    allowed: Allowance = ALL,
    stored: dict[str, Any] | None = None,
) -> list[Problem | Caution | Ratcheted]:
    """Judge an update policy beside the stored one."""
    return list(update_policy_findings(read(policy), read(stored), allowed))


def requiring(
    *requirements: tuple[list[str], str | None], mode: str = "Recreate"
) -> dict[str, Any]:
    """Return an update policy with eviction requirements."""
    entries = [
        {"resources": resources, "changeRequirement": change} for resources, change in requirements
    ]
    return {"updateMode": mode, "evictionRequirements": entries}


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(None, id="no policy"),
        *(
            pytest.param({"updateMode": mode}, id=mode)
            for mode in (
                "Off",
                "Initial",
                "Recreate",
                "InPlaceOrRecreate",
                "InPlace",
                "UpscaleOnly",
            )
        ),
        pytest.param({"updateMode": "Off", "minReplicas": 1}, id="one replica"),
        pytest.param({"updateMode": "Off", "evictAfterOOMSeconds": 1}, id="a second"),
        pytest.param(requiring((["cpu"], HIGHER), (["memory"], LOWER)), id="one each"),
        pytest.param(requiring((["cpu", "memory"], HIGHER)), id="both in one"),
        pytest.param(requiring((["CPU"], HIGHER), (["Memory"], HIGHER)), id="capitals"),
        pytest.param(requiring((["cpu"], HIGHER), mode="UpscaleOnly"), id="up and up"),
    ],
)
def test_allowed(policy: dict[str, Any] | None) -> None:
    """A policy that makes sense passes without a word."""
    assert findings(policy) == []


MODES = '"InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate", "UpscaleOnly"'
ONCE = ", and a resource may be named only once"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(
            {},
            [".updateMode: Required value: an updatePolicy must say its updateMode"],
            id="no mode",
        ),
        pytest.param(
            {"updateMode": "bad"},
            [f'.updateMode: Unsupported value: "bad": supported values: {MODES}'],
            id="an unknown mode",
        ),
        pytest.param(
            {"updateMode": ""},
            [f'.updateMode: Unsupported value: "": supported values: {MODES}'],
            id="an empty mode",
        ),
        pytest.param(
            {"updateMode": "bad", "minReplicas": 0, "evictAfterOOMSeconds": -1},
            [
                f'.updateMode: Unsupported value: "bad": supported values: {MODES}',
                ".minReplicas: Invalid value: 0: must be at least 1",
                ".evictAfterOOMSeconds: Invalid value: -1: must be at least 1",
            ],
            id="several fields",
        ),
        pytest.param(
            requiring((["cpu"], HIGHER), (["cpu"], LOWER)),
            [
                '.evictionRequirements[1].resources[0]: Duplicate value: "cpu": '
                f"it stands at evictionRequirements[0].resources[0]{ONCE}"
            ],
            id="a resource in two requirements",
        ),
        pytest.param(
            requiring((["cpu", "memory"], HIGHER), (["Memory"], HIGHER)),
            [
                '.evictionRequirements[1].resources[0]: Duplicate value: "Memory": '
                f"it stands at evictionRequirements[0].resources[1]{ONCE}"
            ],
            id="a resource spelled otherwise",
        ),
        pytest.param(
            requiring((["cpu", "cpu"], HIGHER)),
            [
                '.evictionRequirements[0].resources[1]: Duplicate value: "cpu": '
                f"it stands at evictionRequirements[0].resources[0]{ONCE}"
            ],
            id="a resource twice in one requirement",
        ),
        pytest.param(
            requiring(([], HIGHER)),
            [".evictionRequirements[0].resources: Required value: name cpu, memory or both"],
            id="no resource",
        ),
        pytest.param(
            requiring((["storage"], HIGHER)),
            [
                '.evictionRequirements[0].resources[0]: Unsupported value: "storage": '
                'supported values: "cpu", "memory"'
            ],
            id="a resource that is not recommended",
        ),
        pytest.param(
            requiring((["cpu"], None)),
            [
                ".evictionRequirements[0].changeRequirement: Required value: "
                "TargetHigherThanRequests or TargetLowerThanRequests"
            ],
            id="no change",
        ),
        pytest.param(
            requiring((["cpu"], "Higher")),
            [
                '.evictionRequirements[0].changeRequirement: Unsupported value: "Higher": '
                f'supported values: "{HIGHER}", "{LOWER}"'
            ],
            id="an unknown change",
        ),
    ],
)
def test_refused(policy: dict[str, Any], expected: list[str]) -> None:
    """What makes no sense is refused at its field, with all that is wrong with it."""
    found = findings(policy)
    assert all(isinstance(item, Problem) for item in found)
    assert [str(item).removeprefix(AT) for item in found] == expected


def test_gates_off() -> None:
    """What needs a gate is forbidden, and its value is not looked at."""
    found = findings({"updateMode": "InPlace", "evictAfterOOMSeconds": -1}, Allowance())
    assert [str(item) for item in found] == [
        f'{AT}.updateMode: Forbidden: updateMode "InPlace" needs feature gate InPlace (alpha), '
        "which is off; --feature-gates=InPlace=true of the admission controller turns it on",
        f"{AT}.evictAfterOOMSeconds: Forbidden: evictAfterOOMSeconds needs feature gate "
        "PerVPAConfig (alpha), which is off; --feature-gates=PerVPAConfig=true of the admission "
        "controller turns it on",
    ]


def test_auto_is_deprecated() -> None:
    """Mode Auto passes with a warning that API servers show in full."""
    (found,) = findings({"updateMode": "Auto"})
    assert isinstance(found, Caution)
    text = str(found)
    assert text.startswith('spec.updatePolicy: updateMode "Auto" is deprecated')
    assert "[InPlace InPlaceOrRecreate Initial Off Recreate UpscaleOnly]" in text
    assert "kubernetes/autoscaler#8424" in text
    assert len(text) <= 256


def test_upscale_only_beside_lower() -> None:
    """A requirement that the mode can never meet is told, not refused."""
    policy = requiring((["cpu"], HIGHER), (["memory"], LOWER), mode="UpscaleOnly")
    (found,) = findings(policy)
    assert isinstance(found, Caution)
    assert found.path == f"{AT}.evictionRequirements[1].changeRequirement"


CONFLICTING = requiring((["cpu"], HIGHER), (["cpu"], LOWER))


@pytest.mark.parametrize(
    ("policy", "is_refused"),
    [
        pytest.param(CONFLICTING, False, id="the same"),
        pytest.param({**CONFLICTING, "minReplicas": 3}, False, id="the same beside a change"),
        pytest.param(
            requiring((["cpu"], HIGHER), (["cpu"], LOWER), (["memory"], LOWER)),
            True,
            id="one more",
        ),
        pytest.param(requiring((["cpu"], LOWER), (["cpu"], HIGHER)), True, id="another order"),
    ],
)
def test_stored_requirements(policy: dict[str, Any], is_refused: bool) -> None:
    """Requirements that are stored already pass with a warning, but only unchanged."""
    (found,) = findings(policy, stored=CONFLICTING)
    assert isinstance(found, Problem) is is_refused
