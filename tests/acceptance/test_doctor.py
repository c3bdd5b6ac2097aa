"""The check of an installation on a real cluster: all is well, then one fault after another."""

from __future__ import annotations

import copy
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import pytest

from app.admission.certificates import issue
from app.kube.manifests.documents import CONFIGURATION_NAME
from app.model.fields import Json
from app.ports import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    SECRETS,
    Resource,
)
from app.runtime.clock import SystemClock
from tests.acceptance.cluster import Cluster, doctor
from tests.acceptance.definitions import install, ours
from tests.acceptance.process import halted
from tests.acceptance.rights import NAMESPACE
from tests.acceptance.space import item_of
from tests.acceptance.webhook import HEARTBEAT, SECRET, Webhook, secret_data
from tests.cluster.api import Api
from tests.cluster.programs import eventually

CHECKPOINTS = "verticalpodautoscalercheckpoints.autoscaling.k8s.io"
LONG_AGO = "2020-01-01T00:00:00.000000Z"


@pytest.fixture(scope="module")
def serious(cluster: Cluster) -> Callable[[], list[Json]]:
    """Looks at the cluster, and returns what is serious; metrics are no part of this one."""

    def look() -> list[Json]:
        code, findings = doctor(cluster.kubeconfig)
        found = [one for one in findings if one["level"] == "serious"]
        assert code == bool(found)
        return [one for one in found if one["check"] != "Metrics"]

    return look


def test_all_is_well(webhook: Webhook, serious: Callable[[], list[Json]]) -> None:
    """Beside a webhook that is called nothing serious is found."""
    assert webhook.problem() == "OK"
    eventually(lambda: serious() == [], "nothing is serious")


Plant = Callable[[Api], AbstractContextManager[None]]
Fault = tuple[Plant, str, str]  # what is planted, the check that finds it, a word of what it says
Finds = Callable[..., bool]  # the parts of a fault


@contextmanager
def changed(
    admin: Api, resource: Resource, namespace: str, name: str, change: Callable[[Json], Any]
) -> Iterator[None]:
    """Change an object, and put it back."""
    before = admin.get(resource, namespace, name)
    planted = copy.deepcopy(before)
    change(planted)
    admin.replace(planted)
    yield
    newest = admin.get(resource, namespace, name)["metadata"]["resourceVersion"]
    admin.replace({**before, "metadata": {**before["metadata"], "resourceVersion": newest}})


@contextmanager
def added(admin: Api, resource: Resource, *items: Json) -> Iterator[None]:
    """Add objects, and take them away."""
    for item in items:
        admin.create(item)
    yield
    for item in items:
        admin.delete(resource, item["metadata"].get("namespace", ""), item["metadata"]["name"])


@contextmanager
def without_checkpoints(admin: Api) -> Iterator[None]:
    """Take a definition away, and bring it back."""
    admin.delete(CUSTOM_RESOURCE_DEFINITIONS, "", CHECKPOINTS)
    eventually(
        lambda: admin.find(CUSTOM_RESOURCE_DEFINITIONS, "", CHECKPOINTS) is None, "it is gone"
    )
    yield
    install(admin, ours())


def second(admin: Api) -> AbstractContextManager[None]:
    """Register a second webhook of the kind."""
    found = admin.get(MUTATING_WEBHOOKS, "", CONFIGURATION_NAME)
    other = {**found, "metadata": {"name": "release-webhook-config"}}
    return added(admin, MUTATING_WEBHOOKS, other)


def deployment(name: str, image: str, *, product: str, replicas: int) -> Json:
    """Return an updater's Deployment, of an account that has no rights."""
    labels = {"app.kubernetes.io/name": product, "app.kubernetes.io/component": "updater"}
    pod = {"serviceAccountName": "nobody", "containers": [{"name": "updater", "image": image}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    found = item_of(DEPLOYMENTS, name, NAMESPACE, spec=spec)
    found["metadata"]["labels"] = labels
    return found


OURS = deployment("ours", "plumbline", product="plumbline", replicas=0)
THEIRS = deployment(
    "theirs", "registry.k8s.io/autoscaling/vpa-updater:1.8.1", product="vpa", replicas=1
)


def configured(change: Callable[[Json], Any]) -> Plant:
    """Change our webhook's configuration."""
    return lambda admin: changed(
        admin, MUTATING_WEBHOOKS, "", CONFIGURATION_NAME, lambda item: change(item["webhooks"][0])
    )


def expired() -> dict[str, str]:
    """Return what a Secret holds whose certificate expired."""
    return secret_data(issue(["localhost"], SystemClock().now() - timedelta(days=400), 365))


def other_ca(client: Json) -> None:
    """Let a webhook be trusted by another CA."""
    made = issue(["localhost"], SystemClock().now(), 365)
    client["caBundle"] = b64encode(made.ca_pem.encode()).decode()


AROUND_IT: Mapping[str, Fault] = {
    "a second webhook": (second, "Webhook", "sized more than once"),
    "upstream's updater": (
        lambda admin: added(admin, DEPLOYMENTS, OURS, THEIRS),
        "Components",
        "still runs",
    ),
    "no rights": (lambda admin: added(admin, DEPLOYMENTS, OURS), "Rights", "may not"),
    "no definition": (without_checkpoints, "Definitions", "is not there"),
}
OF_THE_WEBHOOK: Mapping[str, Fault] = {
    "out of reach": (lambda _: nullcontext(), "Webhook", "cannot reach"),
    "out of reach, and it matters": (
        configured(lambda hook: hook.update(failurePolicy="Fail")),
        "Webhook",
        "cannot ask the webhook",
    ),
    "no rule for pods": (
        configured(lambda hook: hook["rules"].pop(0)),
        "Webhook",
        "not asked about new pods",
    ),
    "another CA": (
        configured(lambda hook: other_ca(hook["clientConfig"])),
        "Webhook",
        "not the one that signed",
    ),
    "an expired certificate": (
        lambda admin: changed(
            admin, SECRETS, NAMESPACE, SECRET, lambda item: item.update(data=expired())
        ),
        "Certificate",
        "expired",
    ),
    "a stale Lease": (
        lambda admin: changed(
            admin,
            LEASES,
            NAMESPACE,
            HEARTBEAT,
            lambda item: item["spec"].update(renewTime=LONG_AGO),
        ),
        "Leases",
        "its last sign",
    ),
}


@pytest.fixture
def finds(admin: Api, serious: Callable[[], list[Json]]) -> Finds:
    """Says whether a fault is named while it is there, with the command that mends it."""

    def look(plant: Plant, check: str, word: str) -> bool:
        with plant(admin):
            found = [one for one in serious() if one["check"] == check]
        return any(word in one["message"] and one["fix"] for one in found)

    return look


@pytest.mark.parametrize("fault", AROUND_IT.values(), ids=[*AROUND_IT])
@pytest.mark.usefixtures("webhook")
def test_faults_around_it(finds: Finds, fault: Fault) -> None:
    """What is wrong beside a webhook that works is named."""
    assert finds(*fault)


@pytest.mark.parametrize("fault", OF_THE_WEBHOOK.values(), ids=[*OF_THE_WEBHOOK])
def test_faults_of_the_webhook(webhook: Webhook, finds: Finds, fault: Fault) -> None:
    """What is wrong with a webhook that hangs, and so puts nothing back, is named as well."""
    with halted(webhook.program):
        is_found = finds(*fault)
    assert is_found
    webhook.wait_until_called()
