"""Whatever a source of usage tells or does not tell, what can be counted counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import pytest

from app.model.errors import ClusterError, NotFound, Unavailable
from app.ports import POD_METRICS, Cluster, Json, ListPage, Resource
from tests.cases import cases
from tests.flows.recommending import Stage, workload

LOAD = "cpu: constant 0.1, memory: constant 300Mi, noise: 0"
ROOT = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/"


class Doctored:
    """A cluster that tells of usage something else than what is so."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.doctor: Callable[[Json], list[Json]] = lambda item: [item]
        self.error: ClusterError | None = None  # after the first page
        self.external: dict[str, Json | ClusterError] = {}  # by metric

    def __getattr__(self, name: str) -> object:
        return getattr(self._cluster, name)

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        limit: int = 0,
        continue_token: str = "",
        **more: str,
    ) -> ListPage:
        """Return a page."""
        if resource == POD_METRICS and continue_token and self.error is not None:
            raise self.error
        page = self._cluster.list(
            resource, namespace, limit=limit, continue_token=continue_token, **more
        )
        if resource != POD_METRICS:
            return page
        items = [one for item in page.items for one in self.doctor(item)]
        token = "more" if self.error is not None else page.continue_token
        return ListPage(items, page.resource_version, token)

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Answer for an external metric."""
        found = self.external.get(path.removeprefix(ROOT), NotFound(f"{method} {path}"))
        if isinstance(found, ClusterError):
            raise found
        assert "pod=" in (query or {})["labelSelector"]
        return found


def staged(*flags: str) -> tuple[Stage, Doctored]:
    """Start a recommender on a doctored cluster with two Deployments and their VPAs."""
    stage = Stage(*flags, replicas=0)
    doctored = Doctored(stage.sandbox.cluster)
    for name in ("web", "shop"):
        stage.apply(*workload(name, load=LOAD))
    stage.run(65)
    stage.begin(cluster=cast("Cluster", doctored))
    return stage, doctored


def of_web(*items: Json) -> Callable[[Json], Sequence[Json]]:
    """Tell of the pods of one Deployment something else, all but their names."""

    def doctor(item: Json) -> list[Json]:
        if not item["metadata"]["name"].startswith("web"):
            return [item]
        return [{**item, **one} for one in items]

    return doctor


def app(**usage: object) -> Json:
    """Return an item with one container."""
    return {"containers": [{"name": "app", "usage": usage}]}


@cases(
    "item fate sentence",
    {
        "negative": (app(cpu="-1", memory="-1"), "cpu_refused", "-1 is negative"),
        "garbage": (app(cpu="NaN", memory=[]), "memory_refused", "cpu: quantities"),
        "no containers": ({"containers": []}, "unreadable", "there are none"),
        "a container without a name": ({"containers": [{}]}, "unknown", ""),
        "no time": ({"timestamp": None}, "unreadable", "timestamp"),
        "from 2999": ({"timestamp": "2999-01-01T00:00:00Z"}, "misdated", ""),
        "amounts missing": (app(), "", ""),
    },
)
def test_usage_that_cannot_be(
    item: Json, fate: str, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It costs itself alone, is told of and counted; what was recommended stays."""
    stage, doctored = staged()
    stage.run(181)
    before = stage.recommended()["app"]["target"]
    caplog.clear()
    doctored.doctor = cast("Callable[[Json], list[Json]]", of_web(item))
    model = stage.replica.begun[0].model
    shop = model.tally.cpu
    stage.run(180)

    counts = model.tally.counts()
    assert counts.get(fate, 3) == 3
    problems = [getattr(one, "problem", "") for one in caplog.records]
    assert bool(problems) == bool(sentence)
    assert all("metrics of" in one and "default/web" in one for one in problems)
    assert sentence in "".join(problems)
    assert stage.recommended()["app"]["target"] == before
    assert model.tally.cpu == shop + 3

    doctored.doctor = lambda found: [found]
    stage.run(61)
    assert model.tally.cpu == shop + 5


def test_half_a_list(caplog: pytest.LogCaptureFixture) -> None:
    """What was read before a list broke off counts; there is one line and one number for it."""
    stage, doctored = staged()
    doctored.error = Unavailable("the answer is no JSON: unexpected end of data")
    stage.run(1)

    assert stage.recommended("web")
    assert stage.recommended("shop")
    assert [one.message for one in caplog.records] == ["usage not read"]
    labels = {"is_error": "true", "client_name": "default-metrics-client"}
    name = "vpa_recommender_metric_server_responses_total"
    assert stage.replica.registry.get_sample_value(name, labels) == 1


def answer(**amounts: str) -> Json:
    """Return the values of an external metric, by container."""
    at = "2026-01-05T10:01:00Z"
    return {
        "items": [
            {"metricLabels": {"name": name}, "timestamp": at, "value": amount}
            for name, amount in amounts.items()
        ]
    }


EXTERNAL = ("--use-external-metrics", "--external-metrics-cpu-metric=c")
BOTH = (*EXTERNAL, "--external-metrics-memory-metric=m")


def test_external_metrics() -> None:
    """Usage comes from where the flags say, for the containers it names."""
    stage, doctored = staged(*BOTH)
    doctored.external = {"c": answer(app="2", ghost="1"), "m": answer(app="1Gi")}
    stage.run(1)

    assert stage.amount("cpu").milli > 2000
    assert stage.amount("memory").units > 2**30
    assert stage.replica.begun[0].model.tally.unknown == 2


@cases(
    "flags resources",
    {
        "ours": (EXTERNAL, {"cpu"}),
        "as upstream": ((*EXTERNAL, "--parity=upstream"), {"cpu", "memory"}),
    },
)
def test_one_external_metric(flags: Sequence[str], resources: set[str]) -> None:
    """A resource that nobody tells of is unknown; to upstream it is not used."""
    stage, doctored = staged(*flags)
    doctored.external = {"c": answer(app="2")}
    stage.run(62)

    assert set(stage.recommended()["app"]["target"]) == resources
