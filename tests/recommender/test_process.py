"""The process: its flags, its sources of usage, its port, and its end."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import cast

import httpx
import pytest
from prometheus_client import CollectorRegistry

from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.flags.shared import ClusterAccess
from app.kube.client import connect
from app.kube.manifests import documents
from app.model.errors import BadSetting, Unavailable
from app.model.times import PrometheusDuration
from app.ports import EVENTS, LEASES, PODS, VPAS, WORKLOADS, Cluster, Json, Ref
from app.recommender.configuration import has_past, past_rules, round_rules
from app.recommender.core.promql import PastRules
from app.recommender.flags import RecommenderSettings
from app.recommender.metrics import RecommenderMetrics
from app.recommender.process import (
    PastLoop,
    Process,
    lease_holder,
    usage_source,
)
from app.recommender.upstream.variant import UPSTREAM, as_upstream
from app.recommender.usage_feed import ExternalUsage, PodMetricsUsage
from app.recommender.variants import OURS
from app.run.simulated import SharedCluster, SimulatedRuntime
from app.runtime.access import guard_of
from app.runtime.live import Connection, LiveRuntime
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.cluster.programs import free_port
from tests.cluster_in_memory import ClusterInMemory
from tests.faults import Fault, Faults
from tests.flows.recommending import RecommendedCluster, workload
from tests.kube.api_server import serving
from tests.kube.connecting import kubeconfig, write
from tests.paced_runtime import PacedRuntime
from tests.prometheus_server import Reply, prometheus
from tests.reached_limits import ReachedLimits
from tests.recommender.scenes import LOAD
from tests.runtime.asking import Desk
from tests.updater.stage import Call, Watched
from tests.waiting import eventually

WRITES = ("patch", "delete")  # Leases are created and replaced
HERE = "/v1/namespaces/default/recommendations"


def settings(*flags: str) -> RecommenderSettings:
    """Read flags."""
    return parse(RecommenderSettings, flags, {})


def test_rounds_are_as_the_flags_say() -> None:
    """Names, times and namespaces arrive where they count."""
    rules = round_rules(
        settings("--recommender-interval=30s", "--vpa-object-namespace=a", "--parity=upstream")
    )

    assert (rules.interval_seconds, rules.namespace) == (30.0, "a")
    assert rules.variant is UPSTREAM
    assert rules.model_rules == as_upstream(rules.model_rules)


def test_it_becomes_ready(tmp_path: Path) -> None:
    """Until everything is read it says what is not, then how old that is; it ends when told to."""
    with serving(VPAS, PODS, EVENTS, LEASES, *WORKLOADS) as server:
        server.fail("/pods", 403, times=3)
        path, port = write(tmp_path / "config", kubeconfig(server.url)), free_port()
        process = Process(
            settings(f"--kubeconfig={path}", f"--address=127.0.0.1:{port}"),
            LiveRuntime(),
            PodPreviewer,
        )
        process.start()
        try:
            url = f"http://127.0.0.1:{port}"
            assert eventually(lambda: "pods are not read yet: " in httpx.get(f"{url}/readyz").text)
            assert eventually(lambda: httpx.get(f"{url}/readyz").status_code == 200)
            assert httpx.get(f"{url}/health-check").text == "OK"
            told = httpx.get(f"{url}/metrics").text
            for name in ("vpa_recommender_vpa_objects_count", "plumbline_build_info{"):
                assert name in told
            assert 'plumbline_watch_last_event_age_seconds{resource="pods"}' in told
            assert 'plumbline_limits_reached_total{limit="vpa_containers"} 0.0' in told
        finally:
            process.stop()


def test_an_elected_process_hands_over(tmp_path: Path) -> None:
    """The Lease is taken, and let go of at the end, so that the next one need not wait."""
    with serving(VPAS, PODS, EVENTS, LEASES, *WORKLOADS) as server:
        path = write(tmp_path / "config", kubeconfig(server.url))
        flags = ("--leader-elect=true", f"--kubeconfig={path}", "--address=127.0.0.1:0")
        process = Process(settings(*flags), LiveRuntime(), PodPreviewer)
        cluster = connect(str(path), "", 50, 100)

        def holder() -> str:
            found = cluster.get(Ref(LEASES, "kube-system", "vpa-recommender-lease"))
            return str(found["spec"]["holderIdentity"])

        process.start()
        try:
            assert eventually(lambda: bool(cluster.list(LEASES).items and holder()))
        finally:
            process.stop()

        assert holder() == ""
        cluster.close()


class Timed(SharedCluster):
    """A connection that notes for how long calls about the Lease may go on."""

    def __init__(self, cluster: Cluster, noted: list[float], seconds: float = 0.0) -> None:
        super().__init__(cluster)
        self._whole, self._noted, self._seconds = cluster, noted, seconds
        self.get = self._get

    def within(self, seconds: float, /) -> Timed:
        """Return the same with less time."""
        return Timed(self._whole, self._noted, seconds)

    def _get(self, ref: Ref) -> Json:
        if ref.resource == LEASES:
            self._noted.append(self._seconds)
        return self._whole.get(ref)


class Hurried(SimulatedRuntime):
    """A place with one connection for all."""

    def __init__(self, sandbox: Sandbox, connection: Connection) -> None:
        super().__init__(sandbox)
        self._connection = connection

    def connect(self, _reach: ClusterAccess, /) -> Connection:
        """Return it."""
        return self._connection


def test_calls_for_the_lease_end_with_leadership() -> None:
    """A call that hangs is given up no later than a leader that cannot renew."""
    sandbox, noted = Sandbox(SteppedClock()), list[float]()
    assert sandbox.apply(*documents.objects("crd")) == []
    place = Hurried(sandbox, Timed(sandbox.cluster, noted))
    flags = ("--leader-elect=true", "--leader-elect-renew-deadline=4s", "--address=127.0.0.1:0")
    process = Process(settings(*flags), place, PodPreviewer)
    process.start()
    sandbox.advance(3)
    process.stop()

    assert set(noted) == {4.0}


@pytest.mark.parametrize("rate", [1.0, 0.2, 0.06, 0.05])
def test_a_deposed_leader_writes_nothing(rate: float) -> None:
    """A leader that cannot renew writes nothing beside the next one, however long writes wait."""
    cluster = RecommendedCluster()
    cluster.apply(*(item for number in range(9) for item in workload(f"web-{number}", load=LOAD)))
    sandbox, faults, written = cluster.sandbox, Faults(), list[tuple[str, str]]()
    lease = Ref(LEASES, "kube-system", "vpa-recommender-lease")

    def begin(name: str, before: Cluster) -> Process:
        def note(call: Call) -> None:
            if call.verb in WRITES:
                holder = sandbox.cluster.get(lease)["spec"]["holderIdentity"]
                written.append((name, holder))

        watched = Watched(before)
        watched.before = note
        place = PacedRuntime(sandbox, cast("Cluster", watched), *WRITES)
        flags = ["--leader-elect=true", "--update-worker-count=1", "--address=127.0.0.1:0"]
        flags += [f"--kube-api-qps={rate}", "--kube-api-burst=1"]
        process = Process(settings(*flags), place, PodPreviewer)
        process.start()
        return process

    broken = Unavailable("internal error", status=500)
    faults.order(Fault(broken, "replace", LEASES, times=10**6))
    one = begin("one", faults.before(sandbox.cluster))
    two = begin("two", sandbox.cluster)
    sandbox.advance(300)
    one.stop()
    two.stop()

    assert {name for name, _ in written} == {"one", "two"}
    holders = {name: {holder for who, holder in written if who == name} for name in ("one", "two")}
    assert not holders["one"] & holders["two"]
    assert len(holders["one"]) == 1


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
        length=PrometheusDuration("2d", timedelta(days=2)),
        resolution=PrometheusDuration("30m", timedelta(minutes=30)),
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
        reading = PastLoop(
            told, OURS.past_reading, place := LiveRuntime(), RecommenderMetrics(registry)
        )
        reading.reader.begin(place.clock.now())
        reading.start()
        assert eventually(reading.reader.is_settled)
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
    assert isinstance(usage_source(settings(), OURS, clock, cluster), PodMetricsUsage)
    found = usage_source(settings("--use-external-metrics"), OURS, clock, cluster)
    assert isinstance(found, ExternalUsage)
    assert "no external metric is named" in caplog.text


@pytest.fixture(scope="module")
def desk() -> Desk:
    """A recommender after a round; Jane may see a namespace."""
    found = Desk()
    found.rounds(1)
    found.authorities.know("jane-token", "jane")
    found.authorities.grant("jane", "get", "default")
    return found


@pytest.mark.parametrize(
    ("host", "token", "status"),
    [
        ("127.0.0.1", "", 200),
        ("", "", 401),
        ("", "wrong", 401),
        ("", "jane-token", 200),
    ],
)
def test_tokens_are_asked_for(desk: Desk, host: str, token: str, status: int) -> None:
    """Where others can reach the port, only who may see VPAs is answered."""
    cluster = cast("Cluster", desk.authorities)
    desk.app = desk.application(
        guard_of(host, settings().access, cluster, desk.sandbox.clock, ReachedLimits())
    )
    assert desk.ask(HERE, authorization=f"Bearer {token}").status_code == status
    assert desk.ask("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("holder", "error", "leader"),
    [("vpa-1", None, "vpa-1"), ("", None, ""), ("vpa-1", Unavailable("down"), "")],
)
def test_the_leader_is_read_from_the_lease(
    desk: Desk, holder: str, error: Unavailable | None, leader: str
) -> None:
    """The holder of the Lease leads, as far as that can be known."""
    name = {"name": "vpa-recommender-lease", "namespace": "kube-system"}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    desk.apply({**kind, "metadata": name, "spec": {"holderIdentity": holder}})
    if error is not None:
        desk.faults.order(Fault(error, "get", LEASES, times=1))
    assert lease_holder(parse(RecommenderSettings, (), {}), desk.cluster) == leader
