"""A whole cluster in memory with the updater at work in it, stepped by a clock.

Strategy: pods are made by controllers, sized by our own webhook and run by kubelets; the updater
is the one that the process runs, only its loops are called here when they are due. `run` lets
time pass and all happen in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from inspect import signature
from typing import Final, cast

import orjson
from prometheus_client import CollectorRegistry

from app.admission.metrics import AdmissionMetrics
from app.admission.reviews import Reviewer, ReviewRules, Sources
from app.flags.command_line import parse
from app.kube.manifests import documents
from app.kube.manifests.documents import Registration, webhook_configurations
from app.kube.watch_cache import Transition
from app.model.errors import ClusterError
from app.model.fields import Json
from app.model.review import read_review
from app.model.snapshot import NamespaceView, Snapshot
from app.model.vpa import Vpa
from app.model.workloads import Absent, Lookup, LookupResult
from app.ports import PODS, VPAS, Cluster, PatchKind, Ref
from app.runtime.exposition import render
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from app.updater.flags import UpdaterSettings
from app.updater.metrics import UpdaterMetrics
from app.updater.notifications import ANNOTATION
from app.updater.process import updater_parts
from app.updater.state import UpdaterContext
from tests import make
from tests.cluster.numbers import total
from tests.faults import Faults, ref_of
from tests.reached_limits import ReachedLimits
from tests.sandbox.in_process import InProcess
from tests.sandbox.worlds import LiveSnapshot, container, deployment
from tests.sandbox_objects import events_in, pods_in
from tests.updater.core.scenes import recommended
from tests.updater.set_clock import SetClock

LEASE: Final = "vpa-admission-controller"
_MICRO: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
_WATCH_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Call:
    """A call that the updater made."""

    verb: str
    name: str
    subresource: str
    namespace: str = ""


class Watched:
    """A cluster whose calls are noted; something may happen before each of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.calls: list[Call] = []
        self.before: Callable[[Call], object] = lambda _call: None
        self.after: Callable[[Call], object] = lambda _call: None  # one that was accepted

    def __getattr__(self, verb: str) -> Callable[..., object]:
        method = getattr(self._cluster, verb)
        takes = signature(method)

        @wraps(method)
        def call(*args: object, **kwargs: object) -> object:
            arguments = takes.bind(*args, **kwargs).arguments
            ref = ref_of(verb, arguments)
            made = Call(verb, ref.name, ref.subresource, ref.namespace)
            self.calls.append(made)
            self.before(made)
            answer = method(*args, **kwargs)
            self.after(made)
            return answer

        return call

    def count(self, verb: str, subresource: str = "") -> int:
        """Return how many calls of a kind were made."""
        return sum((call.verb, call.subresource) == (verb, subresource) for call in self.calls)


class NoSiblings:
    """VPAs that cannot be read again."""

    def of(self, namespace: str) -> tuple[Vpa, ...] | None:
        """Return nothing."""
        del namespace
        return None

    def named(self, _namespace: str, _name: str) -> Vpa | None:
        """Return none."""
        return None


