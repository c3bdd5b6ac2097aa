"""All checks together: an installation in order, and facts that are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.diagnosis.core.checkup import checkup
from app.diagnosis.core.facts import Check, Facts, Level, Pods, Unasked
from tests import make
from tests.diagnosis.core.healthy import (
    FACTS,
    access,
    deployment,
    flaws,
)


def serious(facts: Facts, *, is_before: bool = False) -> set[Check]:
    """Return the checks that find something serious."""
    found = checkup(facts, is_before=is_before)
    return {check for check in found if any(one.level is Level.SERIOUS for one in found[check])}


def test_in_order() -> None:
    """Nothing is found where everything is as it should be, and every check had its say."""
    found = checkup(FACTS)
    assert [one for several in found.values() for one in flaws(several)] == []
    assert all(found[check] for check in Check)


@pytest.mark.parametrize(
    ("field", "about"),
    [
        ("version", "API server"),
        ("core_resources", "API server"),
        ("server_time", "API server"),
        ("definitions", "crd"),
        ("deployments", "deployment"),
        ("mutating", "mutatingwebhookconfiguration/vpa-webhook-config"),
        ("certificate", "secret/vpa-tls-certs"),
        ("leases", "lease"),
        ("metrics", "apiservice/v1beta1.metrics.k8s.io"),
        ("pods", "vpa"),
    ],
)
def test_facts_that_are_refused(field: str, about: str) -> None:
    """What could not be asked is unknown, with the reason, and every other check has its say."""
    refused: dict[str, Any] = {field: Unasked("403", is_refused=True)}
    found = checkup(replace(FACTS, **refused))
    every = [one for several in found.values() for one in several]
    unknown = [(one.about, one.message) for one in every if one.level is Level.UNKNOWN]
    assert unknown == [(about, "could not be looked at: 403")]
    assert all(found[check] for check in Check)


def test_a_recommender_alone() -> None:
    """Where only a recommender is installed a webhook is not missed; an updater waits for one."""
    alone = replace(FACTS, mutating=[], validating=[], leases=[], certificate=None)
    recommender, updater = deployment("recommender"), deployment("updater")
    assert serious(replace(alone, deployments=[recommender])) == set()
    for deployments in ([recommender, updater], Unasked("refused")):
        found = serious(replace(alone, deployments=deployments))
        assert found == {Check.WEBHOOK, Check.LEASES}


def test_before_an_installation() -> None:
    """What an installation will bring may be absent; what else is wrong stays as it is."""
    bare = Facts(
        now=make.NOW,
        version="v1.36.3",
        core_resources=FACTS.core_resources,
        server_time=make.NOW,
        wanted_definitions=FACTS.wanted_definitions,
        metrics=Unasked("404"),
        rights=[access(process="")],
        pods=Pods(),
    )
    assert serious(bare, is_before=True) == {Check.METRICS}
    assert serious(bare) == {Check.METRICS, Check.DEFINITIONS, Check.WEBHOOK, Check.LEASES}
