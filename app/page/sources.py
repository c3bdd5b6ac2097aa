"""Where pictures come from: a cluster that is watched, or files.

Strategy: both give the same values. What is watched is kept in its compact form; the few objects
whose text a page needs as it was written are read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from app.diagnosis.core.comparisons import histories
from app.diagnosis.core.facts import Facts, Pods
from app.diagnosis.core.pod_events import PodEvent, PodEvents
from app.diagnosis.gathering import GatheredObjects, list_objects
from app.diagnosis.installation_facts import facts_without_trials, known_pods
from app.flags.shared import ClusterAccess
from app.kube.client import connect
from app.kube.manifests import documents
from app.model.errors import BadObject, ClusterError, NotFound
from app.model.fields import Json
from app.model.snapshot import Snapshot, object_identity
from app.page.core.picture import Measured, WatchLine
from app.page.core.rows import ContainerUsage, UsageNow
from app.page.flags import LookSettings
from app.page.object_reader import SECONDS, ObjectReader, Reachability
from app.page.seen_events import SeenEvents
from app.page.usage_over_time import (
    NoUsageHistory,
    Patience,
    SeenUsageHistory,
    UsageHistory,
    prometheus_history,
)
from app.ports import (
    CHECKPOINTS,
    EVENTS,
    POD_METRICS,
    VPAS,
    Clock,
    Cluster,
    Delta,
    LimitReached,
    Owners,
    Ref,
)
from app.recommender.core.usage import UsageBatch, read_metrics
from app.runtime.live import Runtime
from app.updater.watches import HEALTHY, ClusterWatch, WebhookHealth, WebhookLease

_CALL_SECONDS: Final = 5.0
_BURST: Final = 500.0  # short questions, one after the other
_REVIEWS_A_SECOND: Final = 200.0  # of viewers: a question for each namespace
_REVIEWS: Final = 1000.0  # at once
_FACT_SECONDS: Final = 10.0
_LEARNED_SECONDS: Final = 300.0  # between two readings of checkpoints, which are large
_MEASURED_SECONDS: Final = 30.0
_STALE_SECONDS: Final = 120.0  # a watch that works hears something meanwhile
_OF_UPDATER: Final = "source=vpa-updater"  # events of all else are many
_MOST_PROBLEMS: Final = 5  # of a recording


class Source(Protocol):
    """What is known of a cluster; any thread may ask."""

    @property
    def clock(self) -> Clock:
        """The time of the cluster."""
        ...

    @property
    def owners(self) -> Owners:
        """Controllers that no snapshot holds."""
        ...

    @property
    def cluster(self) -> Cluster | None:
        """The cluster that can be asked, None of files."""
        ...

    @property
    def reviewer(self) -> Cluster | None:
        """The same cluster at a pace of its own, to ask about viewers."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """The objects."""
        ...

    @property
    def events(self) -> Sequence[PodEvent]:
        """What happened to pods, the latest first."""
        ...

    @property
    def history(self) -> UsageHistory:
        """Usage over time."""
        ...

    @property
    def is_measured(self) -> bool:
        """Whether usage and history were read, or it was tried."""
        ...

    def problem(self) -> str:
        """Return why the objects are not known, or not as they are now; empty if they are."""
        ...

    def webhook(self, now: datetime) -> WebhookHealth:
        """Return whether the webhook lives."""
        ...

    def watches(self) -> Sequence[WatchLine]:
        """Return how long nothing was heard of what is watched."""
        ...

    def facts(self) -> Facts:
        """Return what is known of the installation; it may take a while."""
        ...

    def measured(self) -> Measured:
        """Return usage and history; the same value until something of it changes."""
        ...

    def notes(self) -> Sequence[str]:
        """Return what could not be read."""
        ...

    def written(self, refs: Iterable[Ref]) -> list[Json]:
        """Return objects as they were written, without those that cannot be read."""
        ...

    def unread(self) -> str:
        """Return why no object can be read as it was written, empty if they can."""
        ...

    def start(self) -> None:
        """Begin to look."""
        ...

    def stop(self) -> None:
        """Look no more."""
        ...


class FileSource:
    """Files that were read once."""

    cluster = reviewer = None
    is_measured = True

    def __init__(
        self,
        seen: GatheredObjects,
        clock: Clock,
        history: UsageHistory | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        self.clock = clock
        self.history: UsageHistory = history or NoUsageHistory()
        self.owners, self.snapshot = seen.owners, seen.snapshot
        self.events: Sequence[PodEvent] = PodEvents(seen.objects_of(EVENTS)).latest()
        self._seen, self._problems = seen, problems
        usage = read_metrics({"items": list(seen.objects_of(POD_METRICS))})
        self._measured = Measured(usage_now(usage), histories(seen.objects_of(CHECKPOINTS)))

    def problem(self) -> str:
        """Return nothing: files are known."""
        return ""

    def webhook(self, _now: datetime) -> WebhookHealth:
        """Return what the Lease among the objects tells."""
        return self._seen.webhook

    def watches(self) -> Sequence[WatchLine]:
        """Return nothing: nothing is watched."""
        return ()

    def facts(self) -> Facts:
        """Return what files tell of VPAs."""
        pods = known_pods(self._seen, self.clock)
        definitions = documents.objects("crd")
        return Facts(now=self.clock.now(), wanted_definitions=definitions, pods=pods)

    def measured(self) -> Measured:
        """Return what files tell."""
        return self._measured

    def notes(self) -> Sequence[str]:
        """Return what could not be read."""
        return [*self._seen.notes, *self._problems[:_MOST_PROBLEMS]]

    def written(self, refs: Iterable[Ref]) -> list[Json]:
        """Return objects of the files."""
        wanted = {(ref.resource.kind, ref.namespace, ref.name) for ref in refs}
        return [item for item in self._seen.kept if _place(item) in wanted]

    def unread(self) -> str:
        """Return nothing: all is read."""
        return ""

    def start(self) -> None:
        """Do nothing: all is read."""

    def stop(self) -> None:
        """Do nothing."""


class ClusterSource:
    """A cluster that is watched; nothing is written to it."""

    def __init__(
        self,
        settings: LookSettings,
        runtime: Runtime,
        reached: LimitReached,
        facts_from: ClusterAccess | None = None,
        patience: Patience = Patience(),  # noqa: B008  # it never changes
    ) -> None:
        self.clock = runtime.clock
        quick = replace(settings.cluster, queries_per_second=_REVIEWS_A_SECOND, burst=_REVIEWS)
        paces = (*[settings.cluster] * 3, quick)
        self._connections = [runtime.connect(pace) for pace in paces]
        watched, named, asked, reviewing = self._connections
        self.cluster: Cluster = asked.within(_CALL_SECONDS)
        self._written = ObjectReader(asked, self.clock)
        self.reviewer: Cluster = reviewing.within(_CALL_SECONDS)
        self._reachability = Reachability(reviewing.within(SECONDS))
        self._namespace = settings.scope.namespace
        self._facts_from = facts_from or settings.cluster
        self._watch = ClusterWatch(
            watched,
            named,
            asked,
            runtime,
            reached,
            scope=settings.scope,
            deciding=settings.deciding,
        )
        self.owners = self._watch.owners
        self._lease = WebhookLease(lambda: self.cluster, settings.admission, self.clock)
        self._events = runtime.follow(
            watched, EVENTS, self._namespace, _OF_UPDATER, self._events_changed
        )
        self._happened = SeenEvents()
        self._seen_usage: SeenUsageHistory | None = None
        if settings.usage.address:
            usage, whose = settings.usage, settings.prometheus_access
            self.history: UsageHistory = prometheus_history(usage, whose, self.clock, patience)
        else:
            self.history = self._seen_usage = SeenUsageHistory()
        self._measured = Measured()
        self._problems: dict[str, str] = {}
        self._tried: set[str] = set()
        self._loops = [
            runtime.loop("usage", self._measure),
            runtime.loop("checkpoints", self._learn),
            runtime.loop("reachability", self._reachability.tick),
        ]

    @property
    def snapshot(self) -> Snapshot:
        """The objects as they are watched."""
        return self._watch.snapshot()

    @property
    def events(self) -> Sequence[PodEvent]:
        """What happened to pods, the latest first."""
        return self._happened.latest()

    @property
    def is_measured(self) -> bool:
        """Whether usage and checkpoints were read, or it was tried."""
        return self._tried >= {"usage", "checkpoints"}

    def problem(self) -> str:
        """Return what is not known, that nobody answers, or what was not seen for long."""
        silence = self._reachability.problem
        return self._watch.problem() or silence or self._watch.stale(_STALE_SECONDS)

    def webhook(self, now: datetime) -> WebhookHealth:
        """Return what the Lease tells now."""
        return self._lease.check(now)

    def watches(self) -> Sequence[WatchLine]:
        """Return how long nothing was heard."""
        return [
            WatchLine(resource, round(age.seconds, 1), bool(age.is_unknown))
            for resource, age in sorted(self._watch.watch_ages().items())
        ]

    def facts(self) -> Facts:
        """Ask; VPAs and pods are those that are watched."""
        reach = self._facts_from
        cluster = connect(reach.kubeconfig, reach.context, _BURST, _BURST)
        try:
            asked = cluster.within(_FACT_SECONDS)
            return facts_without_trials(reach.namespace, asked, self.clock, self._pods)
        finally:
            cluster.close()

    def _pods(self) -> Pods:
        written = list(list_objects(self.cluster, VPAS, self._namespace))
        seen = GatheredObjects(self.snapshot, self.owners, HEALTHY, written)
        return known_pods(seen, self.clock)

    def measured(self) -> Measured:
        """Return usage and history as they were read last."""
        return self._measured

    def notes(self) -> Sequence[str]:
        """Return what could not be read."""
        return list(self._problems.values())

    def written(self, refs: Iterable[Ref]) -> list[Json]:
        """Read objects, without those that cannot be read."""
        return [] if self._reachability.problem else self._written.read(refs)

    def unread(self) -> str:
        """Return why an object could not be read a moment ago."""
        return self._reachability.problem or self._written.problem

    def start(self) -> None:
        """Begin to watch."""
        self._watch.start()
        self._events.start()
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Watch no more."""
        for loop in self._loops:
            loop.stop()
        self._events.stop()
        self._watch.stop()
        self.history.stop()
        for connection in self._connections:
            connection.close()

    def _measure(self, _now: datetime) -> float:
        """Read usage; return the seconds until the next time."""
        with self._told("usage"):
            items = list(list_objects(self.cluster, POD_METRICS, self._namespace))
            found = read_metrics({"items": items})
            if self._seen_usage is not None:
                self._seen_usage.take(found, self.clock.now())
            self._measured = replace(self._measured, usage=usage_now(found))
        return _MEASURED_SECONDS

    def _learn(self, _now: datetime) -> float:
        """Read what checkpoints tell of the history; return the seconds until the next time."""
        with self._told("checkpoints"):
            found = histories(list_objects(self.cluster, CHECKPOINTS, self._namespace))
            self._measured = replace(self._measured, histories=found)
        return _LEARNED_SECONDS

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Note why something cannot be read; what is known of it stays as it was."""
        try:
            yield
            self._problems.pop(what, None)
        except NotFound:  # a cluster without it
            self._problems.pop(what, None)
        except ClusterError as error:
            self._problems[what] = f"{what} cannot be read: {error}"
        self._tried.add(what)

    def _events_changed(self, changes: Sequence[Delta], _whole: bool) -> None:
        self._happened.note(changes, self.clock.now())


def usage_now(found: UsageBatch) -> UsageNow:
    """Return the usage of each container."""
    amounts = zip(
        found.containers, found.cpu_millicores.tolist(), found.memory_bytes.tolist(), strict=True
    )
    return {
        key: ContainerUsage(cpu if cpu >= 0 else None, memory if memory >= 0 else None)
        for key, cpu, memory in amounts
    }


def _place(item: Json) -> tuple[str, str, str]:
    try:
        _, kind, namespace, name = object_identity(item)
    except BadObject:
        return "", "", ""
    return kind, namespace or "default", name
