"""Rules for container policies and boosts, and which of them a feature gate opens."""

from __future__ import annotations

from app.admission.core.check_policies import (
    Allowance,
    allowance,
    boost_findings,
    policies_findings,
)
from app.admission.core.field_errors import FieldError, FieldWarning, ratchet
from app.model.fields import Json
from app.model.vpa import StartupBoost
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES, NO_GATES, policy_json

BOOST_JSON = make.boost_json(factor=2)
IN_PLACE, STARTUP_BOOST, PER_VPA_CONFIG = (
    Allowance(gated_modes=frozenset({"InPlace"})),
    Allowance(startup_boost=True),
    Allowance(per_vpa_config=True),
)


@cases(
    "stored expected",
    {
        "nothing": ({}, Allowance()),
        "InPlace": ({"mode": "InPlace"}, IN_PLACE),
        "InPlaceOrRecreate": ({"mode": "InPlaceOrRecreate"}, Allowance()),
        "a boost": ({"boost": BOOST_JSON}, STARTUP_BOOST),
        "an empty boost": ({"boost": {}}, Allowance()),
        "a policy's empty boost": ({"policies": [policy_json(boost={})]}, STARTUP_BOOST),
        "evictAfterOOMSeconds": (
            {"spec": {"updatePolicy": {"updateMode": "Off", "evictAfterOOMSeconds": 5}}},
            PER_VPA_CONFIG,
        ),
        "an update policy without it": ({"mode": "Off"}, Allowance()),
        "oomMinBumpUp": (
            {"policies": [policy_json(), policy_json(oomMinBumpUp="0")]},
            PER_VPA_CONFIG,
        ),
        "oomBumpUpRatio": ({"policies": [policy_json(oomBumpUpRatio="1")]}, PER_VPA_CONFIG),
        "memoryAggregationIntervalSeconds": (
            {"policies": [policy_json(memoryAggregationIntervalSeconds=1)]},
            PER_VPA_CONFIG,
        ),
        "memoryAggregationIntervalCount": (
            {"policies": [policy_json(memoryAggregationIntervalCount=1)]},
            PER_VPA_CONFIG,
        ),
        "odd resources of all policies": (
            {
                "policies": [
                    policy_json(resources=["cpu", "a"]),
                    policy_json(resources=["b"]),
                ]
            },
            Allowance(odd_resources=frozenset({"a", "b"})),
        ),
    },
)
def test_stored_objects_keep_gates_open(stored: Json, expected: Allowance) -> None:
    """With all gates off, only what the stored object uses may be used on."""
    assert allowance(NO_GATES, make.vpa(**stored)) == expected


def test_gates_open_features() -> None:
    """Gates open the same for new objects and for stored ones that used nothing."""
    everything = Allowance(
        gated_modes=frozenset({"InPlace"}), startup_boost=True, per_vpa_config=True
    )
    assert allowance(ALL_GATES, None) == allowance(ALL_GATES, make.vpa()) == everything
    assert allowance(NO_GATES, None) == Allowance()


ALL = Allowance(gated_modes=frozenset({"InPlace"}), startup_boost=True, per_vpa_config=True)
AT = "spec.resourcePolicy.containerPolicies"


def findings(
    policies: list[Json],
    allowed: Allowance = ALL,
    stored: list[Json] | None = None,
) -> list[FieldError | FieldWarning]:
    """Judge container policies beside the stored ones."""
    new, old = make.vpa(policies=policies), make.vpa(policies=stored)
    return list(
        ratchet(
            policies_findings(new.policies or (), allowed),
            policies_findings(old.policies or (), allowed),
        )
    )


def texts(policies: list[Json], allowed: Allowance = ALL) -> list[str]:
    """Return the findings without the part of the path that they share."""
    return [str(item).removeprefix(AT) for item in findings(policies, allowed)]


