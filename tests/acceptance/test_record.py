"""A recording is read out of a real Prometheus.

Strategy: what cAdvisor and kube-state-metrics tell is written as a database by `promtool`, scraped
each half minute: six hours that are made up, and an hour of a cluster in memory. A recording of
them says what was put in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from app.backtest.recording import Recording
from app.backtest.recording_file import load_recording
from app.commands.record import record_report
from app.commands.record_flags import RecordSettings
from app.flags.command_line import parse
from app.model.quantity import Quantity
from app.ports import POD_METRICS, PODS, REPLICA_SETS, Cluster
from app.recommender.prometheus_connection import PrometheusConnection
from app.run.run_history import RunHistory
from app.run.simulated import SimulatedRuntime
from app.runtime.clock import SystemClock
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.real_prometheus import serving, written_database
from tests.sandbox.worlds import container, deployment

MI = 2**20
SCRAPE = 30  # seconds
STEP = 300
HOURS = 6
STEPS = HOURS * 3600 // STEP
END = int(SystemClock().now().timestamp()) // STEP * STEP - 600
BEGIN = END - HOURS * 3600
TIMES = range(BEGIN - 600, END + 1, SCRAPE)
KILLED = BEGIN + 20 * STEP + 100
OUTAGE = range(BEGIN + 40 * STEP, BEGIN + 45 * STEP)
OWNED = {"web-5d4f-a": ("ReplicaSet", "web-5d4f"), "db-0": ("StatefulSet", "db")}
Written = dict[str, list[str]]  # lines by metric


def note(written: Written, metric: str, time: int, value: float, **labels: str) -> None:
    """Write a sample."""
    told = ",".join(f'{key}="{text}"' for key, text in labels.items())
    written.setdefault(metric, []).append(f"{metric}{{{told}}} {value} {time}")


def cores(pod: str, time: int) -> float:
    """Return what a pod uses."""
    return 0.25 if pod == "db-0" else 0.5 if time < KILLED else 1.0


def write_usage(written: Written, job: str) -> None:
    """Write what cAdvisor tells; the counters of a container that is started again are others."""
    for pod in OWNED:
        used = 0.0
        for time in TIMES:
            generation = "1" if pod == "db-0" or time < KILLED else "2"
            used = 0.0 if time - SCRAPE < KILLED <= time and generation == "2" else used
            used += cores(pod, time) * SCRAPE
            if time in OUTAGE:
                continue
            whose = {"job": job, "namespace": "shop", "pod": pod, "container": "app"}
            whose["id"] = f"/kubepods/{pod}/{generation}"
            memory = 300 * MI if time % STEP else 400 * MI
            note(written, "container_memory_working_set_bytes", time, memory, **whose)
            note(written, "container_cpu_usage_seconds_total", time, used, **whose)
            if pod == "db-0":
                note(written, "container_cpu_cfs_periods_total", time, (time - BEGIN) * 10, **whose)
                held = (time - BEGIN) * 10 * 0.2
                note(written, "container_cpu_cfs_throttled_periods_total", time, held, **whose)
        whole = {"job": job, "namespace": "shop", "pod": pod, "container": ""}
        note(written, "container_cpu_usage_seconds_total", TIMES[-1], 1e6, **whole, id="/kubepods")


def write_state(written: Written) -> None:
    """Write what kube-state-metrics tells."""
    for time in TIMES:
        for pod, (kind, name) in OWNED.items():
            whose = {"job": "ksm", "namespace": "shop", "pod": pod}
            owner = {"owner_kind": kind, "owner_name": name, "owner_is_controller": "true"}
            note(written, "kube_pod_owner", time, 1, **whose, **owner)
            app = whose | {"container": "app"}
            request = 1.0 if time <= BEGIN + 30 * STEP else 1.5  # resized in place
            state = "kube_pod_container_"
            note(written, f"{state}resource_requests", time, request, **app, resource="cpu")
            note(written, f"{state}resource_limits", time, 512 * MI, **app, resource="memory")
            restarts = 4 + (pod != "db-0" and time > KILLED)
            note(written, f"{state}status_restarts_total", time, restarts, **app)
            if restarts > 4:
                metric = f"{state}status_last_terminated_reason"
                note(written, metric, time, 1, **app, reason="OOMKilled")
        above = {"owner_kind": "Deployment", "owner_name": "web"}
        whose = {"job": "ksm", "namespace": "shop", "replicaset": "web-5d4f"}
        note(written, "kube_replicaset_owner", time, 1, **whose, **above)


def open_metrics() -> Iterator[str]:
    """Yield everything, metric by metric; two jobs have scraped the same kubelet."""
    written: Written = {}
    for job in ("kubelet", "kubelet-again"):
        write_usage(written, job)
    write_state(written)
    yield from told(written)


def told(written: Written) -> Iterator[str]:
    """Yield what was written as OpenMetrics."""
    for metric, lines in written.items():
        counter = metric.endswith("_total")
        yield f"# TYPE {metric.removesuffix('_total')} {'counter' if counter else 'gauge'}"
        yield from lines
    yield "# EOF"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database, and certificates."""
    folder = tmp_path_factory.mktemp("prometheus")
    written_database(folder, open_metrics(), SystemClock().now())
    return folder


