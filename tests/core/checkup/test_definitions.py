"""What is found about the definitions of our kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.core.checkup.definitions import of_definitions
from app.core.checkup.findings import Level, Unasked
from tests.core.checkup.healthy import FACTS, definitions, flaws

Json = dict[str, Any]


def version(item: Json) -> Json:
    """Return the served version of a definition."""
    found: Json = item["spec"]["versions"][0]
    return found


def spec(item: Json) -> Json:
    """Return the schema of its spec."""
    found: Json = version(item)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return found


def mode(item: Json) -> Json:
    """Return the schema of the update mode."""
    found: Json = spec(item)["updatePolicy"]["properties"]["updateMode"]
    return found


@pytest.mark.parametrize(
    ("plant", "level", "message"),
    [
        pytest.param(
            lambda item: item["status"].update(conditions=[]),
            Level.SERIOUS,
            "the API server has not taken it over",
            id="not established",
        ),
        pytest.param(
            lambda item: version(item).update(served=False),
            Level.SERIOUS,
            "version v1 is not served",
            id="not served",
        ),
        pytest.param(
            lambda item: version(item).pop("subresources"),
            Level.SERIOUS,
            "it has no status subresource, so nothing can be recommended",
            id="no status",
        ),
        pytest.param(
            lambda item: spec(item).pop("selector"),
            Level.WARNING,
            "these would be dropped or refused: spec.selector",
            id="a field",
        ),
        pytest.param(
            lambda item: mode(item)["enum"].remove("UpscaleOnly"),
            Level.WARNING,
            "these would be dropped or refused: spec.updatePolicy.updateMode: UpscaleOnly",
            id="a word",
        ),
        pytest.param(
            lambda item: spec(item)["resourcePolicy"]["properties"]["containerPolicies"]["items"][
                "properties"
            ].clear(),
            Level.WARNING,
            "these would be dropped or refused: "
            "spec.resourcePolicy.containerPolicies[].containerName, "
            "spec.resourcePolicy.containerPolicies[].mode, "
            "spec.resourcePolicy.containerPolicies[].minAllowed and 8 more",
            id="many fields",
        ),
    ],
)
def test_planted_faults(plant: Callable[[Json], object], level: Level, message: str) -> None:
    """What differs from what we need is named with its path."""
    live = definitions()
    plant(live[0])
    assert flaws(list(of_definitions(replace(FACTS, definitions=live)))) == [(level, message)]


def test_in_order() -> None:
    """Definitions as we make them are fine."""
    assert flaws(list(of_definitions(FACTS))) == []


def test_a_schema_that_takes_everything() -> None:
    """What a schema does not list it may keep; it is not missing there."""
    live = definitions()
    version(live[0])["schema"] = {"openAPIV3Schema": {"type": "object"}}
    assert flaws(list(of_definitions(replace(FACTS, definitions=live)))) == []


def test_absent() -> None:
    """A missing definition comes with the command that makes it."""
    found = list(of_definitions(replace(FACTS, definitions=[])))
    assert [one.is_absence for one in found] == [True, True]
    assert all(one.fix.startswith("plumbline manifests crd | kubectl apply") for one in found)


def test_unasked() -> None:
    """Who may not see definitions is told so."""
    (finding,) = of_definitions(replace(FACTS, definitions=Unasked("refused")))
    assert finding.level is Level.UNKNOWN
