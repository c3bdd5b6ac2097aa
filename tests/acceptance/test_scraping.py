"""A real Prometheus scrapes real nodes, and a recommender that starts knows what it saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

import httpx
import pytest

from app.model.quantity import Quantity
from app.ports import PODS, VPAS
from tests.acceptance.logs import Logs
from tests.acceptance.space import APP, Box, Space
from tests.acceptance.stage import LOAD
from tests.acceptance.worker import Start
from tests.cluster.api import Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import Program, eventually, free_port

JOB = "kubernetes-cadvisor"
FLAGS = (
    "--storage=prometheus",
    f"--prometheus-cadvisor-job-name={JOB}",
    "--history-length=30m",
    "--history-resolution=15s",
    "--metric-for-pod-labels=kube_pod_labels",
    "--pod-label-prefix=label_",
    "--pod-namespace-label=namespace",
    "--pod-name-label=pod",
    "--container-pod-name-label=pod",
    "--container-name-label=container",
)
MUCH, LITTLE = 600, 50  # MiB
SEEN_SECONDS = 40  # of much memory; the past is read in steps of less
LIVE_SECONDS = 150  # what is younger counts as live usage, and is left to metrics-server

Ask = Callable[[str], float]  # a query, of which the highest value is told


def configuration(folder: Path, plane: ControlPlane) -> Path:
    """Write what is scraped; a rule stands for the metric that tells of the labels of pods."""
    rule = {
        "record": "kube_pod_labels",
        "expr": "group by (namespace, pod) (container_memory_working_set_bytes)",
        "labels": {"label_app": APP},
    }
    (folder / "rules.json").write_text(json.dumps({"groups": [{"name": "all", "rules": [rule]}]}))
    targets = [f"127.0.0.1:{port}" for port in plane.nodes.metrics_ports.values()]
    asked = {"job_name": JOB, "static_configs": [{"targets": targets}]}
    told = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.json")],
        "scrape_configs": [asked],
    }
    path = folder / "prometheus.json"
    path.write_text(json.dumps(told))
    return path


@pytest.fixture
def address(plane: ControlPlane, tmp_path: Path, logs: Logs) -> Iterator[str]:
    """Where a Prometheus is that scrapes the nodes."""
    path = which("prometheus")
    if path is None:
        pytest.skip("there is no prometheus here; Debian's package of that name brings it")
    port = free_port()
    flags = {
        "config.file": configuration(tmp_path, plane),
        "storage.tsdb.path": tmp_path / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    command = [path, *(f"--{name}={text}" for name, text in flags.items())]
    program = Program("prometheus", command, tmp_path / "prometheus.log", {})
    logs.add(program.name, program.log)
    program.start()
    yield f"http://127.0.0.1:{port}"
    program.kill()


@pytest.fixture
def ask(address: str) -> Ask:
    """Asks it."""

    def look(query: str) -> float:
        try:
            found = httpx.get(f"{address}/api/v1/query", params={"query": query}).json()
        except httpx.HTTPError:
            return 0.0
        values = [float(each["value"][1]) for each in found.get("data", {}).get("result", ())]
        return max(values, default=0.0)

    return look


def use(space: Space, mebibytes: int) -> None:
    """Let all pods use so much memory from now on."""
    change = {"metadata": {"annotations": {LOAD: f"memory: constant {mebibytes}Mi"}}}
    for pod in space.pods(1):
        space.admin.merge(PODS, space.name, pod["metadata"]["name"], change)


def told_by_metrics_server(space: Space) -> int:
    """Return the most memory that a container uses now, in MiB; 0 if nothing is told."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{space.name}/pods"
    found: list[Json] = space.admin.call("GET", path).body["items"]
    used = [each["usage"]["memory"] for pod in found for each in pod["containers"]]
    return max((Quantity.read(text).units // 2**20 for text in used), default=0)


def target(space: Space) -> int:
    """Return the memory that is recommended, in MiB; 0 if nothing is."""
    status = space.admin.get(VPAS, space.name, "vpa").get("status") or {}
    found = (status.get("recommendation") or {}).get("containerRecommendations") or ()
    return max(
        (Quantity.read(each["target"]["memory"]).units // 2**20 for each in found), default=0
    )


def test_what_was_scraped_is_known(space: Space, address: str, ask: Ask, start: Start) -> None:
    """Memory that nobody uses any more is recommended for, because Prometheus has seen it."""
    space.vpa(updatePolicy={"updateMode": "Off"})
    space.deployment(Box(requests="100m/1Gi"), replicas=2)
    use(space, MUCH)
    here = f'container_memory_working_set_bytes{{namespace="{space.name}"}}'
    labels = f'kube_pod_labels{{namespace="{space.name}",label_app="{APP}"}}'
    long = f"min_over_time({here}[{SEEN_SECONDS}s]) and {here} offset {SEEN_SECONDS}s"
    eventually(
        lambda: ask(long) == MUCH * 2**20 and ask(labels), "much memory is scraped", seconds=180
    )
    use(space, LITTLE)
    eventually(lambda: 0 < told_by_metrics_server(space) <= LITTLE, "little is used now", every=1)
    past = f"max_over_time({here}[30m] offset {LIVE_SECONDS}s)"
    eventually(lambda: ask(past) == MUCH * 2**20, "that is a while ago", seconds=240, every=1)
    flags = (*FLAGS, f"--prometheus-address={address}", f"--vpa-object-namespace={space.name}")
    start("recommender", *flags)
    eventually(lambda: target(space) >= MUCH, "more than was used is recommended", every=1)
