"""A cluster in memory with recommenders at work in it, stepped by a clock.

Strategy: every replica is made of the parts that the process runs, only their loops are called
here when they are due. `run` lets time pass and all happen in it. Replicas can be stopped as by
SIGTERM, or killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from prometheus_client import CollectorRegistry

from app.flags.command_line import parse
from app.kube.manifests import documents
from app.model.errors import BadObject, ClusterError
from app.model.quantity import Quantity
from app.model.snapshot import Replacement, Snapshot, object_identity, removal, replacement
from app.ports import CHECKPOINTS, EVENTS, LEASES, VPAS, Cluster, Json, Prometheus, Ref, Resource
from app.recommender.checkpoint_store import ClusterCheckpoints
from app.recommender.configuration import RecommenderContext, past_rules, round_rules
from app.recommender.flags import RecommenderSettings
from app.recommender.leader_loop import LeaderLoop
from app.recommender.metrics import QualityMetrics, RecommenderMetrics
from app.recommender.past_reader import PastReader
from app.recommender.process import usage_source
from app.recommender.recommender import RecentChanges, Recommender, begin_term
from app.recommender.report import RecommenderReport
from app.runtime.election import Campaign, Election, ElectionRules, Leadership, Unopposed
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from app.sandbox.store import StoredChange
from tests import make
from tests.faults import Fault, Faults
from tests.reached_limits import ReachedLimits
from tests.sandbox.worlds import container, deployment, snapshot_of
from tests.sandbox_objects import events_in
from tests.updater.stage import Call, NoOwners, Watched

_WATCH_SECONDS = 0.1
BIG = {"cpu": "4", "memory": "8Gi"}  # limits
_ELECTION = ElectionRules("kube-system", "vpa-recommender-lease")


class RecommendedCluster:
    """A cluster in memory, and what is recommended in it."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self.sandbox = sandbox or Sandbox(SteppedClock())
        self.clock = self.sandbox.clock
        if sandbox is None:
            self.apply(*documents.objects("crd"))

    def apply(self, *items: Json) -> None:
        """Bring objects into the cluster."""
        refused = self.sandbox.apply(*items)
        assert refused == [], refused

    def status(self, name: str = "web", namespace: str = "default") -> Json:
        """Return the status of a VPA."""
        found: Json = self.sandbox.cluster.get(Ref(VPAS, namespace, name)).get("status", {})
        return found

    def recommended(self, name: str = "web", namespace: str = "default") -> dict[str, Json]:
        """Return what is recommended, by container."""
        told = self.status(name, namespace).get("recommendation", {})
        return {one["containerName"]: one for one in told.get("containerRecommendations", [])}

    def amount(self, resource: str, field: str = "target", name: str = "web") -> Quantity:
        """Return one amount that is recommended for container `app`."""
        return Quantity.parse(self.recommended(name)["app"][field][resource])

    def conditions(self, name: str = "web") -> dict[str, Json]:
        """Return the conditions of a VPA by type."""
        return {one["type"]: one for one in self.status(name).get("conditions", [])}

    def checkpoints(self) -> dict[str, Json]:
        """Return all checkpoints by name."""
        found = self.sandbox.cluster.list(CHECKPOINTS).items
        return {item["metadata"]["name"]: item for item in found}


@dataclass
class _Loop:
    """A loop that is called when it is due."""

    tick: Callable[[datetime], float]
    due: float


