"""All rules for a spec together."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.admission.check_spec import spec_findings
from app.core.admission.problems import Caution, Problem
from app.core.admission.written import Version, read_written
from app.model.gates import ALL_GATES, NO_GATES, Gates
from tests import make


def version(item: dict[str, Any]) -> Version:
    """Read a VPA as it comes in a review."""
    found = read_written(make.review(item)).new
    assert found is not None
    return found


def findings(
    new: dict[str, Any], stored: dict[str, Any] | None = None, gates: Gates = ALL_GATES
) -> list[Problem | Caution]:
    """Judge a VPA beside the stored one."""
    return list(spec_findings(version(new), version(stored) if stored else None, gates))


def aiming(api_version: str | None, kind: str | None, name: str | None = "web") -> dict[str, Any]:
    """Return a VPA with a target of these words."""
    words = {"apiVersion": api_version, "kind": kind, "name": name}
    target = {key: word for key, word in words.items() if word is not None}
    return make.vpa_json(spec={"targetRef": target})


NO_TARGET = make.vpa_json(target=None)


@pytest.mark.parametrize(
    ("new", "stored", "expected"),
    [
        pytest.param(
            NO_TARGET,
            None,
            ["spec.targetRef: Required value: name the workload to scale, as objects of v1 must"],
            id="a new one without target",
        ),
        pytest.param(NO_TARGET, NO_TARGET, [], id="a stored one without target"),
        pytest.param(aiming("apps/v1", "Deployment"), None, [], id="a built-in kind"),
        pytest.param(aiming(None, "Deployment"), None, [], id="a built-in kind alone"),
        pytest.param(aiming("example.com/v1", "Rollout"), None, [], id="a custom kind"),
        pytest.param(
            aiming("apps/v1", "", ""),
            None,
            ["spec.targetRef.kind: Required value", "spec.targetRef.name: Required value"],
            id="empty words",
        ),
        pytest.param(
            aiming("apps/v1", None),
            aiming("apps/v1", None),
            [
                "spec.targetRef.kind: Required value; tolerated, the stored object has it too",
            ],
            id="a stored one without kind",
        ),
        pytest.param(
            aiming("apps/v1", "deployment"),
            None,
            [
                'spec.targetRef.kind: "deployment" with apiVersion "apps/v1" is nothing that can '
                'be scaled; did you mean "Deployment"?'
            ],
            id="a kind misspelled",
        ),
        pytest.param(
            aiming("v1", "Xyz"),
            None,
            ['spec.targetRef.kind: "Xyz" with apiVersion "v1" is nothing that can be scaled'],
            id="a kind that is not there",
        ),
    ],
)
def test_target(new: dict[str, Any], stored: dict[str, Any] | None, expected: list[str]) -> None:
    """A target must be named; one that is named oddly is told of."""
    assert [str(item) for item in findings(new, stored)] == expected


@pytest.mark.parametrize(
    ("recommenders", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([{"name": "a"}], [], id="one"),
        pytest.param(
            [{"name": "a"}, {"name": "b"}],
            ["spec.recommenders: Too many: 2: must have at most 1 item"],
            id="two",
        ),
    ],
)
def test_recommenders(recommenders: list[dict[str, str]], expected: list[str]) -> None:
    """One recommender is enough."""
    found = findings(make.vpa_json(spec={"recommenders": recommenders}))
    assert [str(item) for item in found] == expected


def exists(key: str, operator: str = "Exists") -> dict[str, Any]:
    """Return a condition on a label."""
    return {"key": key, "operator": operator}


CONTRADICTION = {"matchExpressions": [exists("a"), exists("a", "DoesNotExist")]}
FLAWED = {"matchLabels": {"-a": "b"}, "matchExpressions": [exists("b", "Like")]}


@pytest.mark.parametrize(
    ("selector", "paths"),
    [
        pytest.param({}, [], id="empty"),
        pytest.param({"matchLabels": {"a": "b"}}, [], id="labels"),
        pytest.param(CONTRADICTION, ["spec.selector"], id="a contradiction"),
        pytest.param(
            FLAWED,
            ["spec.selector.matchLabels", "spec.selector.matchExpressions[0].operator"],
            id="flaws",
        ),
    ],
)
def test_selector(selector: dict[str, Any], paths: list[str]) -> None:
    """A selector must be well formed and possible; if it is stored, it stays with a warning."""
    new = make.vpa_json(selector=selector)
    fresh, kept = findings(new), findings(new, stored=new)
    assert [item.path for item in fresh] == [item.path for item in kept] == paths
    assert all(isinstance(item, Problem) for item in fresh)
    assert all(isinstance(item, Caution) for item in kept)


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
