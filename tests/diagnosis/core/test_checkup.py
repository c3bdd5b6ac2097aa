"""All checks together: an installation in order, and ten planted faults."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.diagnosis.core.checkup import checkup
from app.diagnosis.core.facts import Check, Facts, Level, Pods, TrialOutcome, TrialResult, Unasked
from tests import make
from tests.cases import cases
from tests.diagnosis.core.healthy import (
    FACTS,
    OTHER_CA,
    access,
    bundle,
    configuration,
    deployment,
    flaws,
    generation,
    hook,
    lease,
)

ROGUE = hook(clientConfig=hook()["clientConfig"] | {"caBundle": bundle(OTHER_CA)})


def serious(facts: Facts, *, is_before: bool = False) -> set[Check]:
    """Return the checks that find something serious."""
    found = checkup(facts, is_before=is_before)
    return {check for check in found if any(one.level is Level.SERIOUS for one in found[check])}


def test_in_order() -> None:
    """Nothing is found where everything is as it should be, and every check had its say."""
    found = checkup(FACTS)
    assert [one for several in found.values() for one in flaws(several)] == []
    assert all(found[check] for check in Check)


@cases(
    "facts check",
    {
        "an old server": (replace(FACTS, version="v1.20.0"), Check.SERVER),
        "clocks": (replace(FACTS, now=make.NOW + timedelta(hours=1)), Check.CLOCK),
        "no definitions": (replace(FACTS, definitions=[]), Check.DEFINITIONS),
        "another CA": (
            replace(FACTS, mutating=[configuration("vpa-webhook-config", ROGUE)]),
            Check.WEBHOOK,
        ),
        "a webhook out of reach": (
            replace(FACTS, tried=TrialResult(TrialOutcome.PASSED)),
            Check.WEBHOOK,
        ),
        "expired": (replace(FACTS, certificate=generation(days=-0.1)), Check.CERTIFICATE),
        "a stale Lease": (
            replace(FACTS, leases=[lease("vpa-admission-controller", timedelta(hours=1))]),
            Check.LEASES,
        ),
        "no metrics": (replace(FACTS, metrics=Unasked("503")), Check.METRICS),
        "a missing right": (replace(FACTS, accounts=[access(allowed=False)]), Check.RIGHTS),
        "upstream still running": (
            replace(
                FACTS,
                deployments=[
                    deployment("updater"),
                    deployment("updater", image="x/vpa-updater:1.8.1"),
                ],
            ),
            Check.COMPONENTS,
        ),
    },
)
def test_ten_planted_faults(facts: Facts, check: Check) -> None:
    """Each is named as serious by the check that is for it, with a command, and by no other."""
    assert serious(facts) == {check}
    assert all(one.fix for one in checkup(facts)[check] if one.level is Level.SERIOUS)


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
