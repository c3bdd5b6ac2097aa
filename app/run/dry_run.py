"""A dry run: a cluster that is read and never written, as if it had been written.

Strategy: a write is answered with what an API server would have stored, and reported; nothing is
sent. Readers see the VPAs as they would be, so that webhook and updater tell what they would do
with what the recommender would write.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock

from app.flags.shared import ClusterAccess
from app.kube.watch_cache import WatchCache
from app.kube.watch_report import WatchReport
from app.kube.watched_resources import WatchedResource
from app.model import patches
from app.model.errors import BadObject, Refused
from app.model.snapshot import Collection, Replacement, Snapshot
from app.model.vpa import Vpa, read_vpa
from app.ports import CHECKPOINTS, PODS, Clock, Cluster, Json, PatchKind, Ref
from app.runtime.live import Connection, LiveRuntime, Mirrored


class Drafts:
    """The latest status of each VPA that was not sent; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._vpas: dict[tuple[str, str], Vpa] = {}
        self.count = 0  # of drafts that were taken in

    def add(self, item: Json) -> Vpa | None:
        """Keep a VPA as it would be; return it, None if it cannot be read."""
        with suppress(BadObject):
            vpa = read_vpa(item)
            with self._lock:
                self._vpas[vpa.namespace, vpa.name] = vpa
                self.count += 1
            return vpa
        return None

    def over(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with what was not sent."""
        with self._lock:
            drafts = list(self._vpas.values())
        return snapshot.changed(_changes(snapshot, drafts))


def _changes(snapshot: Snapshot, drafts: Sequence[Vpa]) -> Iterator[Replacement]:
    for draft in drafts:
        found = snapshot.of(draft.namespace).vpas.get(draft.name)
        if found is not None and found.uid == draft.uid:
            shown = replace(found, recommendation=draft.recommendation, conditions=draft.conditions)
            yield Replacement(Collection.VPAS, draft.namespace, draft.name, shown)


class DraftedWatchCache(WatchCache):
    """A watch cache with drafts over it; listeners are told of the cluster alone."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        sources: Iterable[WatchedResource],
        drafts: Drafts,
        report: WatchReport,
    ) -> None:
        super().__init__(cluster, clock, sources, jitter=random.random, report=report)
        self._drafts = drafts
        self._shown = (Snapshot(), 0, Snapshot())  # what is below, how many drafts, both together

    @property
    def snapshot(self) -> Snapshot:
        """The newest state, as it would be."""
        below, count = super().snapshot, self._drafts.count
        if self._shown[0] is not below or self._shown[1] != count:
            self._shown = (below, count, self._drafts.over(below))
        return self._shown[2]


@dataclass(frozen=True, slots=True)
class UnsentWrite:
    """A write that was not sent."""

    verb: str
    ref: Ref
    item: Json | None = None  # as it would be, where it would be


ReportWrite = Callable[[UnsentWrite], None]


class ReadOnlyCluster:
    """Passes reads on, and reports writes instead of sending them."""

    def __init__(self, cluster: Connection, report: ReportWrite) -> None:
        self._cluster = cluster
        self._report = report
        self.list, self.watch, self.get = cluster.list, cluster.watch, cluster.get

    def within(self, seconds: float, /) -> Connection:
        """Return the same, its calls given up after so many seconds."""
        return ReadOnlyCluster(self._cluster.within(seconds), self._report)

    def until(self, moment: float, /) -> Connection:
        """Return the same, its calls over at a moment of the monotonic clock, or not begun."""
        return ReadOnlyCluster(self._cluster.until(moment), self._report)

    def server_now(self) -> datetime | None:
        """Return the time by the clock of the API server, None if it is not known."""
        return self._cluster.server_now()

    def close(self) -> None:
        """End all watches and close all that is open."""
        self._cluster.close()

    def create(self, ref: Ref, body: Json, *, dry_run: bool = False) -> Json:
        """Report a creation; return the object that was handed in."""
        del dry_run  # not even that is sent
        metadata = body.get("metadata") or {}
        named = ref._replace(name=ref.name or str(metadata.get("name", "")))
        self._report(UnsentWrite(f"create {ref.subresource}".strip(), named, body))
        return body

    def replace(self, ref: Ref, body: Json) -> Json:
        """Report a replacement; return what was handed in."""
        self._report(UnsentWrite("replace", ref, body))
        return body

    def patch(
        self, ref: Ref, body: object, *, kind: PatchKind = PatchKind.JSON, dry_run: bool = False
    ) -> Json:
        """Report a change; return the object as it would be."""
        del dry_run
        verb = f"patch {ref.subresource}".strip()
        if ref.resource == CHECKPOINTS:  # written all the time, and the answer is not used
            self._report(UnsentWrite(verb, ref))
            return {}
        stored = self._cluster.get(ref._replace(subresource=""))
        if kind is PatchKind.JSON:
            changed = patches.apply(stored, body if isinstance(body, list) else [])
        else:
            changed = patches.merge(stored, body if isinstance(body, dict) else {})
        self._report(UnsentWrite(verb, ref, changed))
        return changed

    def delete(self, ref: Ref, *, uid: str = "") -> None:
        """Report a deletion."""
        del uid
        self._report(UnsentWrite("delete", ref))

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Report an eviction."""
        del uid, dry_run
        self._report(UnsentWrite("evict", Ref(PODS, namespace, name)))

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Ask for what is no resource; only reading is let through."""
        if method != "GET":
            raise Refused(f"{method} {path}: a dry run sends nothing but reads")
        return self._cluster.request(method, path, query)


class DryRunRuntime(LiveRuntime):
    """The real world, in which nothing is written; what would be is shown as if it was."""

    def __init__(self, report: ReportWrite, drafts: Drafts) -> None:
        super().__init__()
        self._report = report
        self._drafts = drafts

    def connect(self, reach: ClusterAccess, /) -> Connection:
        """Connect to the API server; what would be written is reported."""
        return ReadOnlyCluster(super().connect(reach), self._report)

    def mirror(self, cluster: Cluster, sources: Iterable[WatchedResource], /) -> Mirrored:
        """Watch, and see what was not sent as well."""
        return DraftedWatchCache(cluster, self.clock, sources, self._drafts, self.watch_report)