def recorded(access: PrometheusConnection, file: Path) -> tuple[Recording, list[str]]:
    """Record as the command line does."""
    until = datetime.fromtimestamp(END, SystemClock().now().tzinfo).isoformat()
    words = [
        f"--prometheus-address={access.address}",
        f"--prometheus-ca-file={access.ca_file}",
        f"--until={until.replace('+00:00', 'Z')}",
        f"--days={HOURS / 24}",
        f"--output={file}",
    ]
    report = record_report(parse(RecordSettings, words, {}), SystemClock())
    return load_recording(file), list(report.notes)


def test_what_was_scraped_is_recorded(folder: Path, tmp_path: Path) -> None:
    """Usage, requests, kills and throttling are what they were, step by step."""
    with serving(folder, SystemClock().now()) as access:
        found, notes = recorded(access, tmp_path / "shop.npz")

    db, web = found.rows
    assert (db.owner_kind, db.owner_name) == ("StatefulSet", "db")
    assert (web.owner_kind, web.owner_name) == ("Deployment", "web")
    whole = np.setdiff1d(np.arange(STEPS), [20, *range(39, 46)])
    np.testing.assert_allclose(found.cpu[0, whole], 0.25, rtol=1e-3)
    wanted = np.where(np.arange(STEPS) < 20, 0.5, 1.0)
    np.testing.assert_allclose(found.cpu[1, whole], wanted[whole], rtol=1e-3)
    assert set(found.memory[0, whole].tolist()) == {400 * MI}
    lost = np.flatnonzero(np.isnan(found.cpu[0])).tolist()
    assert lost in ([40, 41, 42, 43, 44], [40, 41, 42, 43])
    assert any(note.startswith("CPU is not known for") for note in notes)
    assert found.cpu_request[0, [0, 29, 31]].tolist() == [1.0, 1.0, 1.5]
    assert set(found.cpu_limit[0, whole].tolist()) == {0.0}
    assert set(found.memory_limit[1, whole].tolist()) == {512 * MI}
    assert np.flatnonzero(found.restarts[1]).tolist() == [20]
    assert np.flatnonzero(found.oom_kills[1]).tolist() == [20]
    np.testing.assert_allclose(found.throttled[0, whole], 0.2, rtol=1e-3)


def test_a_server_that_bears_little(folder: Path, tmp_path: Path) -> None:
    """What is too much for a server is asked in parts, and says the same."""
    arrays: list[Mapping[str, object]] = []
    for index, flags in enumerate(((), ("--query.max-samples=400",))):
        with serving(folder, SystemClock().now(), *flags) as access:
            found, _ = recorded(access, tmp_path / f"{index}.npz")
        arrays.append({measure: values.tolist() for measure, values in found.arrays()})
    np.testing.assert_equal(arrays[1], arrays[0])