@cases(
    "policy",
    {
        "nothing said": (policy_json(),),
        "Off, requests only": (policy_json(mode="Off", values="RequestsOnly"),),
        "Auto, both values": (policy_json(mode="Auto", values="RequestsAndLimits"),),
        "both resources": (policy_json(resources=["cpu", "memory"]),),
        "no resource": (policy_json(resources=[]),),
        "equal bounds": (
            policy_json(
                min_allowed={"cpu": "1m", "memory": "1"}, max_allowed={"cpu": "1m", "memory": "1"}
            ),
        ),
        "other resources": (policy_json(max_allowed={"gpu": "1500u"}),),
        "ratio 1": (policy_json(oomBumpUpRatio=1),),
        "a ratio in thousandths": (policy_json(oomBumpUpRatio="999999999n"),),
        "no least bump": (policy_json(oomMinBumpUp="0"),),
        "short history": (
            policy_json(memoryAggregationIntervalSeconds=1, memoryAggregationIntervalCount=1),
        ),
        "boost": (policy_json(boost=make.boost_json(factor=2)),),
    },
)
def test_policy_allowed(policy: Json) -> None:
    """A policy that makes sense passes without a word."""
    assert texts([policy]) == []


MILLI = "must be a whole number of millicores"
BYTES = "must be a whole number of bytes"
CROSSED = "maxAllowed is below minAllowed, which is"
RESOURCES = 'supported values: "cpu", "memory"'


@cases(
    "policy expected",
    {
        "no name": ({}, ["[0].containerName: Required value"]),
        "an unknown mode": (
            policy_json(mode="bad"),
            ['[0].mode: Unsupported value: "bad": supported values: "Auto", "Off"'],
        ),
        "bounds crossed": (
            policy_json(min_allowed={"cpu": "100"}, max_allowed={"cpu": "10"}),
            [f'[0].maxAllowed[cpu]: Invalid value: "10": {CROSSED} "100"'],
        ),
        "bounds of another resource crossed": (
            policy_json(min_allowed={"gpu": "2"}, max_allowed={"gpu": "1"}),
            [f'[0].maxAllowed[gpu]: Invalid value: "1": {CROSSED} "2"'],
        ),
        "part of a millicore at most": (
            policy_json(max_allowed={"cpu": "187500u"}),
            [f'[0].maxAllowed[cpu]: Invalid value: "187500u": {MILLI}'],
        ),
        "all that is wrong with bounds, minAllowed first": (
            policy_json(
                min_allowed={"memory": "1500m", "cpu": "1500u"}, max_allowed={"memory": "100m"}
            ),
            [
                f'[0].minAllowed[memory]: Invalid value: "1500m": {BYTES}',
                f'[0].maxAllowed[memory]: Invalid value: "100m": {CROSSED} "1500m"',
                f'[0].minAllowed[cpu]: Invalid value: "1500u": {MILLI}',
                f'[0].maxAllowed[memory]: Invalid value: "100m": {BYTES}',
            ],
        ),
        "a negative bound": (
            policy_json(min_allowed={"cpu": "-1"}),
            ['[0].minAllowed[cpu]: Invalid value: "-1": must not be negative'],
        ),
        "values where nothing is scaled": (
            policy_json(mode="Off", values="RequestsAndLimits"),
            ["[0].controlledValues: Forbidden: must not be RequestsAndLimits where mode is Off"],
        ),
        "unknown values": (
            policy_json(values="Limits"),
            [
                '[0].controlledValues: Unsupported value: "Limits": '
                'supported values: "RequestsAndLimits", "RequestsOnly"'
            ],
        ),
        "unknown resources": (
            policy_json(resources=["cpu", "broken", "CPU"]),
            [
                f'[0].controlledResources[1]: Unsupported value: "broken": {RESOURCES}',
                f'[0].controlledResources[2]: Unsupported value: "CPU": {RESOURCES}',
            ],
        ),
        "ratio 0.5": (
            policy_json(oomBumpUpRatio="0.5"),
            ["[0].oomBumpUpRatio: Invalid value: 0.5: must be at least 1"],
        ),
        "a ratio beyond all measure": (
            policy_json(oomBumpUpRatio="-1e999"),
            ["[0].oomBumpUpRatio: Invalid value: -9.223372036854776e+15: must be at least 1"],
        ),
        "least bump -1": (
            policy_json(oomMinBumpUp=-1),
            ["[0].oomMinBumpUp: Invalid value: -1: must be at least 0"],
        ),
        "no intervals": (
            policy_json(memoryAggregationIntervalSeconds=0, memoryAggregationIntervalCount=0),
            [
                "[0].memoryAggregationIntervalSeconds: Invalid value: 0: must be at least 1",
                "[0].memoryAggregationIntervalCount: Invalid value: 0: must be at least 1",
            ],
        ),
        "a broken boost": (
            policy_json(boost={"cpu": {}}),
            ["[0].startupBoost.cpu.type: Required value: Factor or Quantity"],
        ),
    },
)
def test_policy_refused(policy: Json, expected: list[str]) -> None:
    """What makes no sense is refused at its field, with all that is wrong with it."""
    assert texts([policy]) == expected