class NoOwners:
    """Custom kinds that do not exist."""

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Find nothing."""
        del lookup, deadline_seconds
        return Absent()


@dataclass
class _Loop:
    """A loop that is called when it is due."""

    tick: Callable[[datetime], float]
    due: float


class Stage:
    """The cluster and the updater; flags are those of the updater."""

    def __init__(self, *flags: str) -> None:
        self.clock = SteppedClock()
        self.wall = SetClock(self.clock)  # of the updater and the webhook
        self.sandbox = Sandbox(self.clock, webhook_client=InProcess({"/mutate": self._reviewed}))
        self.faults = Faults()
        self.webhook_works = True
        self.unsized = frozenset[str]()  # namespaces whose pods the webhook leaves as they are
        self.webhook_beats = True
        self.acquired: datetime | None = None  # since when it beats without a gap, if it says so
        self.leads = True
        words = ["--feature-gates=AllAlpha=true", *flags]
        self.settings = parse(UpdaterSettings, words, {})
        rules = ReviewRules(self.settings.deciding.gates)
        self._live = LiveSnapshot(self.sandbox)
        sources = Sources(self._live, NoOwners(), NoSiblings())
        metrics = AdmissionMetrics(CollectorRegistry())
        self._reviewer = Reviewer(sources, rules, metrics, self.clock)
        self._shown = Snapshot()
        self.before_look: Callable[[], object] = lambda: None  # at what the watch shows
        self.carried = Watched(self.sandbox.cluster)
        assert self.sandbox.apply(*documents.objects("crd")) == []
        (_, mutating), _ = webhook_configurations(Registration(), "")
        mutating["webhooks"][0]["rules"].pop()  # VPAs are taken as they are
        self.apply(mutating)
        self.restart()

    def restart(self) -> None:
        """Begin with an updater that remembers nothing; who looks at the calls goes on looking."""
        self.registry, self.reached = CollectorRegistry(), ReachedLimits()
        watched = Watched(self.sandbox.cluster)
        watched.before, watched.after = self.carried.before, self.carried.after
        self.carried = watched  # what reached the cluster
        self.asked = Watched(self.faults.before(cast("Cluster", watched)))
        cluster = cast("Cluster", self.asked)
        self.watch_lags = False
        context = UpdaterContext(
            cluster_for_calls=lambda: cluster,
            reporting=cluster,
            owners=NoOwners(),
            snapshot=self._seen,
            is_known=lambda: True,
            may_act=lambda: self.leads,
            leads=lambda: self.leads,
            clock=self.wall,
            metrics=UpdaterMetrics(self.registry),
            reached=self.reached,
        )
        self.parts = parts = updater_parts(self.settings, context)
        looped = (
            parts.boosts,
            parts.promotions,
            parts.updater,
            parts.recorder,
            parts.summaries,
        )
        ticks = [self._beat, self._watch, *(part.tick for part in looped if part is not None)]
        ticks.append(parts.executor.unconfirmed.tick)
        self._loops = [_Loop(tick, self.clock.monotonic()) for tick in ticks]
        if self.parts.boosts is not None:
            self.parts.boosts.refill()

    def also(self, tick: Callable[[datetime], float]) -> None:
        """Let something else be done whenever it is due, from now on."""
        self._loops.append(_Loop(tick, self.clock.monotonic()))

    # --- what happens

    def apply(self, *items: Json) -> None:
        """Bring objects into the cluster."""
        refused = self.sandbox.apply(*items)
        assert refused == [], refused

    def run(self, seconds: float) -> None:
        """Let time pass, and all happen that is due in it."""
        until = self.clock.monotonic() + seconds
        while (due := min(loop.due for loop in self._loops)) <= until:
            self.clock.advance(max(due - self.clock.monotonic(), 0))
            for loop in self._loops:
                if loop.due <= self.clock.monotonic():
                    loop.due = self.clock.monotonic() + _called(loop, self.wall.now())
        self.clock.advance(max(until - self.clock.monotonic(), 0))

    def run_watch(self) -> None:
        """Let the watch show what happened, in the middle of whatever goes on."""
        self._watch(self.clock.now())

    def round(self) -> None:
        """Let the updater make one round now, and nothing else happen."""
        self._watch(self.clock.now())
        self.parts.updater.tick(self.wall.now())

    def beat(self) -> None:
        """Renew the Lease now, as a webhook does that has just started."""
        self._beat(self.clock.now())

    def _beat(self, now: datetime) -> float:
        """Renew the Lease as the webhook does."""
        renewed = now.strftime(_MICRO)
        since = {} if self.acquired is None else {"acquireTime": self.acquired.strftime(_MICRO)}
        if self.webhook_beats:
            metadata = {"name": LEASE, "namespace": "kube-system"}
            self.apply({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
                "spec": {"holderIdentity": "webhook", "renewTime": renewed, **since},
            })  # fmt: skip
        return 10.0

    def _seen(self) -> Snapshot:
        self.before_look()
        return self._shown

    def _watch(self, _now: datetime) -> float:
        """Show the updater what the cluster is like."""
        before, self._shown = self._shown, self._shown if self.watch_lags else self._live()
        if self.parts.boosts is not None and self._shown is not before:
            self.parts.boosts.add(list(_changes(before, self._shown)))
        return _WATCH_SECONDS

    def _reviewed(self, review: Json) -> Json:
        if not self.webhook_works or review["request"]["namespace"] in self.unsized:
            allowed = {"uid": review["request"]["uid"], "allowed": True}
            return {**review, "response": allowed}
        answer: Json = orjson.loads(self._reviewer.answer(read_review(review), 1.0))
        return answer

    # --- VPAs

    def recommend(self, text: str, name: str = "web", namespace: str = "default") -> None:
        """Let a VPA recommend, in the words of `recommended`; several are parted by `;`."""
        recommendations = []
        for part in text.split(";"):
            words, _, container = part.strip().partition(" for ")
            recommendations.append(recommended(words, container or "app"))
        status = {"recommendation": {"containerRecommendations": recommendations}}
        self.sandbox.cluster.patch(
            Ref(VPAS, namespace, name, subresource="status"),
            {"status": status},
            kind=PatchKind.MERGE,
        )

    # --- questions

    def pods(self, selector: str = "") -> list[Json]:
        """Return the pods that are not on their way out."""
        return [pod for pod in pods_in(self.sandbox, "default", selector) if not gone(pod)]

    def uids(self) -> set[str]:
        """Return the uids of the pods."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def requests(self, resource: str = "cpu", container: int = 0) -> list[str]:
        """Return what the pods ask for."""
        return sorted(
            pod["spec"]["containers"][container]["resources"].get("requests", {}).get(resource, "")
            for pod in self.pods()
        )

    def evicted(self) -> list[str]:
        """Return the pods that were really evicted since the updater began, in order."""
        return [call.name for call in self.carried.calls if call.verb == "evict"]

    def summary(self, name: str = "web") -> str | None:
        """Return the annotation that the updater left on a VPA."""
        found = self._live().of("default").vpas[name]
        return found.annotations.get(ANNOTATION)

    def events(self, reason: str) -> list[str]:
        """Return the messages of the updater's events of a kind."""
        return [
            event["message"]
            for event in events_in(self.sandbox, reason=reason)
            if event["source"]["component"] == "vpa-updater"
        ]

    def reasons(self) -> list[str]:
        """Return the reasons of the latest round, by pod."""
        return [str(found.reason) for found in self.parts.decisions.decisions()]

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with some labels."""
        return total(render(self.registry).decode(), f"vpa_updater_{name}", **labels)


def staged(*flags: str, replicas: int = 4, mode: str = "Recreate", restarts: bool = False) -> Stage:
    """Return a cluster whose pods should be twice as big; resizes of their CPU may restart them."""
    stage = Stage(*flags)
    stage.apply(small(replicas=replicas, restarts=restarts), vpa(mode=mode))
    stage.run(20)
    stage.recommend("200m/200Mi = =")
    return stage


def small(name: str = "web", *, replicas: int = 4, restarts: bool = False) -> Json:
    """Return a Deployment of small pods; resizes of their CPU may restart them."""
    policies = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}] if restarts else []
    requests = {"cpu": "100m", "memory": "100Mi"}
    pod = container(requests=requests, limits={}, more={"resizePolicy": policies})
    return deployment(name, pod, replicas=replicas, load="cpu: constant 10m, noise: 0")


def in_other(item: Json, namespace: str = "other") -> Json:
    """Return an object in another namespace."""
    return item | {"metadata": item["metadata"] | {"namespace": namespace}}


def gone(pod: Json) -> bool:
    """Whether a pod is on its way out."""
    return "deletionTimestamp" in pod["metadata"]


def _called(loop: _Loop, now: datetime) -> float:
    try:
        return loop.tick(now)
    except ClusterError:
        return 1.0


def _changes(before: Snapshot, after: Snapshot) -> Iterator[Transition]:
    """Yield what a mirror tells of pods and VPAs."""
    resources = {"pod": PODS, "vpa": VPAS}
    for namespace in {**before.namespaces, **after.namespaces}:
        old, new = before.of(namespace), after.of(namespace)
        was, now = _values(old), _values(new)
        for kind, name in {**was, **now}:
            if was.get((kind, name)) != now.get((kind, name)):
                values = was.get((kind, name)), now.get((kind, name))
                yield Transition(resources[kind], namespace, name, *values)


def _values(view: NamespaceView) -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {("pod", name): pod for name, pod in view.pods.items()}
    return found | {("vpa", name): item for name, item in view.vpas.items()}


def vpa(
    name: str = "web",
    *,
    target: str = "Deployment/web",
    mode: str = "Recreate",
    policy: Mapping[str, object] | None = None,
    spec: Mapping[str, object] | None = None,
) -> Json:
    """Return a VPA; the policy is for updates, `spec` are further members."""
    updating = {"updatePolicy": {"updateMode": mode} | dict(policy or {})}
    return make.vpa_json(name, target=target, created=None, spec=updating | dict(spec or {}))


def budget(*, unavailable: int | str, name: str = "web") -> Json:
    """Return a PodDisruptionBudget over the pods of Deployment web."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": unavailable, "selector": {"matchLabels": {"app": "web"}}},
    }
