"""The updater's process as it is started, before an API server on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.ports import (
    EVENTS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STATEFUL_SETS,
    VPAS,
    WORKLOADS,
    Json,
)
from tests import make
from tests.cluster.numbers import total
from tests.cluster.programs import free_port
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.updater.core.scenes import container, recommended, running, several
from tests.waiting import eventually

HELPFUL = [LIMIT_RANGES, POD_DISRUPTION_BUDGETS, NODES, NAMESPACES]
SERVED = [*WORKLOADS, VPAS, PODS, *HELPFUL, EVENTS, LEASES]


@dataclass(frozen=True)
class Running:
    """A process, and where it answers."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def answer(self, path: str) -> httpx.Response | None:
        """Return what it answers, None if it does not."""
        try:
            return httpx.get(f"{self.url}{path}", timeout=5)
        except httpx.HTTPError:
            return None

    def is_ready(self) -> bool:
        """Whether it knows the cluster."""
        found = self.answer("/readyz")
        return found is not None and found.status_code == 200

    def decisions(self, query: str = "") -> list[Json]:
        """Return the decisions of its last round."""
        found = self.answer(f"/v1/decisions{query}")
        decisions: list[Json] = found.json()["decisions"] if found is not None else []
        return decisions


@contextmanager
def updating(server: ApiServer, folder: Path, *flags: str) -> Iterator[Running]:
    """Start the process; end it in any case."""
    port = free_port()
    command = [
        sys.executable, "-m", "app", "updater", f"--address=127.0.0.1:{port}",
        f"--kubeconfig={write(folder / 'config', kubeconfig(server.url))}",
        "--updater-interval=1s", "--use-admission-controller-status=false", *flags,
    ]  # fmt: skip
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stderr=file, start_new_session=True)
    found = Running(process, f"http://127.0.0.1:{port}", log)
    try:
        assert eventually(found.is_ready), log.read_text()
        yield found
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server with a StatefulSet whose pods should be bigger."""
    kinds = {"Pod": PODS, "StatefulSet": STATEFUL_SETS, "VerticalPodAutoscaler": VPAS}
    pods = several(running(container("app", "100m/100Mi")), 3)
    vpa = make.vpa_json(recommendations=[recommended("200m/200Mi = =")])
    with serving(*SERVED) as found:
        for item in [*pods, make.workload_json(replicas=3), vpa]:
            found.store(kinds[item["kind"]], item)
        yield found


def pods(server: ApiServer) -> int:
    """Return how many pods are left."""
    return len(server.objects[PODS])


def test_it_evicts_tells_and_ends(server: ApiServer, tmp_path: Path) -> None:
    """A pod goes; decisions, metrics and an event tell of it; a signal ends it in order."""
    with updating(server, tmp_path) as found:
        assert eventually(lambda: pods(server) == 2), found.log.read_text()
        assert eventually(lambda: len(found.decisions()) == 2)
        assert found.decisions("?pod=web-1") == [
            item for item in found.decisions() if item["pod"] == "web-1"
        ]
        assert found.decisions("?namespace=other") == []
        page = found.answer("/metrics")
        assert page is not None
        assert total(page.text, "vpa_updater_evicted_pods_total", vpa_name="web") == 1
        assert total(page.text, "vpa_updater_pod_decisions") == 2
        health = found.answer("/health-check")
        assert health is not None
        assert (health.status_code, health.text) == (200, "OK")
        assert eventually(lambda: len(server.objects[EVENTS]) == 2)
        found.process.terminate()

        assert found.process.wait(20) == 0
    assert pods(server) == 2  # the one that went was a canary, and none came instead


def test_a_dry_run_touches_nothing(server: ApiServer, tmp_path: Path) -> None:
    """It decides the same, and only reads."""
    with updating(server, tmp_path, "--dry-run", "--leader-elect") as found:
        assert eventually(lambda: len(found.decisions("?action=Evict")) == 1)
    assert {request.method for request in server.requests} == {"GET"}


def test_the_leader_lets_go(server: ApiServer, tmp_path: Path) -> None:
    """Only who holds the Lease acts, and who ends gives it back."""
    with updating(server, tmp_path, "--leader-elect") as found:
        assert eventually(lambda: pods(server) == 2)
        lease = server.objects[LEASES]["kube-system", "vpa-updater"]
        assert lease["spec"]["holderIdentity"]
        found.process.terminate()
        assert found.process.wait(20) == 0
    lease = server.objects[LEASES]["kube-system", "vpa-updater"]
    assert lease["spec"]["holderIdentity"] == ""


def asked(server: ApiServer, method: str, part: str) -> list[str]:
    """Return the paths of the requests of a kind."""
    return [item.path for item in server.requests if item.method == method and part in item.path]


def test_a_boost_ends_by_the_pods_own_event(server: ApiServer, tmp_path: Path) -> None:
    """A pod that gets ready is brought back at once, not in the next round; in any mode."""
    marks = {"vpaCpuStartupBoost/app": '{"requests":{"cpu":"100m"},"limits":{}}'}
    starting = running(container("app", "300m/100Mi"), annotations=marks, ready=False)
    boost = {"cpu": {"type": "Factor", "factor": 3}}
    server.store(VPAS, make.vpa_json(mode="Off", boost=boost, recommendations=[]))
    server.store(PODS, starting)
    flags = ["--feature-gates=CPUStartupBoost=true", "--updater-interval=1h"]
    with updating(server, tmp_path, *flags) as found:
        assert eventually(lambda: len(found.decisions("?reason=BoostRunning")) == 1)
        assert asked(server, "PATCH", "/resize") == []
        server.store(PODS, running(container("app", "300m/100Mi"), annotations=marks))
        assert eventually(lambda: bool(asked(server, "PATCH", "/web-0/resize")), 5), (
            found.log.read_text()
        )
    assert len(asked(server, "POST", "/eviction")) == 0


def test_without_rights_that_only_help(server: ApiServer, tmp_path: Path) -> None:
    """Upstream's rights do not include budgets: it works without them, and says so."""
    server.fail("/poddisruptionbudgets", 403, times=1000)
    with updating(server, tmp_path) as found:
        assert eventually(lambda: pods(server) == 2, 40), found.log.read_text()
    assert '"resource":"poddisruptionbudgets"' in found.log.read_text()
