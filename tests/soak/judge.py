"""Looks on at everything that happens in a soaked cluster, and notes what must never happen.

Strategy: it listens to the objects themselves and to the calls that were accepted, not to what
our processes believe. What others did to a pod the updater may learn a moment later, and nobody
can help that a webhook goes away between an eviction and the next pod.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.model.errors import ClusterError
from app.model.pods import BOOST_KEY_PREFIX
from app.model.quantity import Quantity
from app.ports import CHECKPOINTS, PODS, VPAS, Json, Ref
from app.sandbox.objects import (
    Key,
    collection_of,
    condition_of,
    containers_of,
    controller_of,
    is_deleted,
    is_ready,
    labels_of,
    uid_of,
)
from app.sandbox.store import StoredChange
from tests.soak.cluster import BOOST_SECONDS, LEAST_REPLICAS, NAMESPACE, STEADY, SoakedCluster
from tests.soak.replicas import Replica
from tests.updater.stage import Call

_LEAST_REPLICAS: Final = 2  # of --min-replicas
_TOLERANCE: Final = 0.5  # of --eviction-tolerance
_LAG_SECONDS: Final = 2.0  # until the updater knows what others did
_ILL_SECONDS: Final = 30.0  # before an eviction in which the webhook may have been ill
_REPLACED_SECONDS: Final = 120.0
_LATE_SECONDS: Final = 300.0
_STEADY_SHARE: Final = 0.2
_SETTLED: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Lost:
    """A pod that was evicted, until another one stands in its place."""

    name: str
    sizes: Json
    at: float


class Judge:
    """Notes what happened, and what is wrong with it."""

    def __init__(self, cluster: SoakedCluster) -> None:
        self.cluster = cluster
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self._evicted: dict[str, deque[Lost]] = defaultdict(deque)  # by uid of the owner
        self._ours: dict[str, float] = {}  # uids of pods that we disturbed, and when
        self._losses: dict[str, deque[float]] = defaultdict(deque)  # by workload, due to others
        self._ill_at = float("-inf")  # when the webhook was ill last
        self._changed_at: dict[str, float] = {}  # VPAs, by name
        self._about: Json = {}  # the pod of the call that is made
        self._doing = ""  # its uid, until it is known to be ours or not
        self._looks: Final = {
            collection_of(PODS): self._pod,
            collection_of(VPAS): self._vpa,
            collection_of(CHECKPOINTS): self._checkpoint,
        }
        cluster.sandbox.store.listen(self._note)

    def watch(self, replica: Replica) -> None:
        """Look at the calls of a process that has just started."""
        calls = replica.runtime.accepted
        calls.before = self._before
        calls.after = lambda call: self._after(call, replica)

    def tend(self) -> None:
        """Note how the webhook is, and forget what is long over."""
        now = self.cluster.clock.monotonic()
        self._doing = ""
        if self.cluster.is_webhook_ill():
            self._ill_at = now
        for queue in self._evicted.values():
            while queue and now - queue[0].at > _REPLACED_SECONDS:
                queue.popleft()
        self._evicted = defaultdict(deque, {k: v for k, v in self._evicted.items() if v})
        self._ours = {k: at for k, at in self._ours.items() if now - at < _REPLACED_SECONDS}

    def blame(self, text: str) -> None:
        """Note what is wrong."""
        self.problems.append(f"{self.cluster.clock.now():%a %d %H:%M:%S} {text}")

    # --- calls of the updater

    def _before(self, call: Call) -> None:
        if call.verb == "evict" or call.subresource == "resize":
            self._about = self._pod_now(call.name)
            self._doing = self._about.get("metadata", {}).get("uid", "")

    def _pod_now(self, name: str) -> Json:
        try:
            return self.cluster.sandbox.cluster.get(Ref(PODS, NAMESPACE, name))
        except ClusterError:
            return {}

    def _after(self, call: Call, replica: Replica) -> None:
        replica.runtime.accepted.calls.clear()
        if call.verb == "evict":
            self._see_eviction(replica)
        elif call.subresource == "resize":
            self.counts["resizes"] += 1
            self._see_budget(replica)
            if _restarts(self._about, self._pod_now(call.name)):
                self._see_replicas()
            self._ours[uid_of(self._about)] = self.cluster.clock.monotonic()

    def _see_eviction(self, replica: Replica) -> None:
        pod, now = self._about, self.cluster.clock.monotonic()
        self.counts["evictions"] += 1
        if is_deleted(pod):
            self.blame(f"{pod['metadata']['name']} was evicted twice")
        self._ours[uid_of(pod)] = now
        owner = controller_of(pod)
        if owner is not None:
            lost = Lost(pod["metadata"]["name"], _sizes(pod), now)
            self._evicted[owner["uid"]].append(lost)
        self._see_budget(replica)
        self._see_replicas()

    def _see_budget(self, replica: Replica) -> None:
        """See that enough pods are left of a workload after one of them was disturbed."""
        workload, now = labels_of(self._about).get("app", ""), self.cluster.clock.monotonic()
        wanted = self._wanted(workload)
        if not wanted or not is_ready(self._about):
            return
        lag = _LAG_SECONDS + replica.runtime.unseen_seconds()
        others = sum(now - at <= lag for at in self._losses[workload])
        left = sum(map(is_ready, self.cluster.pods(workload)))
        least = wanted - max(int(wanted * _TOLERANCE), 1)
        name = self._about["metadata"]["name"]
        if left + others < least:
            self.blame(f"budget: {left} of {wanted} pods are ready after {name} was disturbed")

    def _see_replicas(self) -> None:
        """See that a pod that went, or of which a container restarts, was not of too few."""
        workload = labels_of(self._about).get("app", "")
        wanted = self._wanted(workload)
        if not wanted or not is_ready(self._about):
            return
        if wanted < LEAST_REPLICAS.get(workload, _LEAST_REPLICAS):
            name = self._about["metadata"]["name"]
            self.blame(f"minReplicas: {name} was disturbed, of {wanted}")

    def _wanted(self, workload: str) -> int:
        """Return how many pods a workload wants, 0 if it is gone."""
        for kind in ("deployments.apps", "statefulsets.apps"):
            for item in self.cluster.sandbox.store.items(kind, NAMESPACE):
                if item["metadata"]["name"] == workload:
                    return int(item["spec"]["replicas"])
        return 0

    # --- objects

    def _note(self, collection: str, change: StoredChange) -> None:
        look = self._looks.get(collection)
        if look is not None:
            look(change)

    def _pod(self, change: StoredChange) -> None:
        before, after = change.before, change.after
        if before is None and after is not None:
            self.counts["pods"] += 1
            self._replaced(after)
        if before is not None and is_ready(before) and not is_deleted(before):
            is_lost = after is None or is_deleted(after) or not is_ready(after)
            if is_lost and uid_of(before) not in {self._doing, *self._ours}:
                losses = self._losses[labels_of(before).get("app", "")]
                losses.append(self.cluster.clock.monotonic())
                while len(losses) > 1000:
                    losses.popleft()

    def _replaced(self, pod: Json) -> None:
        """Compare a new pod with the one that was evicted before it."""
        owner = controller_of(pod)
        waiting = self._evicted.get(owner["uid"]) if owner is not None else None
        if not waiting:
            return
        lost = waiting.popleft()
        if _sizes(pod) != lost.sizes:
            return
        workload = labels_of(pod).get("app", "")
        is_ill = self.cluster.is_webhook_ill() or lost.at - self._ill_at < _ILL_SECONDS
        if is_ill or self._changed_at.get(workload, 0.0) > lost.at - _LAG_SECONDS:
            self.counts["wasted while the webhook was ill or the VPA changed"] += 1
        else:
            self.blame(f"wasted: {pod['metadata']['name']} is no different from {lost.name}")

    def _vpa(self, change: StoredChange) -> None:
        before, after, name = change.before, change.after, change.key.name
        if before is None or after is None or before["spec"] != after["spec"]:
            self._changed_at[name] = self.cluster.clock.monotonic()
        if before is None or after is None:
            if after is None:
                self._changed_at[name] = self.cluster.clock.monotonic()
            return
        old, new = _targets(before), _targets(after)
        if old and not new:
            self.blame(f"history: VPA {name} recommends nothing any more")
        if name in STEADY and self._age(after) > _SETTLED:
            for key in old.keys() & new.keys():
                if abs(new[key] - old[key]) > _STEADY_SHARE * old[key]:
                    self.blame(f"history: {key} of {name} went from {old[key]} to {new[key]}")

    def _checkpoint(self, change: StoredChange) -> None:
        """See that history grows only; a VPA that lives keeps it."""
        before, after = change.before, change.after
        if before is None:
            return
        name, owner = change.key.name, str(before["spec"].get("vpaObjectName"))
        if after is None:
            if self.cluster.sandbox.store.read(collection_of(VPAS), Key(NAMESPACE, owner)):
                self.blame(f"history: checkpoint {name} was deleted, its VPA was not")
            return
        old, new = before.get("status") or {}, after.get("status") or {}
        counts = [found.get("totalSamplesCount", 0) for found in (old, new)]
        if counts[1] < counts[0]:
            self.blame(f"history: checkpoint {name} had {counts[0]} samples, has {counts[1]}")
        firsts = [found.get("firstSampleStart") or "" for found in (old, new)]
        if firsts[0] and firsts[1] > firsts[0]:
            self.blame(f"history: checkpoint {name} began {firsts[0]}, now {firsts[1]}")

    def _age(self, item: Json) -> timedelta:
        created = datetime.fromisoformat(item["metadata"]["creationTimestamp"])
        return self.cluster.clock.now() - created

    # --- how it stands

    def see_boosts(self, calm_seconds: float) -> None:
        """See that no pod is boosted long after its boost was over; all was well for a while."""
        if calm_seconds < _LATE_SECONDS:
            return
        for pod in self.cluster.sandbox.store.items(collection_of(PODS), NAMESPACE):
            ready = condition_of(pod, "Ready")
            if ready is None or ready.get("status") != "True" or is_deleted(pod):
                continue
            since = datetime.fromisoformat(ready["lastTransitionTime"])
            over = since + timedelta(seconds=BOOST_SECONDS + _LATE_SECONDS)
            annotations = pod["metadata"].get("annotations") or {}
            is_boosted = any(key.startswith(BOOST_KEY_PREFIX) for key in annotations)
            if is_boosted and over < self.cluster.clock.now():
                self.blame(f"boost: {pod['metadata']['name']} is boosted, Ready since {since}")


def _sizes(pod: Json) -> Json:
    """Return what the containers of a pod ask for."""
    return {
        container["name"]: container.get("resources") for _, container in containers_of(pod["spec"])
    }


def _restarts(before: Json, after: Json) -> bool:
    """Whether what changed between two states of a pod restarts one of its containers."""
    if not before or not after:
        return False
    now = {found["name"]: found for _, found in containers_of(after["spec"])}
    return any(
        policy["restartPolicy"] == "RestartContainer"
        and _asked(found, policy["resourceName"])
        != _asked(now[found["name"]], policy["resourceName"])
        for _, found in containers_of(before["spec"])
        for policy in found.get("resizePolicy") or ()
    )


def _asked(found: Json, resource: str) -> list[object]:
    """Return the amounts of a resource that a container has."""
    resources = found.get("resources") or {}
    return [(resources.get(part) or {}).get(resource) for part in ("requests", "limits")]


def _targets(vpa: Json) -> dict[str, float]:
    """Return what a VPA recommends, by container and resource."""
    told = (vpa.get("status") or {}).get("recommendation") or {}
    return {
        f"{one['containerName']}/{resource}": Quantity.parse(text).nano / 1e9
        for one in told.get("containerRecommendations") or ()
        for resource, text in one["target"].items()
    }
