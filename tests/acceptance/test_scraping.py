"""A real Prometheus scrapes real nodes, and a recommender that starts knows what it saw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.model.fields import Json
from app.model.quantity import Quantity
from app.ports import PODS
from tests.acceptance.logs import Logs
from tests.acceptance.scraped import Prometheus, prometheus
from tests.acceptance.space import APP, Box, Space
from tests.acceptance.stage import LOAD
from tests.acceptance.worker import Start
from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import eventually

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


def scraped(folder: Path, plane: ControlPlane) -> Json:
    """Return what is scraped; a rule stands for the metric that tells of the labels of pods."""
    rule = {
        "record": "kube_pod_labels",
        "expr": "group by (namespace, pod) (container_memory_working_set_bytes)",
        "labels": {"label_app": APP},
    }
    rules = folder / "rules.json"
    rules.write_text(json.dumps({"groups": [{"name": "all", "rules": [rule]}]}))
    targets = [f"127.0.0.1:{port}" for port in plane.nodes.metrics_ports.values()]
    job = {"job_name": JOB, "static_configs": [{"targets": targets}]}
    return {"rule_files": [str(rules)], "scrape_configs": [job]}


@pytest.fixture
def server(plane: ControlPlane, tmp_path: Path, logs: Logs) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the nodes."""
    with prometheus(tmp_path, logs, scraped(tmp_path, plane)) as found:
        yield found


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
    amounts = [Quantity.read(found["target"]["memory"]) for found in space.recommended().values()]
    return max((amount.units // 2**20 for amount in amounts), default=0)


def test_what_was_scraped_is_known(space: Space, server: Prometheus, start: Start) -> None:
    """Memory that nobody uses any more is recommended for, because Prometheus has seen it."""
    space.vpa(updatePolicy={"updateMode": "Off"})
    space.deployment(Box(requests="100m/1Gi"), replicas=2)

    def ask(query: str) -> float:
        return max((float(each["value"][1]) for each in server.result(query)), default=0.0)

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
    flags = (*FLAGS, f"--prometheus-address={server.url}", f"--vpa-object-namespace={space.name}")
    start("recommender", *flags)
    eventually(lambda: target(space) >= MUCH, "more than was used is recommended", every=1)