class Replica:
    """One recommender process; with a name it takes part in an election."""

    def __init__(
        self,
        sandbox: Sandbox,
        flags: Sequence[str],
        name: str = "",
        cluster: Cluster | None = None,
        prometheus: Prometheus | None = None,
    ) -> None:
        self.clock = sandbox.clock
        self.faults = Faults()
        self.registry = CollectorRegistry()
        self.watched = Watched(self.faults.before(cluster or sandbox.cluster))
        settings = parse(RecommenderSettings, flags, {})
        self.rules = round_rules(settings)
        self.begun: list[Recommender] = []  # one for each term
        self._written: list[tuple[Call, float]] = []
        self.watched.after = self._note_write
        self._cluster = cast("Cluster", self.watched)
        self._heard = RecentChanges()
        found = snapshot_of(sandbox)
        if self.rules.namespace:
            found = Snapshot({self.rules.namespace: found.of(self.rules.namespace)})
        self._shown = found
        self._news: list[Replacement | None] = []
        self._heard.events.extend(events_in(sandbox, reason="Evicted"))
        sandbox.store.listen(self._note)
        self.past: PastReader | None = None
        if prometheus is not None:
            self.past = PastReader(
                prometheus,
                past_rules(settings),
                self.clock,
                reading=self.rules.variant.past_reading,
            )
        metrics = RecommenderMetrics(self.registry)
        self._report = RecommenderReport(
            metrics,
            QualityMetrics(self.registry),
            lambda: self._shown,
            ReachedLimits(),
            self.clock,
        )
        self._around = RecommenderContext(
            snapshot=lambda: self._shown,
            owners=NoOwners(),
            usage=usage_source(settings, self.rules.variant, self.clock, self._cluster),
            checkpoints=ClusterCheckpoints(self._cluster, self.rules.namespace),
            clock=self.clock,
            metrics=metrics,
            report=self._report,
            past=self.past,
        )
        self.election = Election(self._cluster, _ELECTION, name, self.clock)
        self._campaign = Campaign(self.election, lambda: None, lambda: None)
        leadership: Leadership = self.election if name else Unopposed()
        self.tenure = LeaderLoop(leadership, lambda: True, self._begin, self.clock, 300.0)
        ticks = [self._watch, self.tenure.tick]
        if name:
            ticks.insert(0, self._campaign.tick)
        if self.past is not None:
            ticks.append(self.past.tick)
        self.loops = [_Loop(tick, self.clock.monotonic()) for tick in ticks]

    def run_due(self) -> None:
        """Do what is due."""
        for loop in self.loops:
            if loop.due <= self.clock.monotonic():
                loop.due = self.clock.monotonic() + self._called(loop)

    def stop(self) -> None:
        """End as after SIGTERM."""
        self.loops = []
        self.tenure.hurry()
        self.tenure.close(self.clock.now())
        self._campaign.close(self.clock.now())

    def kill(self) -> None:
        """End without a word."""
        self.loops = []

    def fail(
        self,
        error: ClusterError,
        verb: str = "",
        resource: Resource | None = None,
        *,
        times: int = 10**9,
    ) -> None:
        """Let calls fail."""
        self.faults.order(Fault(error, verb, resource, times=times))

    def writes(self, since: float = 0.0) -> list[Call]:
        """Return what was written, statuses and checkpoints."""
        return [call for call, at in self._written if at >= since]

    def _note_write(self, call: Call) -> None:
        if call.verb in ("patch", "create", "delete"):  # Leases are replaced
            self._written.append((call, self.clock.monotonic()))

    def _called(self, loop: _Loop) -> float:
        try:
            return loop.tick(self.clock.now())
        except ClusterError:
            return 1.0

    def _begin(self, may_continue: Callable[[], bool]) -> Recommender:
        if self.past is not None:
            self.past.begin(self.clock.now())
        self._report.begin()
        self.begun.append(
            begin_term(lambda: self._cluster, self.rules, self._around, self._heard, may_continue)
        )
        return self.begun[-1]

    def _note(self, _collection: str, change: StoredChange) -> None:
        """Note what a watch tells."""
        item = change.after or change.before or {}
        api_version, kind, namespace, name = object_identity(item)
        if self.rules.namespace not in ("", namespace):
            return
        if kind == "Event":
            if change.before is None and item.get("reason") == "Evicted":
                self._heard.events.append(item)
            return
        with suppress(BadObject):
            gone = removal(api_version, kind, namespace, name)
            self._news.append(replacement(item) if change.after is not None else gone)
        if kind == "Pod" and change.after is not None:
            self._heard.pods.append((namespace, name))

    def _watch(self, now: datetime) -> float:
        """Show what the cluster is like, as watches would."""
        del now
        news, self._news = self._news, []
        self._shown = self._shown.changed(one for one in news if one is not None)
        return _WATCH_SECONDS


