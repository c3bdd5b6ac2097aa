"""Which rights a command line asks for."""

from __future__ import annotations

import pytest

from app.kube.manifests.documents import PROCESSES, objects
from app.kube.manifests.rights import OPTIONS, RIGHTS, Right, needed
from tests.cases import cases

METRICS = "--use-external-metrics"


def about(rights: tuple[Right, ...], resource: str) -> list[tuple[str, ...]]:
    """Return the names of the rights on a resource."""
    return [right.names for right in rights if resource in right.resources]


@pytest.mark.parametrize("process", PROCESSES)
def test_manifests_need_what_they_grant(process: str) -> None:
    """With the flags of the manifests every right of the table is needed, and no other."""
    (deployment,) = (item for item in objects(process) if item["kind"] == "Deployment")
    component = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    assert needed(component, container["args"]) == RIGHTS[component]


@cases(
    "words names",
    {
        "nothing": ((), []),
        "another value": (("--prove=canary",), []),
        "trials": (("--prove=dry-run", "--v=4"), ["trials"]),
        "summaries": (("--vpa-summaries",), ["summaries"]),
        "Leases": (("--role-leases=true",), ["role-leases", "role-usage"]),
        "a switch": ((METRICS,), ["external-metrics"]),
        "a switch, set": ((f"{METRICS}=true",), ["external-metrics"]),
        "a switch, off": ((f"{METRICS}=false",), []),
        "a switch, by number": ((f"{METRICS}=1",), ["external-metrics"]),
        "the last one counts": ((METRICS, f"{METRICS}=f"), []),
        "two words": (("--prove", "dry-run"), ["trials"]),
        "one dash": (("-prove=dry-run",), ["trials"]),
        "other dashes": (("--use_external_metrics",), ["external-metrics"]),
    },
)
def test_options(words: tuple[str, ...], names: list[str]) -> None:
    """A command line tells which rights its process needs beside."""
    found = [
        name
        for name, option in OPTIONS.items()
        if all(option.right in needed(one, words) for one in option.components)
    ]
    assert found == names


@pytest.mark.parametrize("component", ["recommender", "updater"])
@cases(
    "words count",
    {
        "alone": ((), 0),
        "switched off": (("--leader-elect=false",), 0),
        "bare": (("--leader-elect",), 2),
        "more behind it": (("--leader-elect", "--leader-elect-retry-period=1s"), 2),
    },
)
def test_only_who_elects_holds_a_lease(component: str, words: tuple[str, ...], count: int) -> None:
    """Without an election no Lease is made or renewed."""
    others = 1 if component == "updater" else 0  # it reads the webhook's
    assert len(about(needed(component, words), "leases")) == count + others


def test_objects_of_another_name() -> None:
    """A right is on the object that a flag names."""
    words = ("--webhook-config-name=blue", "--status-lease-name", "green")
    found = needed("admission-controller", words)

    assert ("blue",) in about(found, "mutatingwebhookconfigurations")
    assert ("green",) in about(found, "leases")


@pytest.mark.parametrize("word", ["false", "0", "F"])
def test_registration_by_others(word: str) -> None:
    """Without registration no right on webhook configurations is needed, nor to tell of changes."""
    found = needed("admission-controller", (f"--register-webhook={word}",))

    assert about(found, "mutatingwebhookconfigurations") == about(found, "events") == []
    assert about(found, "secrets")
    registering = needed("admission-controller", ("--register-webhook=1",))
    assert registering == RIGHTS["admission-controller"]


def test_certificates_of_others() -> None:
    """With certificates given no Secret is needed; registration is still by one replica."""
    found = needed("admission-controller", ("--tls-cert-dir=/etc/tls-certs",))

    assert about(found, "secrets") == []
    assert ("vpa-admission-controller-rotation",) in about(found, "leases")
