"""Feature gates are switched one by one or by stage; versions of API servers are read."""

from __future__ import annotations

import pytest

from app.model.errors import BadSetting
from app.model.gates import STAGES, FeatureGate, ServerVersion, parse_gates, read_version
from tests.cases import cases
from tests.make import ALL_GATES, NO_GATES


@pytest.mark.parametrize(
    ("texts", "enabled"),
    [
        ([], set()),
        ([""], set()),
        (["InPlace=true"], {FeatureGate.IN_PLACE}),
        (["InPlace=1, PerVPAConfig = T ,"], {FeatureGate.IN_PLACE, FeatureGate.PER_VPA_CONFIG}),
        (["InPlace=true", "PerVPAConfig=true"], {FeatureGate.IN_PLACE, FeatureGate.PER_VPA_CONFIG}),
        (["InPlace=true", "InPlace=false"], set()),
        (["AllAlpha=true"], set(FeatureGate)),
        (["AllBeta=true"], set()),
        (["AllAlpha=false"], set()),
        (
            ["InPlace=false,AllAlpha=true"],
            {FeatureGate.CPU_STARTUP_BOOST, FeatureGate.PER_VPA_CONFIG},
        ),
        (["AllAlpha=false,InPlace=true"], {FeatureGate.IN_PLACE}),
    ],
)
def test_gates(texts: list[str], enabled: set[FeatureGate]) -> None:
    """The last word on a gate counts, and outranks the word on its stage, in any order."""
    assert parse_gates(texts).enabled == enabled


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("InPlace", 'feature gate "InPlace" needs a value: write InPlace=true'),
        ("InPlace=yes", 'feature gate "InPlace" is true or false, not "yes"'),
        ("InPlace=", 'feature gate "InPlace" is true or false, not ""'),
        ("inplace=true", 'unknown feature gate "inplace"; did you mean "InPlace"?'),
        ("InPlaceOrRecreate=true", 'unknown feature gate "InPlaceOrRecreate"'
            '; did you mean "InPlace"?'),
        ("NativeSidecar=true", 'unknown feature gate "NativeSidecar"'),
        ("=true", 'unknown feature gate ""'),
    ],
)  # fmt: skip
def test_bad_gates(text: str, sentence: str) -> None:
    """What is no gate, or no value for one, is told with the gate's name."""
    with pytest.raises(BadSetting) as caught:
        parse_gates([f"PerVPAConfig=true,{text}"])
    assert str(caught.value) == sentence


def test_membership() -> None:
    """One asks the gates whether one of them is on."""
    gates = parse_gates(["InPlace=true"])
    assert FeatureGate.IN_PLACE in gates
    assert FeatureGate.CPU_STARTUP_BOOST not in gates
    assert not NO_GATES.enabled
    assert ALL_GATES.enabled == STAGES.keys() == set(FeatureGate)


@cases(
    "text expected",
    {
        "released": ("v1.36.3", (1, 36)),
        "of a provider": ("v1.32.4-gke.1106006", (1, 32)),
        "without its letter": ("1.33", (1, 33)),
        "none": ("unknown", None),
        "empty": ("", None),
    },
)
def test_read_version(text: str, expected: ServerVersion | None) -> None:
    """Major and minor are read, whatever a provider adds."""
    assert read_version(text) == expected
