"""Flags decide where usage is read, of now and of the past."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.ports import EVENTS, LEASES, PODS, VPAS, WORKLOADS
from app.recommender.core.promql import PastRules, Span
from app.recommender.flags import RecommenderSettings
from app.recommender.metrics import RecommenderMetrics
from app.recommender.process import PastLoop, Process, usage_source
from app.recommender.rules import has_past, past_rules, round_rules
from app.recommender.usage import ExternalUsage, PodMetricsUsage
from app.runtime.live import LiveRuntime
from tests.cluster_in_memory import ClusterInMemory
from tests.flows.test_admission_process import free_port
from tests.kube.api_server import serving
from tests.kube.connecting import kubeconfig, write
from tests.prometheus_server import Reply, prometheus
from tests.stepped_clock import SteppedClock
from tests.waiting import eventually


def settings(*flags: str) -> RecommenderSettings:
    """Read flags."""
    return parse(RecommenderSettings, flags, {})


def test_the_past_without_flags() -> None:
    """Defaults are upstream's."""
    assert past_rules(settings()) == PastRules()


def test_the_past_with_flags() -> None:
    """Every flag arrives; amounts stand for as many samples as there would have been."""
    found = past_rules(
        settings(
            "--history-length=2d",
            "--history-resolution=30m",
            "--recommender-interval=30s",
            "--prometheus-cadvisor-job-name=kubelet",
            "--history-cpu-metric=cpu",
            "--history-memory-metric=memory",
            "--metric-for-pod-labels=kube_pod_labels",
            "--pod-label-prefix=label_",
            "--pod-namespace-label=a",
            "--pod-name-label=b",
            "--container-namespace-label=c",
            "--container-pod-name-label=d",
            "--container-name-label=e",
        ),
    )
    assert found == PastRules(
        cadvisor_job="kubelet",
        length=Span("2d", timedelta(days=2)),
        resolution=Span("30m", timedelta(minutes=30)),
        cpu_metric="cpu",
        memory_metric="memory",
        pod_labels_metric="kube_pod_labels",
        pod_label_prefix="label_",
        pod_namespace_label="a",
        pod_name_label="b",
        container_namespace_label="c",
        container_pod_name_label="d",
        container_name_label="e",
        sampling=timedelta(seconds=30),
    )


def test_too_many_points() -> None:
    """A past that is too fine for anybody is refused, with both flags."""
    told = settings("--history-length=1y", "--history-resolution=1s")
    with pytest.raises(BadSetting, match=r"--history-length=1y .* --history-resolution=1s"):
        past_rules(told)


def test_storage() -> None:
    """Who reads the past from Prometheus keeps no checkpoints; anything else means checkpoints."""
    for storage, keeps in (("", True), ("checkpoint", True), ("prometheus", False)):
        told = settings(f"--storage={storage}")
        assert (round_rules(told).keeps_checkpoints, has_past(told)) == (keeps, not keeps)


def test_who_asks_no_prometheus_loads_no_client_for_it() -> None:
    """A tenth of the start, and megabytes, are spared where checkpoints tell of the past."""
    loads = "import sys, app.recommender.process; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loads], check=False).returncode == 0


def test_reading_in_the_background() -> None:
    """The past is read by a task of its own, and requests are counted."""
    registry = CollectorRegistry()
    with prometheus() as server:
        told = settings(
            "--storage=prometheus",
            f"--prometheus-address={server.url}",
            "--prometheus-bearer-token=abc",
            "--vpa-object-namespace=shop",
            "--history-length=12h",
        )
        reading = PastLoop(told, place := LiveRuntime(), RecommenderMetrics(registry))
        reading.memory.begin(place.clock.now())
        reading.start()
        assert eventually(reading.memory.is_settled)
        reading.stop()

    assert len(server.asked) == 3
    assert server.asked[0].headers["Authorization"] == "Bearer abc"
    assert 'namespace="shop"' in server.asked[1].told["query"]
    count = "vpa_recommender_prometheus_client_api_requests_count_total"
    assert registry.get_sample_value(count, {"code": "200", "method": "post"}) == 3


def test_nobody_waits_for_the_past(tmp_path: Path) -> None:
    """While Prometheus is silent the process is ready and well, and it ends when told to."""
    with prometheus() as silent, serving(VPAS, PODS, EVENTS, LEASES, *WORKLOADS) as server:
        silent.otherwise = lambda _: Reply(waits=True)
        path, port = write(tmp_path / "config", kubeconfig(server.url)), free_port()
        told = settings(
            f"--kubeconfig={path}",
            f"--address=127.0.0.1:{port}",
            "--storage=prometheus",
            f"--prometheus-address={silent.url}",
        )
        process = Process(told, LiveRuntime(), PodPreviewer)
        process.start()
        try:
            url = f"http://127.0.0.1:{port}"
            assert eventually(lambda: bool(silent.asked))
            assert eventually(lambda: httpx.get(f"{url}/readyz").status_code == 200)
            rounds = 'vpa_recommender_execution_latency_seconds_count{step="total"} 1.0'
            assert eventually(lambda: rounds in httpx.get(f"{url}/metrics").text)
            assert httpx.get(f"{url}/health-check").text == "OK"
        finally:
            process.stop()
    assert len(silent.asked) == 1


def test_external_metrics(caplog: pytest.LogCaptureFixture) -> None:
    """They are read on demand; without any name there is a word of warning."""
    clock = SteppedClock()
    cluster = ClusterInMemory(clock.now)
    assert isinstance(usage_source(settings(), clock, cluster), PodMetricsUsage)
    found = usage_source(settings("--use-external-metrics"), clock, cluster)
    assert isinstance(found, ExternalUsage)
    assert "no external metric is named" in caplog.text
