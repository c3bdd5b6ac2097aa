"""The cluster under test: the one in memory, or a real one if CONTRACT_KUBECONFIG names it.

The variable is one of its own, for a KUBECONFIG of daily use may well point at a cluster that
these cases are not wanted to run on. All other fixtures, and all cases, are the same for both;
the few that a real cluster cannot be asked are marked where they stand, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from app.kube.client import connect
from app.kube.manifests import documents
from app.model.errors import Conflict
from app.ports import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    Clock,
    Cluster,
    Json,
    Ref,
    Resource,
)
from app.runtime.clock import SystemClock
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.contract.crowds import Pods
from tests.contract.space import Space
from tests.contract.waiting import Eventually

KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")

World = tuple[Cluster, Clock]


def refusal(pod: Json) -> str:
    """Return why a runtime shall refuse to resize a pod, in the words of the real node."""
    word = (pod["metadata"].get("annotations") or {}).get("sandbox.plumbline/resize", "")
    return str(word).removeprefix("refuse ")


@pytest.fixture(params=["real"] if KUBECONFIG else ["sandbox"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A cluster and its time."""
    if request.param == "real":
        cluster = connect(KUBECONFIG, qps=0)
        yield cluster, SystemClock()
        cluster.close()
    else:
        clock = SteppedClock()
        sandbox = Sandbox(clock, refuses=refusal)
        yield sandbox.cluster, clock
        sandbox.close()


@pytest.fixture
def cluster(world: World) -> Cluster:
    """The cluster under test."""
    return world[0]


@pytest.fixture
def clock(world: World) -> Clock:
    """The time of the cluster."""
    return world[1]


@pytest.fixture
def eventually(clock: Clock) -> Eventually:
    """Waits until something is so."""
    return Eventually(clock)


@pytest.fixture
def namespace(cluster: Cluster, eventually: Eventually) -> Iterator[str]:
    """A namespace of the case's own, ready for pods."""
    created = cluster.create(Ref(NAMESPACES), {"metadata": {"generateName": "contract-"}})
    name = str(created["metadata"]["name"])
    served = {found["name"] for found in cluster.request("GET", "/api/v1")["resources"]}
    if "serviceaccounts" in served:
        eventually(lambda: cluster.list(SERVICE_ACCOUNTS, name).items)
    yield name
    cluster.delete(Ref(NAMESPACES, "", name))


@pytest.fixture
def space(cluster: Cluster, namespace: str, eventually: Eventually) -> Space:
    """The same namespace, and what a case does there."""
    return Space(cluster, namespace, eventually)


@pytest.fixture
def pods(space: Space) -> Pods:
    """The pods of the same namespace, which run by their status alone."""
    return Pods(space.cluster, space.namespace, space.eventually)


@pytest.fixture
def node(cluster: Cluster) -> Json:
    """A node that takes pods."""
    for found in cluster.list(NODES).items:
        if not found["spec"].get("unschedulable") and not found["spec"].get("taints"):
            return found
    pytest.skip("the cluster has no node")


@pytest.fixture
def customs(cluster: Cluster, eventually: Eventually) -> None:
    """The definitions of VPAs and their checkpoints, in force."""
    for definition in documents.objects("crd"):
        name = definition["metadata"]["name"]
        with suppress(Conflict):  # another case made it
            cluster.create(Ref(CUSTOM_RESOURCE_DEFINITIONS), definition)

        def is_established(name: str = name) -> bool:
            found = cluster.get(Ref(CUSTOM_RESOURCE_DEFINITIONS, "", name))
            conditions = found.get("status", {}).get("conditions") or ()
            return any(
                entry["type"] == "Established" and entry["status"] == "True" for entry in conditions
            )

        eventually(is_established)