def scrape(written: Written, cluster: Cluster, time: int, used: dict[str, float]) -> None:
    """Write what a Prometheus would scrape of a cluster now."""
    pods = {item["metadata"]["name"]: item for item in cluster.list(PODS).items}
    for item in cluster.list(POD_METRICS).items:
        name = item["metadata"]["name"]
        usage = item["containers"][0]["usage"]
        status = pods[name]["status"]["containerStatuses"][0]
        instance = f"{name}/{status['restartCount']}"
        cores = Quantity.parse(usage["cpu"]).nano / 1e9
        used[instance] = used.get(instance, 0.0) + cores * SCRAPE
        whose = {"job": "kubelet", "namespace": "default", "pod": name, "container": "app"}
        memory = Quantity.parse(usage["memory"]).units
        note(written, "container_memory_working_set_bytes", time, memory, **whose, id=instance)
        cpu = "container_cpu_usage_seconds_total"
        note(written, cpu, time, used[instance], **whose, id=instance)
    for name, item in pods.items():
        whose = {"job": "ksm", "namespace": "default", "pod": name}
        above = item["metadata"]["ownerReferences"][0]
        owner = {"owner_kind": above["kind"], "owner_name": above["name"]}
        note(written, "kube_pod_owner", time, 1, **whose, **owner)
        app = whose | {"container": "app"}
        for kind, amounts in item["spec"]["containers"][0]["resources"].items():
            for resource, text in amounts.items():
                amount = Quantity.parse(text).nano / 1e9
                metric = f"kube_pod_container_resource_{kind}"
                note(written, metric, time, amount, **app, resource=resource)
        for status in item["status"].get("containerStatuses", ()):
            state = "kube_pod_container_status_"
            note(written, f"{state}restarts_total", time, status["restartCount"], **app)
            if ended := status.get("lastState", {}).get("terminated"):
                metric = f"{state}last_terminated_reason"
                note(written, metric, time, 1, **app, reason=ended["reason"])
    for item in cluster.list(REPLICA_SETS).items:
        above = item["metadata"]["ownerReferences"][0]
        owner = {"owner_kind": above["kind"], "owner_name": above["name"]}
        whose = {"job": "ksm", "namespace": "default", "replicaset": item["metadata"]["name"]}
        note(written, "kube_replicaset_owner", time, 1, **whose, **owner)


def test_an_hour_of_the_sandbox(tmp_path: Path) -> None:
    """What a Prometheus has scraped is what was seen without it."""
    until = datetime.fromtimestamp(END, SystemClock().now().tzinfo)
    sandbox = Sandbox(SteppedClock(until - timedelta(hours=1)))
    written: Written = {}
    used: dict[str, float] = {}
    sandbox.apply(
        deployment(
            "steady",
            container(requests={"cpu": "500m", "memory": "1Gi"}, limits={}),
            replicas=2,
            load="cpu: constant 300m, memory: constant 200Mi, noise: 0.1",
        )
    )
    sandbox.apply(
        deployment(
            "leak",
            container(requests={"memory": "100Mi"}, limits={"memory": "200Mi"}),
            load="cpu: constant 100m, memory: leaking 60Mi 600Mi, noise: 0",
        )
    )
    history = RunHistory(SimulatedRuntime(sandbox), sandbox.cluster, tmp_path / "seen.npz")
    with history.watching():
        for _ in range(3600 // SCRAPE):
            sandbox.advance(SCRAPE)
            scrape(written, sandbox.cluster, int(sandbox.clock.now().timestamp()), used)
    written_database(tmp_path, told(written), SystemClock().now())
    with serving(tmp_path, SystemClock().now()) as access:
        found, _ = recorded(access, tmp_path / "found.npz")

    seen = load_recording(tmp_path / "seen.npz")
    assert found.rows == tuple(sorted(seen.rows))
    inner, first = slice(1, 11), (seen.start - found.start) // STEP
    there = slice(first + 1, first + 11)
    order = [seen.rows.index(row) for row in found.rows]
    np.testing.assert_allclose(found.cpu[:, there], seen.cpu[order, inner], rtol=0.15)
    np.testing.assert_allclose(found.memory[:, there], seen.memory[order, inner], rtol=0.25)
    for measure in ("cpu_request", "memory_request", "cpu_limit", "memory_limit"):
        wanted = seen.measured(measure)[order, inner]
        np.testing.assert_array_equal(found.measured(measure)[:, there], wanted)
    for measure in ("restarts", "oom_kills"):
        wanted = seen.measured(measure)[order, inner]
        np.testing.assert_array_equal(found.measured(measure)[:, there], wanted)
    assert np.nansum(found.oom_kills) > 0
