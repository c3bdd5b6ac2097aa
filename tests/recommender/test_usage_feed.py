"""External metrics are read as far as they answer."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from app.model.errors import ClusterError, NotFound, PlumblineError, Unavailable
from app.model.selectors import Selector
from app.model.snapshot import Collection, Replacement, Snapshot
from app.ports import Json
from app.recommender.core.estimation import MOST
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import ExternalRules
from app.recommender.upstream.variant import ExternalUsageWhole
from app.recommender.usage_feed import ExternalUsage, UsageRequest
from tests import make
from tests.cases import cases
from tests.cluster_in_memory import ClusterInMemory
from tests.stepped_clock import SteppedClock

VPA = ObservedVpa(make.vpa("web"), Selector.of_labels(make.LABELS))
PODS = [make.pod(name=f"web-{number}") for number in range(3)]
SNAPSHOT = Snapshot().changed(
    Replacement(Collection.PODS, "default", pod.name, pod) for pod in PODS
)
RULES = ExternalRules("cpu", "memory", "container")


class Metrics(ClusterInMemory):
    """A cluster with external metrics, each answer of which takes a second."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        super().__init__(self.clock.now)
        self.errors: dict[str, Exception | Json] = {}  # by "metric pod"
        self.asked: list[str] = []
        self.paths: set[str] = set()
        self._one_at_a_time = Lock()

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Answer for one pod."""
        assert (method, query is not None) == ("GET", True)
        selector = (query or {})["labelSelector"]
        asked = f"{path.rsplit('/', 1)[1]} {selector.partition('pod=')[2]}"
        with self._one_at_a_time:
            self.asked.append(asked)
            self.paths.add(path)
            self.clock.wait(1.0)
        found = self.errors.get(asked)
        if isinstance(found, Exception):
            raise found
        value = {"metricLabels": {"container": "app"}, "timestamp": "2026-03-01T12:00:00Z"}
        return found or {"items": [value | {"value": "1"}]}


def usage(
    metrics: Metrics,
    *,
    rules: ExternalRules = RULES,
    kind: type[ExternalUsage] = ExternalUsage,
    threads: int = 2,
    seconds: float = 60,
    snapshot: Snapshot = SNAPSHOT,
    skipped: SkippedObjects | None = None,
) -> tuple[list[str], str]:
    """Return the pods whose usage is read, once for each container, and why there is no more."""
    source = kind(metrics, rules, MOST, metrics.clock, threads, seconds)
    request = UsageRequest([VPA], snapshot, lambda: True, skipped or SkippedObjects())
    found: list[str] = []
    try:
        for page in source.read(request):
            found += [pod for _, pod, _ in page.containers]
    except PlumblineError as error:
        return sorted(found), str(error)
    return sorted(found), ""


def test_everything_answers() -> None:
    """Each pod and resource is a sample."""
    assert usage(Metrics()) == (["web-0", "web-0", "web-1", "web-1", "web-2", "web-2"], "")


@cases(
    "failure",
    {
        "no answer": (Unavailable("the adapter is down"),),
        "no such metric": (NotFound("no such metric"),),
        "no list": ({"items": "many"},),
    },
)
def test_one_failure(failure: ClusterError | Json) -> None:
    """One that fails costs itself alone and is told; as upstream it costs everything."""
    metrics = Metrics()
    metrics.errors["cpu web-1"] = failure
    found, error = usage(metrics)
    assert found == ["web-0", "web-0", "web-1", "web-2", "web-2"]
    assert error.startswith("1 of 6 external metrics were not read: ")

    assert usage(metrics, kind=ExternalUsageWhole)[0] == []


def test_a_mistake_of_ours() -> None:
    """It costs one answer, and is told of by the path that was asked for."""
    metrics, skipped = Metrics(), SkippedObjects()
    metrics.errors["cpu web-1"] = ZeroDivisionError("a mistake")
    found, error = usage(metrics, skipped=skipped)

    assert found == ["web-0", "web-0", "web-1", "web-2", "web-2"]
    assert error.startswith("1 of 6 ")
    assert error.endswith("/cpu: it failed unexpectedly")
    assert [(one.kind, one.name.endswith("/cpu")) for one in skipped.taken()] == [
        ("external metric", True)
    ]


def test_too_many_for_the_time() -> None:
    """What cannot be asked in time is not asked; the rest counts."""
    found, error = usage(Metrics(), threads=1, seconds=3)
    assert len(found) == 3
    assert error.startswith("3 of 6 ")
    assert error.endswith(": the time for it was over")


def test_as_upstream() -> None:
    """One after the other, and one sample a pod."""
    metrics = Metrics()
    assert usage(metrics, kind=ExternalUsageWhole) == (["web-0", "web-1", "web-2"], "")
    assert metrics.asked[:3] == ["cpu web-0", "memory web-0", "cpu web-1"]


def test_nobody_to_ask_of() -> None:
    """Without pods nothing is asked."""
    metrics = Metrics()
    assert usage(metrics, snapshot=Snapshot()) == ([], "")
    assert metrics.asked == []


def test_names_that_paths_may_not_hold() -> None:
    """Names of metrics are quoted."""
    metrics = Metrics()
    usage(metrics, rules=ExternalRules("a/b|c"))
    assert metrics.paths == {"/apis/external.metrics.k8s.io/v1beta1/namespaces/default/a%2Fb%7Cc"}
