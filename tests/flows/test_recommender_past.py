"""With Prometheus the past is there, whenever it comes; nobody waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app.ports import PODS, Ref
from app.recommender.core.model import Model
from app.recommender.prometheus import PrometheusServer as Client
from app.recommender.prometheus_connection import PrometheusConnection
from tests.flows.recommending import Replica, Stage, evict, vpa, workload
from tests.prometheus_server import Asked, PrometheusServer, Reply, matrix, prometheus
from tests.sandbox.worlds import snapshot_of

FLAGS = (
    "--storage=prometheus",
    "--prometheus-cadvisor-job-name=",
    "--container-pod-name-label=pod",
    "--container-name-label=container",
    "--pod-namespace-label=namespace",
    "--pod-name-label=pod",
    "--pod-label-prefix=label_",
)
LOAD = "cpu: constant 0.1, memory: constant 300Mi, noise: 0"
MI = 2**20


class Past:
    """A server that knows what a pod used, the same at all times."""

    def __init__(self, server: PrometheusServer) -> None:
        self.server = server
        server.otherwise = self._answer
        self.used: dict[str, tuple[float, int]] = {}  # cores and bytes, by pod
        self.labels: Mapping[str, str] = {"label_app": "web"}

    def remember(self, pod: str, cores: float, memory_mi: int) -> None:
        """Let a container have been there for all of the past."""
        self.used[pod] = (cores, memory_mi * MI)

    def _answer(self, asked: Asked) -> Reply:
        if asked.path.endswith("/query"):
            at = float(asked.told["time"])
            return matrix(
                *(
                    ({"namespace": "default", "pod": pod, **self.labels}, [(at, 1)])
                    for pod in self.used
                )
            )
        which = 0 if asked.told["query"].startswith("rate(") else 1
        start, end, step = (float(asked.told[word]) for word in ("start", "end", "step"))
        times = [start + step * number for number in range(int((end - start) / step + 0.5) + 1)]
        return matrix(
            *(
                (
                    {"namespace": "default", "pod": pod, "container": "app"},
                    [(time, used[which]) for time in times],
                )
                for pod, used in self.used.items()
            )
        )


@contextmanager
def staged(*flags: str) -> Iterator[tuple[Stage, Past, Replica]]:
    """Serve a past, and start a recommender on a cluster that has run for a while."""
    with prometheus() as server:
        stage = Stage(*FLAGS, *flags, replicas=0)
        stage.apply(*workload(load=LOAD, replicas=2))
        stage.run(65)
        client = Client(PrometheusConnection(server.url, 5.0), lambda *_: None)
        try:
            yield stage, Past(server), stage.begin(prometheus=client)
        finally:
            client.close()


def cores(stage: Stage, name: str = "web") -> float:
    """Return the CPU target."""
    return stage.amount("cpu", name=name).milli / 1000


def pods(stage: Stage) -> list[str]:
    """Return the names of all pods."""
    return sorted(snapshot_of(stage.sandbox).of("default").pods)


def test_the_past_is_learned() -> None:
    """What pods used before, also those that are gone, is recommended soon after the start."""
    with staged() as (stage, past, _):
        past.remember(pods(stage)[0], 1.0, 1000)
        past.remember("web-gone", 1.0, 1000)
        stage.run(1)
        assert cores(stage) < 0.2

        stage.run(60)
        assert cores(stage) > 1.1
        assert stage.amount("memory").units > 1100 * MI
        assert stage.amount("cpu", "lowerBound").milli > 900  # eight days are enough to be sure
        assert stage.checkpoints() == {}


def test_what_stands_waits_for_the_past() -> None:
    """Whoever starts while Prometheus is down takes nothing back, and still answers kills."""
    with staged() as (stage, past, replica):
        past.remember(pods(stage)[0], 1.0, 1000)
        stage.run(61)
        before = stage.amount("memory").units
        replica.kill()

        answer = past.server.otherwise
        past.server.otherwise = lambda _: Reply(b"", 503)
        client = Client(PrometheusConnection(past.server.url, 5.0), lambda *_: None)
        stage.begin(prometheus=client)
        stage.run(301)
        assert cores(stage) > 1.1
        assert stage.amount("memory").units == before

        pod = stage.sandbox.cluster.get(Ref(PODS, "default", pods(stage)[0]))
        evict(stage.sandbox, pod, "2Gi")
        stage.run(2)
        assert stage.amount("memory").units > 2400 * MI

        past.used[pods(stage)[0]] = (0.5, 1000 * MI)
        past.server.otherwise = answer
        stage.run(400)
        assert 0.5 < cores(stage) < 0.7
        client.close()


def test_the_past_does_not_count_twice() -> None:
    """However often it is read, and with what was seen live, a day is a day."""
    with staged() as (stage, past, replica):
        past.remember(pods(stage)[0], 0.1, 300)
        past.server.ready += [Reply(b"", 500)] * 3
        stage.run(1200)

        model = replica.begun[0].model
        assert isinstance(model, Model)
        assert model.tally.cpu == model.tally.memory == 193 + 2 * 21
        assert model.members.rows.counts.max() == 193 * 60 + 2 * 21


def test_a_vpa_that_comes_late() -> None:
    """It gets the past of its pods with the next round but one; others do not get it again."""
    with staged() as (stage, past, replica):
        stage.run(121)
        asked = len(past.server.asked)
        deployment, late = workload("late", load=LOAD)
        stage.apply(deployment)
        stage.run(60)
        past.remember(next(name for name in pods(stage) if name.startswith("late")), 1.0, 1000)
        past.labels = {"label_app": "late"}
        stage.apply(late)
        before = replica.begun[0].model.tally.cpu
        stage.run(121)

        assert cores(stage, "late") > 1.1
        assert 'namespace="default"' in past.server.asked[asked + 1].told["query"]
        assert replica.begun[0].model.tally.cpu - before < 193 + 20
        assert cores(stage) < 0.2


def test_a_target_that_is_found_late() -> None:
    """A VPA whose target is not known at first gets the past when it is."""
    with staged() as (stage, past, replica):
        past.remember("late-0", 1.0, 1000)
        past.labels = {"label_app": "late"}
        stage.apply(vpa("late"))
        stage.run(121)
        assert replica.begun[0].model.tally.cpu == 3 * 2

        stage.apply(workload("late", load=LOAD)[0])
        stage.run(121)
        assert cores(stage, "late") > 1.1


def test_as_upstream() -> None:
    """Upstream reads first, once, and waits an interval; a point is no more than a sample."""
    with staged("--parity=upstream") as (stage, past, replica):
        past.remember(pods(stage)[0], 1.0, 1000)
        stage.run(59)
        assert stage.status() == {}
        stage.run(3)
        assert cores(stage) > 1.1
        assert stage.amount("cpu", "upperBound").milli > 5 * stage.amount("cpu").milli
        assert len(past.server.asked) == 3
        assert replica.begun[0].model.tally.cpu == 193 + 2


def test_as_upstream_without_luck() -> None:
    """With upstream's defaults labels are a vector, and there is no past at all."""
    with staged("--parity=upstream") as (stage, past, _):
        past.remember(pods(stage)[0], 1.0, 1000)
        vector = Reply(b'{"status":"success","data":{"resultType":"vector","result":[]}}')
        past.server.ready += [matrix(), matrix(), vector]
        stage.run(62)
        assert 0.1 < cores(stage) < 0.2
        stage.run(600)
        assert [asked.path.rsplit("/", 1)[1] for asked in past.server.asked] == [
            "query_range",
            "query_range",
            "query",
        ]