class Stage(RecommendedCluster):
    """A cluster, and the recommenders in it; the first one has no rival unless there are more."""

    def __init__(self, *flags: str, replicas: int = 1, sandbox: Sandbox | None = None) -> None:
        super().__init__(sandbox)
        self.flags = flags
        self.replicas: list[Replica] = []
        for number in range(replicas):
            self.begin(f"replica-{number}" if replicas > 1 else "")

    @property
    def replica(self) -> Replica:
        """The replica that began last."""
        return self.replicas[-1]

    def begin(
        self,
        name: str = "",
        *,
        cluster: Cluster | None = None,
        prometheus: Prometheus | None = None,
    ) -> Replica:
        """Start another process."""
        self.replicas.append(Replica(self.sandbox, self.flags, name, cluster, prometheus))
        return self.replica

    def run(self, seconds: float) -> None:
        """Let time pass, and all happen that is due in it."""
        until = self.clock.monotonic() + seconds
        while (due := self._next_due()) <= until:
            self.sandbox.advance(max(due - self.clock.monotonic(), 0.0))
            for replica in self.replicas:
                replica.run_due()
        self.sandbox.advance(max(until - self.clock.monotonic(), 0.0))

    def run_until(self, reached: Callable[[], object], seconds: float) -> float:
        """Let time pass until something is so; return how long that took."""
        began = self.clock.monotonic()
        while not reached():
            assert self.clock.monotonic() - began < seconds, "it did not come to that"
            self.run(0.5)
        return self.clock.monotonic() - began

    def _next_due(self) -> float:
        return min((loop.due for one in self.replicas for loop in one.loops), default=float("inf"))

    def leader(self) -> str:
        """Return who holds the Lease."""
        found = self.sandbox.cluster.get(Ref(LEASES, _ELECTION.namespace, _ELECTION.name))
        return str(found["spec"]["holderIdentity"])


def vpa(
    name: str = "web",
    *,
    target: str = "",
    namespace: str = "default",
    policies: Sequence[Json] = (),
    **spec: object,
) -> Json:
    """Return a VPA, for the Deployment of its name unless told; `spec` are further members."""
    return make.vpa_json(
        name,
        namespace=namespace,
        target=target or f"Deployment/{name}",
        policies=policies or None,
        created=None,
        spec=spec,
    )


def workload(
    name: str = "web", *, load: str, replicas: int = 1, limits: Mapping[str, str] = BIG
) -> list[Json]:
    """Return a Deployment of pods with one container, and its VPA."""
    app = container(limits=limits)
    return [deployment(name, app, load=load, replicas=replicas), vpa(name)]


def eviction(pod: Json, memory: str, **metadata: str) -> Json:
    """Return the event with which a kubelet tells that it evicted a pod for memory."""
    named = {key: pod["metadata"][key] for key in ("namespace", "name", "uid")}
    blame = {
        "offending_containers": "app",
        "offending_containers_usage": memory,
        "starved_resource": "memory",
    }
    return {
        "metadata": {"namespace": named["namespace"], "annotations": blame, **metadata},
        "reason": "Evicted",
        "message": "The node was low on memory.",
        "type": "Warning",
        "involvedObject": {"kind": "Pod", **named},
    }


def evict(sandbox: Sandbox, pod: Json, memory: str) -> None:
    """Tell of a kubelet's eviction as the kubelet does."""
    event = eviction(pod, memory, generateName="evicted-")
    sandbox.cluster.create(Ref(EVENTS, event["metadata"]["namespace"]), event)
