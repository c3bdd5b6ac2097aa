"""What gates open, and what stored objects keep open."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.admission.allowance import Allowance, allowance
from app.model.gates import ALL_GATES, NO_GATES
from tests import make

BOOST = make.boost_json(factor=2)
IN_PLACE, STARTUP_BOOST, PER_VPA_CONFIG = (
    Allowance(in_place=True),
    Allowance(startup_boost=True),
    Allowance(per_vpa_config=True),
)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param({}, Allowance(), id="nothing"),
        pytest.param({"mode": "InPlace"}, IN_PLACE, id="InPlace"),
        pytest.param({"mode": "InPlaceOrRecreate"}, Allowance(), id="InPlaceOrRecreate"),
        pytest.param({"boost": BOOST}, STARTUP_BOOST, id="a boost"),
        pytest.param({"boost": {}}, Allowance(), id="an empty boost"),
        pytest.param(
            {"policies": [make.policy_json(boost={})]}, STARTUP_BOOST, id="a policy's empty boost"
        ),
        pytest.param(
            {"spec": {"updatePolicy": {"updateMode": "Off", "evictAfterOOMSeconds": 5}}},
            PER_VPA_CONFIG,
            id="evictAfterOOMSeconds",
        ),
        pytest.param({"mode": "Off"}, Allowance(), id="an update policy without it"),
        pytest.param(
            {"policies": [make.policy_json(), make.policy_json(oomMinBumpUp="0")]},
            PER_VPA_CONFIG,
            id="oomMinBumpUp",
        ),
        pytest.param(
            {"policies": [make.policy_json(oomBumpUpRatio="1")]},
            PER_VPA_CONFIG,
            id="oomBumpUpRatio",
        ),
        pytest.param(
            {"policies": [make.policy_json(memoryAggregationIntervalSeconds=1)]},
            PER_VPA_CONFIG,
            id="memoryAggregationIntervalSeconds",
        ),
        pytest.param(
            {"policies": [make.policy_json(memoryAggregationIntervalCount=1)]},
            PER_VPA_CONFIG,
            id="memoryAggregationIntervalCount",
        ),
        pytest.param(
            {
                "policies": [
                    make.policy_json(resources=["cpu", "a"]),
                    make.policy_json(resources=["b"]),
                ]
            },
            Allowance(odd_resources=frozenset({"a", "b"})),
            id="odd resources of all policies",
        ),
    ],
)
def test_stored(stored: dict[str, Any], expected: Allowance) -> None:
    """With all gates off, only what the stored object uses may be used on."""
    assert allowance(NO_GATES, make.vpa(**stored)) == expected


def test_gates() -> None:
    """Gates open the same for new objects and for stored ones that used nothing."""
    everything = Allowance(in_place=True, startup_boost=True, per_vpa_config=True)
    assert allowance(ALL_GATES, None) == allowance(ALL_GATES, make.vpa()) == everything
    assert allowance(NO_GATES, None) == Allowance()
