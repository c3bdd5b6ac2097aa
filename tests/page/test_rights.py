"""What the page asks an API server for is what its role lets it ask for.

Strategy: the page runs as in a cluster, beside a server that writes down what it is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import httpx

from app.flags.command_line import parse
from app.kube.manifests.rights import RIGHTS
from app.page.flags import PageSettings
from app.page.process import Process, source_of
from app.ports import (
    CHECKPOINTS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    HPAS,
    LEASES,
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_METRICS,
    PODS,
    SCALED_OBJECTS,
    VALIDATING_WEBHOOKS,
    VPAS,
    WORKLOADS,
)
from app.runtime.clock import SystemClock
from tests.kube.api_server import serving
from tests.kube.api_state import Request
from tests.kube.connecting import kubeconfig, write
from tests.page.shown import shop
from tests.waiting import eventually

SERVED = (
    VPAS, CHECKPOINTS, PODS, POD_METRICS, EVENTS, LEASES, LIMIT_RANGES, NODES, NAMESPACES, HPAS,
    SCALED_OBJECTS, POD_DISRUPTION_BUDGETS, CUSTOM_RESOURCE_DEFINITIONS, MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS, *WORKLOADS,
)  # fmt: skip
PATH = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/[^/]+(?:/namespaces/[^/]+(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>.+))?"
)
BY_KIND = {
    "StatefulSet": "statefulsets",
    "Pod": "pods",
    "VerticalPodAutoscaler": "verticalpodautoscalers",
}
# Asked of every API server by who has a token, or only where there is more than this one serves.
OF_EVERYONE = {"selfsubjectaccessreviews"}
ELSEWHERE = {
    "*/scale", "tokenreviews", "subjectaccessreviews", "endpointslices", "leases",
}  # fmt: skip
# Tried, and done without: Leases are read by their names then, and tell of the certificate.
REFUSED = {("list", "coordination.k8s.io", "leases"), ("get", "", "secrets")}

Asked = tuple[str, str, str]  # verb, group, resource


def granted() -> set[Asked]:
    """Return what the role of the page grants."""
    return {
        (verb, right.group, resource)
        for right in RIGHTS["page"]
        for resource, verb in product(right.resources, right.verbs)
    }


def asked(requests: Sequence[Request]) -> Iterator[Asked]:
    """Yield what requests ask for, as a role names it."""
    for one in requests:
        found = PATH.fullmatch(one.path)
        if found is None or found["plural"] in OF_EVERYONE:
            continue
        is_watch = one.query.get("watch") in ("1", "true", "True")
        reads = "get" if found["name"] else "watch" if is_watch else "list"
        verb = reads if one.method == "GET" else {"POST": "create"}.get(one.method, one.method)
        yield verb, found["group"] or "", found["plural"]


def browse(url: str) -> None:
    """Look at pages until the installation was checked."""
    assert eventually(lambda: httpx.get(url).status_code == 200)
    for page in ("vpas/web", "pods/web-0"):
        found = httpx.get(f"{url}namespaces/default/{page}")
        assert found.status_code == 200, found.text
    assert eventually(lambda: httpx.get(f"{url}installation.json").json()["isChecked"])


def test_it_asks_for_what_it_may_and_uses_all_of_it(tmp_path: Path) -> None:
    """Every request is covered by a rule of its role, and every rule is used."""
    with serving(*SERVED) as server:
        for item in shop():
            resource = next(one for one in SERVED if one.plural == BY_KIND[item["kind"]])
            server.store(resource, item)
        path = write(tmp_path / "config", kubeconfig(server.url))
        words = [f"--kubeconfig={path}", "--address=127.0.0.1:0", "--refresh=1s"]
        settings = parse(PageSettings, words, {})
        with source_of(settings, SystemClock()) as source:
            process = Process(settings, source)
            process.start()
            try:
                browse(process.url)
            finally:
                process.stop()
        found = set(asked(server.requests))

    assert found - granted() == REFUSED
    # Workloads of all kinds are read like the StatefulSet.
    read_alike = {("get", one.group, one.plural) for one in WORKLOADS}
    unused = {one for one in granted() - found - read_alike if one[2] not in ELSEWHERE}
    assert unused == set()
    assert ("get", "apps", "statefulsets") in found
