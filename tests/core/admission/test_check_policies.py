"""Rules for container policies."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.admission.allowance import Allowance
from app.core.admission.check_policies import policies_findings
from app.core.admission.problems import Caution, Problem, settle
from tests import make

ALL = Allowance(in_place=True, startup_boost=True, per_vpa_config=True)
AT = "spec.resourcePolicy.containerPolicies"


def findings(
    policies: list[dict[str, Any]],
    allowed: Allowance = ALL,
    stored: list[dict[str, Any]] | None = None,
) -> list[Problem | Caution]:
    """Judge container policies beside the stored ones."""
    new, old = make.vpa(policies=policies), make.vpa(policies=stored)
    return list(
        settle(
            policies_findings(new.policies or (), allowed),
            policies_findings(old.policies or (), allowed),
        )
    )


def texts(policies: list[dict[str, Any]], allowed: Allowance = ALL) -> list[str]:
    """Return the findings without the part of the path that they share."""
    return [str(item).removeprefix(AT) for item in findings(policies, allowed)]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(make.policy_json(), id="nothing said"),
        pytest.param(make.policy_json(mode="Off"), id="mode Off"),
        pytest.param(make.policy_json(mode="Off", values="RequestsOnly"), id="Off, requests only"),
        pytest.param(
            make.policy_json(mode="Auto", values="RequestsAndLimits"), id="Auto, both values"
        ),
        pytest.param(make.policy_json(resources=["cpu", "memory"]), id="both resources"),
        pytest.param(make.policy_json(resources=[]), id="no resource"),
        pytest.param(
            make.policy_json(
                min_allowed={"cpu": "1m", "memory": "1"}, max_allowed={"cpu": "1m", "memory": "1"}
            ),
            id="equal bounds",
        ),
        pytest.param(make.policy_json(max_allowed={"gpu": "1500u"}), id="other resources"),
        pytest.param(make.policy_json(oomBumpUpRatio="2"), id="ratio 2"),
        pytest.param(make.policy_json(oomBumpUpRatio=1), id="ratio 1"),
        pytest.param(make.policy_json(oomBumpUpRatio="999999999n"), id="a ratio in thousandths"),
        pytest.param(make.policy_json(oomMinBumpUp="0"), id="no least bump"),
        pytest.param(
            make.policy_json(memoryAggregationIntervalSeconds=1, memoryAggregationIntervalCount=1),
            id="short history",
        ),
        pytest.param(make.policy_json(boost=make.boost_json(factor=2)), id="boost"),
    ],
)
def test_allowed(policy: dict[str, Any]) -> None:
    """A policy that makes sense passes without a word."""
    assert texts([policy]) == []


MILLI = "must be a whole number of millicores"
BYTES = "must be a whole number of bytes"
RESOURCES = 'supported values: "cpu", "memory"'


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, ["[0].containerName: Required value"], id="no name"),
        pytest.param(
            make.policy_json(mode="bad"),
            ['[0].mode: Unsupported value: "bad": supported values: "Auto", "Off"'],
            id="an unknown mode",
        ),
        pytest.param(
            make.policy_json(min_allowed={"cpu": "100"}, max_allowed={"cpu": "10"}),
            [
                '[0].maxAllowed[cpu]: Invalid value: "10": '
                'maxAllowed is below minAllowed, which is "100"'
            ],
            id="bounds crossed",
        ),
        pytest.param(
            make.policy_json(min_allowed={"gpu": "2"}, max_allowed={"gpu": "1"}),
            [
                '[0].maxAllowed[gpu]: Invalid value: "1": '
                'maxAllowed is below minAllowed, which is "2"'
            ],
            id="bounds of another resource crossed",
        ),
        pytest.param(
            make.policy_json(min_allowed={"cpu": "187500u"}),
            [f'[0].minAllowed[cpu]: Invalid value: "187500u": {MILLI}'],
            id="part of a millicore at least",
        ),
        pytest.param(
            make.policy_json(max_allowed={"cpu": "187500u"}),
            [f'[0].maxAllowed[cpu]: Invalid value: "187500u": {MILLI}'],
            id="part of a millicore at most",
        ),
        pytest.param(
            make.policy_json(min_allowed={"memory": "100m"}),
            [f'[0].minAllowed[memory]: Invalid value: "100m": {BYTES}'],
            id="part of a byte at least",
        ),
        pytest.param(
            make.policy_json(max_allowed={"memory": "500m"}),
            [f'[0].maxAllowed[memory]: Invalid value: "500m": {BYTES}'],
            id="part of a byte at most",
        ),
        pytest.param(
            make.policy_json(
                min_allowed={"memory": "1500m", "cpu": "1500u"}, max_allowed={"memory": "100m"}
            ),
            [
                f'[0].minAllowed[memory]: Invalid value: "1500m": {BYTES}',
                '[0].maxAllowed[memory]: Invalid value: "100m": '
                'maxAllowed is below minAllowed, which is "1500m"',
                f'[0].minAllowed[cpu]: Invalid value: "1500u": {MILLI}',
                f'[0].maxAllowed[memory]: Invalid value: "100m": {BYTES}',
            ],
            id="all that is wrong with bounds, minAllowed first",
        ),
        pytest.param(
            make.policy_json(min_allowed={"cpu": "-1"}),
            ['[0].minAllowed[cpu]: Invalid value: "-1": must not be negative'],
            id="a negative bound",
        ),
        pytest.param(
            make.policy_json(mode="Off", values="RequestsAndLimits"),
            ["[0].controlledValues: Forbidden: must not be RequestsAndLimits where mode is Off"],
            id="values where nothing is scaled",
        ),
        pytest.param(
            make.policy_json(values="Limits"),
            [
                '[0].controlledValues: Unsupported value: "Limits": '
                'supported values: "RequestsAndLimits", "RequestsOnly"'
            ],
            id="unknown values",
        ),
        pytest.param(
            make.policy_json(resources=["cpu", "broken", "CPU"]),
            [
                f'[0].controlledResources[1]: Unsupported value: "broken": {RESOURCES}',
                f'[0].controlledResources[2]: Unsupported value: "CPU": {RESOURCES}',
            ],
            id="unknown resources",
        ),
        pytest.param(
            make.policy_json(oomBumpUpRatio=-1),
            ["[0].oomBumpUpRatio: Invalid value: -1: must be at least 1"],
            id="ratio -1",
        ),
        pytest.param(
            make.policy_json(oomBumpUpRatio="0.5"),
            ["[0].oomBumpUpRatio: Invalid value: 0.5: must be at least 1"],
            id="ratio 0.5",
        ),
        pytest.param(
            make.policy_json(oomBumpUpRatio="-1e999"),
            ["[0].oomBumpUpRatio: Invalid value: -9.223372036854776e+15: must be at least 1"],
            id="a ratio beyond all measure",
        ),
        pytest.param(
            make.policy_json(oomMinBumpUp=-1),
            ["[0].oomMinBumpUp: Invalid value: -1: must be at least 0"],
            id="least bump -1",
        ),
        pytest.param(
            make.policy_json(
                memoryAggregationIntervalSeconds=-5, memoryAggregationIntervalCount=-3
            ),
            [
                "[0].memoryAggregationIntervalSeconds: Invalid value: -5: must be at least 1",
                "[0].memoryAggregationIntervalCount: Invalid value: -3: must be at least 1",
            ],
            id="negative intervals",
        ),
        pytest.param(
            make.policy_json(memoryAggregationIntervalSeconds=0, memoryAggregationIntervalCount=0),
            [
                "[0].memoryAggregationIntervalSeconds: Invalid value: 0: must be at least 1",
                "[0].memoryAggregationIntervalCount: Invalid value: 0: must be at least 1",
            ],
            id="no intervals",
        ),
        pytest.param(
            make.policy_json(boost={"cpu": {}}),
            ["[0].startupBoost.cpu.type: Required value: Factor or Quantity"],
            id="a broken boost",
        ),
    ],
)
def test_refused(policy: dict[str, Any], expected: list[str]) -> None:
    """What makes no sense is refused at its field, with all that is wrong with it."""
    assert texts([policy]) == expected


def test_gate_off() -> None:
    """With gate PerVPAConfig off, the fields are forbidden whatever they hold."""
    policy = make.policy_json(
        oomBumpUpRatio="2",
        oomMinBumpUp=-1,
        memoryAggregationIntervalSeconds=0,
        memoryAggregationIntervalCount=8,
    )
    suffix = (
        " needs feature gate PerVPAConfig (alpha), which is off; "
        "--feature-gates=PerVPAConfig=true of the admission controller turns it on"
    )
    assert texts([policy], Allowance()) == [
        f"[0].{field}: Forbidden: {field}{suffix}"
        for field in (
            "oomBumpUpRatio",
            "oomMinBumpUp",
            "memoryAggregationIntervalSeconds",
            "memoryAggregationIntervalCount",
        )
    ]


def test_named_twice() -> None:
    """Entries of which one has no effect are told, not refused."""
    policies = [make.policy_json(name) for name in ("app", "*", "app", "*", "log")]
    assert findings(policies) == [
        Caution(
            f"{AT}[2].containerName",
            '"app" is named by containerPolicies[0] too; this one has no effect',
        ),
        Caution(
            f"{AT}[3].containerName",
            '"*" is named by containerPolicies[1] too; this one replaces it',
        ),
    ]


def test_odd_resource_kept() -> None:
    """A resource that was named before stays, with a warning."""
    allowed = Allowance(odd_resources=frozenset({"broken"}))
    assert findings([make.policy_json(resources=["broken", "worse"])], allowed) == [
        Caution(
            f"{AT}[0].controlledResources[0]",
            'unsupported value "broken" tolerated, the stored object has it too',
        ),
        *findings([make.policy_json(resources=["cpu", "worse"])]),
    ]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(make.policy_json(max_allowed={"cpu": "-1"}), id="a negative bound"),
        pytest.param(make.policy_json(values="Limits"), id="unknown values"),
    ],
)
def test_ratcheted(policy: dict[str, Any]) -> None:
    """What only this webhook refuses stays as it is stored."""
    (found,) = findings([policy], stored=[policy])
    assert isinstance(found, Caution)


def test_paths_tell_the_entry() -> None:
    """Problems come entry by entry, each with its index."""
    assert texts([{}, make.policy_json(mode="bad"), {}])[::2] == [
        "[0].containerName: Required value",
        "[2].containerName: Required value",
    ]