def test_per_vpa_gate_off() -> None:
    """With gate PerVPAConfig off, the fields are forbidden whatever they hold."""
    policy = policy_json(
        oomBumpUpRatio="2",
        oomMinBumpUp=-1,
        memoryAggregationIntervalSeconds=0,
        memoryAggregationIntervalCount=8,
    )
    suffix = (
        " needs feature gate PerVPAConfig (alpha), which is off; "
        "--feature-gates=PerVPAConfig=true of the admission "
        "controller, the updater and the recommender turns it on"
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
    policies = [policy_json(name) for name in ("app", "*", "app", "*", "log")]
    assert findings(policies) == [
        FieldWarning(
            f"{AT}[2].containerName",
            '"app" is named by containerPolicies[0] too; this one has no effect',
        ),
        FieldWarning(
            f"{AT}[3].containerName",
            '"*" is named by containerPolicies[1] too; this one replaces it',
        ),
    ]


def test_odd_resource_kept() -> None:
    """A resource that was named before stays, with a warning."""
    allowed = Allowance(odd_resources=frozenset({"broken"}))
    assert findings([policy_json(resources=["broken", "worse"])], allowed) == [
        FieldWarning(
            f"{AT}[0].controlledResources[0]",
            'unsupported value "broken" tolerated, the stored object has it too',
        ),
        *findings([policy_json(resources=["cpu", "worse"])]),
    ]


@cases(
    "policy",
    {
        "a negative bound": (policy_json(max_allowed={"cpu": "-1"}),),
        "unknown values": (policy_json(values="Limits"),),
    },
)
def test_policy_ratcheted(policy: Json) -> None:
    """What only this webhook refuses stays as it is stored."""
    (found,) = findings([policy], stored=[policy])
    assert isinstance(found, FieldWarning)


def test_paths_tell_the_entry() -> None:
    """Problems come entry by entry, each with its index."""
    assert texts([{}, policy_json(mode="bad"), {}])[::2] == [
        "[0].containerName: Required value",
        "[2].containerName: Required value",
    ]


BOOST_ON = Allowance(startup_boost=True)
BOOST_AT = "spec.startupBoost.cpu"


def read_boost(json: Json) -> StartupBoost | None:
    """Read a boost as it stands in a VPA."""
    return make.vpa(boost=json).startup_boost


def boost_problems(json: Json, stored: Json | None = None) -> list[str]:
    """Return what is wrong with a boost, as texts."""
    before = boost_findings(read_boost(stored), "spec", BOOST_ON) if stored else iter(())
    found = ratchet(boost_findings(read_boost(json), "spec", BOOST_ON), before)
    return [str(item) for item in found if isinstance(item, FieldError)]


@cases(
    "json",
    {
        "an empty one, which says no boost": ({},),
        "null, which says no boost": ({"cpu": None},),
        "factor 1, the way out": (make.boost_json(factor=1),),
        "factor": (make.boost_json(factor=3),),
        "quantity": (make.boost_json(quantity="100m"),),
        "quantity 0 boosts nothing": (make.boost_json(quantity="0"),),
        "duration": (make.boost_json(factor=2, duration="10s"),),
        "duration 0": (make.boost_json(factor=2, duration="0"),),
        "duration of two parts": (make.boost_json(factor=2, duration="1m30s"),),
        "seconds": (make.boost_json(factor=2, duration_seconds=10),),
        "no seconds": (make.boost_json(factor=2, duration_seconds=0),),
    },
)
def test_boost_allowed(json: Json) -> None:
    """What can be meant is allowed."""
    assert boost_problems(json) == []


TWICE: Json = {"type": "Factor", "factor": 2}
NO_NEGATIVE = "must not be negative"
NO_UNIT = '"10" has no unit at its end; write "10s" for ten seconds'


@cases(
    "cpu expected",
    {
        "no type": ({}, [".type: Required value: Factor or Quantity"]),
        "an empty type ends the questions": (
            {"type": "", "duration": "abc", "factor": 0},
            [".type: Required value: Factor or Quantity"],
        ),
        "an unknown type": (
            {"type": "bad"},
            ['.type: Unsupported value: "bad": supported values: "Factor", "Quantity"'],
        ),
        "no factor": ({"type": "Factor"}, [".factor: Required value: type Factor needs it"]),
        "factor 0": (
            {"type": "Factor", "factor": 0},
            [".factor: Invalid value: 0: must be at least 1, which boosts nothing"],
        ),
        "both, for a factor": (
            TWICE | {"quantity": "1"},
            [".quantity: Forbidden: it belongs to type Quantity"],
        ),
        "no quantity": (
            {"type": "Quantity"},
            [".quantity: Required value: type Quantity needs it"],
        ),
        "parts of a millicore": (
            {"type": "Quantity", "quantity": "187500u"},
            ['.quantity: Invalid value: "187500u": must be a whole number of millicores'],
        ),
        "a negative quantity": (
            {"type": "Quantity", "quantity": "-1"},
            [f'.quantity: Invalid value: "-1": {NO_NEGATIVE}: a boost never lowers a request'],
        ),
        "both, for a quantity": (
            {"type": "Quantity", "quantity": "1", "factor": 2},
            [".factor: Forbidden: it belongs to type Factor"],
        ),
        "a duration without unit": (
            TWICE | {"duration": "10"},
            [f'.duration: Invalid value: "10": {NO_UNIT}'],
        ),
        "a negative duration": (
            TWICE | {"duration": "-1s"},
            ['.duration: Invalid value: "-1s": must not be negative'],
        ),
        "negative seconds": (
            TWICE | {"durationSeconds": -1},
            [".durationSeconds: Invalid value: -1: must not be negative"],
        ),
        "both durations": (
            TWICE | {"duration": "1s", "durationSeconds": 1},
            [".durationSeconds: Forbidden: duration says the same; set only one of them"],
        ),
        "everything at once": (
            {"type": "bad", "duration": "-1s", "durationSeconds": -1},
            [
                '.type: Unsupported value: "bad": supported values: "Factor", "Quantity"',
                '.duration: Invalid value: "-1s": must not be negative',
                ".durationSeconds: Invalid value: -1: must not be negative",
                ".durationSeconds: Forbidden: duration says the same; set only one of them",
            ],
        ),
    },
)
def test_boost_refused(cpu: Json, expected: list[str]) -> None:
    """What can never be meant is refused, at its field, with the reason."""
    assert boost_problems({"cpu": cpu}) == [f"{BOOST_AT}{text}" for text in expected]


@cases(
    "cpu",
    {
        "negative seconds": (TWICE | {"durationSeconds": -1},),
        "an odd duration": (TWICE | {"duration": "x"},),
        "a negative quantity": ({"type": "Quantity", "quantity": "-1"},),
        "both amounts": (TWICE | {"quantity": "1"},),
    },
)
def test_boost_ratcheted(cpu: Json) -> None:
    """What only this webhook refuses stays as it is stored, but cannot be written anew."""
    good = make.boost_json(factor=2)
    assert boost_problems({"cpu": cpu}, stored={"cpu": cpu}) == []
    assert len(boost_problems({"cpu": cpu}, stored=good)) == 1


def test_boost_not_ratcheted() -> None:
    """What every webhook refuses is refused again."""
    json = make.boost_json(factor=0)
    assert len(boost_problems(json, stored=json)) == 1


@cases(
    "json",
    {
        "an empty one": ({},),
        "a broken one": (make.boost_json(factor=0),),
        "a good one": (make.boost_json(factor=2),),
    },
)
def test_boost_gate_off(json: Json) -> None:
    """With the gate off, the boost as a whole is forbidden, and nothing deeper is looked at."""
    assert list(map(str, boost_findings(read_boost(json), "spec", Allowance()))) == [
        "spec.startupBoost: Forbidden: startupBoost needs feature gate CPUStartupBoost (alpha), "
        "which is off; --feature-gates=CPUStartupBoost=true of the admission "
        "controller, the updater and the recommender turns it on"
    ]


def test_no_boost() -> None:
    """Where no boost is, no gate is asked."""
    assert list(boost_findings(None, "spec", Allowance())) == []
