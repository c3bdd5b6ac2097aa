"""Rules for startup boosts."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.admission.allowance import Allowance
from app.core.admission.check_boost import boost_findings
from app.core.admission.problems import Caution, Problem, settle
from app.model.vpa import StartupBoost
from tests import make

BOOST_ON = Allowance(startup_boost=True)
AT = "spec.startupBoost.cpu"


def boost(json: dict[str, Any]) -> StartupBoost | None:
    """Read a boost as it stands in a VPA."""
    return make.vpa(boost=json).startup_boost


def problems(json: dict[str, Any], stored: dict[str, Any] | None = None) -> list[str]:
    """Return what is wrong with a boost, as texts."""
    before = boost_findings(boost(stored), "spec", BOOST_ON) if stored else iter(())
    found = settle(boost_findings(boost(json), "spec", BOOST_ON), before)
    return [str(item) for item in found if isinstance(item, Problem)]


@pytest.mark.parametrize(
    "json",
    [
        pytest.param({}, id="an empty one, which says no boost"),
        pytest.param({"cpu": None}, id="null, which says no boost"),
        pytest.param(make.boost_json(factor=1), id="factor 1, the way out"),
        pytest.param(make.boost_json(factor=3), id="factor"),
        pytest.param(make.boost_json(quantity="100m"), id="quantity"),
        pytest.param(make.boost_json(quantity="0"), id="quantity 0 boosts nothing"),
        pytest.param(make.boost_json(factor=2, duration="10s"), id="duration"),
        pytest.param(make.boost_json(factor=2, duration="0"), id="duration 0"),
        pytest.param(make.boost_json(factor=2, duration="1m30s"), id="duration of two parts"),
        pytest.param(make.boost_json(factor=2, duration_seconds=10), id="seconds"),
        pytest.param(make.boost_json(factor=2, duration_seconds=0), id="no seconds"),
    ],
)
def test_allowed(json: dict[str, Any]) -> None:
    """What can be meant is allowed."""
    assert problems(json) == []


NO_UNIT = '"10" has no unit at its end; write "10s" for ten seconds'


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        pytest.param({}, [".type: Required value: Factor or Quantity"], id="no type"),
        pytest.param(
            {"type": "", "duration": "abc", "factor": 0},
            [".type: Required value: Factor or Quantity"],
            id="an empty type ends the questions",
        ),
        pytest.param(
            {"type": "bad"},
            ['.type: Unsupported value: "bad": supported values: "Factor", "Quantity"'],
            id="an unknown type",
        ),
        pytest.param(
            {"type": "Factor"}, [".factor: Required value: type Factor needs it"], id="no factor"
        ),
        pytest.param(
            {"type": "Factor", "factor": 0},
            [".factor: Invalid value: 0: must be at least 1, which boosts nothing"],
            id="factor 0",
        ),
        pytest.param(
            {"type": "Factor", "factor": 2, "quantity": "1"},
            [".quantity: Forbidden: it belongs to type Quantity"],
            id="a quantity beside a factor",
        ),
        pytest.param(
            {"type": "Quantity"},
            [".quantity: Required value: type Quantity needs it"],
            id="no quantity",
        ),
        pytest.param(
            {"type": "Quantity", "quantity": "187500u"},
            ['.quantity: Invalid value: "187500u": must be a whole number of millicores'],
            id="parts of a millicore",
        ),
        pytest.param(
            {"type": "Quantity", "quantity": "-1"},
            [
                '.quantity: Invalid value: "-1": '
                "must not be negative: a boost never lowers a request"
            ],
            id="a negative quantity",
        ),
        pytest.param(
            {"type": "Quantity", "quantity": "1", "factor": 2},
            [".factor: Forbidden: it belongs to type Factor"],
            id="a factor beside a quantity",
        ),
        pytest.param(
            {"type": "Factor", "factor": 2, "duration": "10"},
            [f'.duration: Invalid value: "10": {NO_UNIT}'],
            id="a duration without unit",
        ),
        pytest.param(
            {"type": "Factor", "factor": 2, "duration": "-1s"},
            ['.duration: Invalid value: "-1s": must not be negative'],
            id="a negative duration",
        ),
        pytest.param(
            {"type": "Factor", "factor": 2, "durationSeconds": -1},
            [".durationSeconds: Invalid value: -1: must not be negative"],
            id="negative seconds",
        ),
        pytest.param(
            {"type": "Factor", "factor": 2, "duration": "1s", "durationSeconds": 1},
            [".durationSeconds: Forbidden: duration says the same; set only one of them"],
            id="both durations",
        ),
        pytest.param(
            {"type": "bad", "duration": "-1s", "durationSeconds": -1},
            [
                '.type: Unsupported value: "bad": supported values: "Factor", "Quantity"',
                '.duration: Invalid value: "-1s": must not be negative',
                ".durationSeconds: Invalid value: -1: must not be negative",
                ".durationSeconds: Forbidden: duration says the same; set only one of them",
            ],
            id="everything at once",
        ),
    ],
)
def test_refused(cpu: dict[str, Any], expected: list[str]) -> None:
    """What can never be meant is refused, at its field, with the reason."""
    assert problems({"cpu": cpu}) == [f"{AT}{text}" for text in expected]


@pytest.mark.parametrize(
    "cpu",
    [
        pytest.param({"type": "Factor", "factor": 2, "durationSeconds": -1}, id="negative seconds"),
        pytest.param({"type": "Factor", "factor": 2, "duration": "x"}, id="an odd duration"),
        pytest.param({"type": "Quantity", "quantity": "-1"}, id="a negative quantity"),
        pytest.param({"type": "Factor", "factor": 2, "quantity": "1"}, id="both amounts"),
    ],
)
def test_ratcheted(cpu: dict[str, Any]) -> None:
    """What only this webhook refuses stays as it is stored, but cannot be written anew."""
    good = make.boost_json(factor=2)
    assert problems({"cpu": cpu}, stored={"cpu": cpu}) == []
    assert len(problems({"cpu": cpu}, stored=good)) == 1


def test_not_ratcheted() -> None:
    """What every webhook refuses is refused again."""
    json = make.boost_json(factor=0)
    assert len(problems(json, stored=json)) == 1


@pytest.mark.parametrize(
    "json",
    [
        pytest.param({}, id="an empty one"),
        pytest.param(make.boost_json(factor=0), id="a broken one"),
        pytest.param(make.boost_json(factor=2), id="a good one"),
    ],
)
def test_gate_off(json: dict[str, Any]) -> None:
    """With the gate off, the boost as a whole is forbidden, and nothing deeper is looked at."""
    assert list(map(str, boost_findings(boost(json), "spec", Allowance()))) == [
        "spec.startupBoost: Forbidden: startupBoost needs feature gate CPUStartupBoost (alpha), "
        "which is off; --feature-gates=CPUStartupBoost=true of the admission controller turns it on"
    ]


def test_absent() -> None:
    """Where no boost is, no gate is asked."""
    assert list(boost_findings(None, "spec", Allowance())) == []


def test_tolerated_with_a_warning() -> None:
    """What is tolerated is told."""
    json = make.boost_json(factor=2, duration_seconds=-1)
    found = settle(
        boost_findings(boost(json), "spec", BOOST_ON), boost_findings(boost(json), "spec", BOOST_ON)
    )
    text = "Invalid value: -1: must not be negative; tolerated, the stored object has it too"
    assert list(found) == [Caution(f"{AT}.durationSeconds", text)]
