"""The past is read out of a real Prometheus.

Strategy: two days of usage are written as a database by `promtool`, and a server on loopback
tells of them over HTTPS. Without these programs there is nothing to test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from app.model.errors import Invalid
from app.model.quantity import CPU, MEMORY
from app.model.times import PrometheusDuration
from app.page.core.usage_series import ChartRange, UsageQuestion, pod_names
from app.page.usage_over_time import Patience, PrometheusHistory
from app.recommender.core.promql import PastRules
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import ABSENT, PastUsage
from app.recommender.past_reader import PastReader
from app.recommender.prometheus import PrometheusServer
from app.recommender.upstream.variant import ReadingOnce
from app.runtime.clock import SystemClock
from tests.real_prometheus import serving, written_database
from tests.recommender.core.scene import Scene

MI = 2**20
HOURS = 48
SCRAPE = 300  # seconds
NOW = SystemClock().now().replace(microsecond=0)
RULES = PastRules(
    cadvisor_job="kubelet",
    length=PrometheusDuration("2d", timedelta(hours=HOURS)),
    container_pod_name_label="pod",
    container_name_label="container",
    pod_labels_metric="kube_pod_labels",
    pod_label_prefix="label_",
    pod_namespace_label="namespace",
    pod_name_label="pod",
)
# Pod, container, cores, memory in MiB, and until how many hours ago it lived.
USED = (
    ("web-0", "app", 0.25, 400, 0),
    ("web-0", "log", 0.01, 30, 0),
    ("web-1", "app", 1.5, 900, 0),
    ("web-old", "app", 0.5, 700, 20),
)


def times(until_hours: float) -> Sequence[int]:
    """Return when a pod was scraped that lived until then."""
    end = int(NOW.timestamp()) - int(until_hours * 3600)
    return range(int(NOW.timestamp()) - (HOURS + 2) * 3600, end + 1, SCRAPE)


def series(metric: str, pod: str, container: str) -> str:
    """Return what a kubelet calls a series of a container."""
    return f'{metric}{{job="kubelet",namespace="default",pod="{pod}",container="{container}"}}'


def open_metrics() -> Iterator[str]:
    """Yield what a Prometheus would have scraped, and some that has nothing to do with it."""
    yield "# TYPE container_cpu_usage_seconds counter"
    for pod, container, cores, _, until in USED:
        name = series("container_cpu_usage_seconds_total", pod, container)
        for time in times(until):
            used = cores * (time - times(0)[0])
            yield f"{name} {used} {time}"
    yield f"{series('container_cpu_usage_seconds_total', 'web-0', 'POD')} 99 {times(0)[-1]}"
    yield "# TYPE container_memory_working_set_bytes gauge"
    for pod, container, _, memory, until in USED:
        name = series("container_memory_working_set_bytes", pod, container)
        for time in times(until):
            yield f"{name} {memory * MI} {time}"
    # Without a namespace nobody knows whose it was.
    stray = 'job="kubelet",pod="stray",container="app"'
    yield f"container_memory_working_set_bytes{{{stray}}} 1 {times(0)[-1]}"
    yield "# TYPE kube_pod_labels gauge"
    for pod, until in {one[0]: one[4] for one in USED}.items():
        for time in times(until):
            yield f'kube_pod_labels{{namespace="default",pod="{pod}",label_app="web"}} 1 {time}'
    yield "# EOF"


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[PrometheusServer]:
    """Start a server over a database, and talk with it."""
    with (
        serving(folder, NOW, *flags) as access,
        closing(PrometheusServer(access, lambda *_: None)) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of two days, and certificates."""
    folder = tmp_path_factory.mktemp("prometheus")
    written_database(folder, open_metrics(), NOW)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PrometheusServer]:
    """A server that answers whatever it is asked."""
    with started(folder) as client:
        yield client


def remembered(client: PrometheusServer, rules: PastRules = RULES) -> PastUsage:
    """Read the past once."""
    memory = PastReader(client, rules, SystemClock())
    memory.begin(NOW + timedelta(minutes=2))
    memory.tick(NOW)
    (told,) = memory.taken()
    return told.usage


def test_amounts(server: PrometheusServer) -> None:
    """What was used is read, hour by hour, for as long as a pod lived."""
    past = remembered(server)
    assert sorted(past.containers) == sorted(("default", one[0], one[1]) for one in USED)
    assert past.labels == {("default", f"web-{name}"): {"app": "web"} for name in ("0", "1", "old")}
    assert past.refused_series == 1
    for pod, container, cores, memory, until in USED:
        line = list(past.containers).index(("default", pod, container))
        lived = past.cpu_millicores[line][: HOURS + 1 - until]
        assert np.abs(lived - cores * 1000).max() <= 1
        told = past.memory_bytes[line]
        assert set(told[: HOURS + 1 - until].tolist()) == {memory * MI}
        assert set(told[HOURS + 2 - until :].tolist()) <= {ABSENT}


@pytest.mark.parametrize("most_samples", [60, 700])
def test_a_server_that_bears_little(folder: Path, most_samples: int) -> None:
    """What is too much for a server is asked in parts, and says the same."""
    with started(folder) as client:
        whole = remembered(client)
    with started(folder, f"--query.max-samples={most_samples}") as client:
        parts = remembered(client)

    assert parts.containers == whole.containers
    assert (parts.cpu_millicores == whole.cpu_millicores).all()
    assert (parts.memory_bytes == whole.memory_bytes).all()


def test_a_finer_past_than_one_answer_holds(server: PrometheusServer) -> None:
    """More points than a server gives at once are put together."""
    fine = replace(RULES, resolution=PrometheusDuration("15s", timedelta(seconds=15)))
    past = remembered(server, replace(fine, cpu_metric="no_such_metric"))

    line = list(past.containers).index(("default", "web-0", "app"))
    assert len(past.times) == HOURS * 240 + 1
    assert (past.memory_bytes[line] == 400 * MI).all()


def test_recommendation(server: PrometheusServer) -> None:
    """What is recommended is what samples of a minute would have led to."""
    one, other = Scene(RecommenderRules()), Scene(RecommenderRules())
    for scene in (one, other):
        scene.now = NOW
        scene.vpa()
        for pod in ("web-0", "web-1"):
            scene.pod(pod, "app", "log")
    one.model.learn_past(remembered(server), NOW)
    for minute in range(HOURS * 60, -1, -1):
        at = NOW - timedelta(minutes=minute)
        for pod, container, cores, memory, _ in USED[:3]:
            other.use(int(cores * 1000), memory * MI, pod=pod, container=container, at=at)
    for scene in (one, other):
        scene.tick()

    assert one.shown()["app"]["target"] == other.shown()["app"]["target"]
    assert one.shown()["log"]["target"] == other.shown()["log"]["target"]


def test_as_upstream(server: PrometheusServer) -> None:
    """Strictly read, the series that lacks a label spoils everything, as would a bare selector."""
    for metric in ("kube_pod_labels[2d]", "kube_pod_labels"):
        rules = replace(RULES, pod_labels_metric=metric)
        memory = PastReader(server, rules, SystemClock(), reading=ReadingOnce)
        memory.begin(NOW)
        memory.tick(NOW)
        assert memory.taken() == []
        assert memory.is_settled()


def test_usage_on_a_page(folder: Path) -> None:
    """The server ranks the pods of a workload, also those that are gone."""
    pods = pod_names("Deployment", "web", ["web-0", "web-1", "web-old"])
    with serving(folder, NOW) as access:
        history = PrometheusHistory(
            lambda: PrometheusServer(access, lambda *_: None), RULES, SystemClock(), Patience(20.0)
        )
        answer = history.read(UsageQuestion("default", pods, ChartRange.FORTNIGHT, NOW))
        history.stop()

    assert answer.problem == ""
    assert set(answer.series) == {(one, kind) for one in ("app", "log") for kind in (CPU, MEMORY)}
    cpu, memory = answer.series["app", CPU], answer.series["app", MEMORY]
    assert np.abs([cpu.median[-2] - 875, cpu.highest[-2] - 1500]).max() <= 1
    assert np.abs([cpu.median[-30] - 500, cpu.high[-30] - 1400]).max() <= 1
    assert (memory.highest[-2], memory.median[-30]) == (900 * MI, 700 * MI)
    assert np.isnan(cpu.median[: 336 - HOURS - 4]).all()


def test_a_query_that_is_none(server: PrometheusServer) -> None:
    """The server's own words say what is wrong."""
    with pytest.raises(Invalid, match="parse error"):
        server.query("up{", NOW)
