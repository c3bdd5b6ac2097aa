"""A small world for the updater's properties: owners, pods, a kubelet, a watch that may lag.

Strategy: the world knows the truth, the updater sees what the watch shows. Pods go down only
because of the updater, so whatever is down beyond what tolerance allows is its fault. A step of
the world is small and chosen from outside; who chooses decides how calls and changes interleave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from app.model.errors import ClusterError, Invalid, TooMany, Unavailable
from app.model.patches import apply, merge
from app.model.snapshot import Snapshot
from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep
from app.updater.core.decisions import Action
from app.updater.core.memory import Memory, after_absence
from app.updater.core.outcomes import Outcome, learn
from app.updater.core.patching import UNBOOST_PENDING_ANNOTATION, annotation_patch, resize_patch
from app.updater.core.plan import Plan, plan
from app.updater.core.rules import UpdateRules
from tests import make
from tests.make import ALL_GATES
from tests.updater.core.scenes import NOW, container

Json = make.Json
BOOST = "vpaCpuStartupBoost/app"
ERRORS: tuple[ClusterError | None, ...] = (
    None,
    None,
    None,
    TooMany("no", causes=(("DisruptionBudget", "no"),)),
    Unavailable("deadline"),
    Invalid("never"),
)


@dataclass
class Owner:
    """A StatefulSet and how its pods are made."""

    name: str
    mode: str
    replicas: int
    target: str  # what is recommended, as cpu
    size: str  # what its pods request at first
    restarts: bool = False
    boosts: bool = False


@dataclass
class World:
    """The truth about a cluster of one namespace."""

    owners: list[Owner]
    rules: UpdateRules
    webhook_works: bool = True
    now: datetime = NOW
    count: int = 0
    pods: dict[str, Json] = field(default_factory=dict)
    shown: Snapshot = field(default_factory=Snapshot)
    memory: Memory = field(default_factory=lambda: after_absence(Memory()))
    evicted: list[Json] = field(default_factory=list)

    def __post_init__(self) -> None:
        for owner in self.owners:
            for _ in range(owner.replicas):
                self._create(owner, owner.size, ready=True)
        self.watch()

    # --- what the cluster does

    def _create(self, owner: Owner, cpu: str, *, ready: bool) -> None:
        self.count += 1
        resize = {"cpu": "RestartContainer"} if owner.restarts else None
        annotations = {BOOST: '{"requests":{"cpu":"100m"},"limits":{}}'} if owner.boosts else None
        cpu = f"{make.quantity(cpu).milli * 3}m" if owner.boosts else cpu
        pod = make.pod_json(
            container("app", cpu, resize=resize),
            name=f"{owner.name}-{self.count}",
            owner=f"StatefulSet/{owner.name}",
            labels={"app": owner.name},
            annotations=annotations,
        )
        pod["metadata"]["resourceVersion"] = str(self.count)
        self.pods[pod["metadata"]["name"]] = make.running_json(
            pod, started=self.now, ready_since=self.now if ready else None
        )

    def replace_missing(self) -> None:
        """Let the controllers replace what is gone, through the webhook if it works."""
        for owner in self.owners:
            for _ in range(owner.replicas - len(self._of(owner))):
                self._create(owner, owner.target if self.webhook_works else owner.size, ready=False)

    def get_ready(self, position: int) -> None:
        """Let one pod that is not ready get ready, with the size that it asks for."""
        unready = [pod for pod in self.pods.values() if not _is_ready(pod)]
        if not unready:
            return
        pod = unready[position % len(unready)]
        spec = {"metadata": pod["metadata"], "spec": pod["spec"]} | {
            key: pod[key] for key in ("apiVersion", "kind")
        }
        self._store(make.running_json(spec, started=NOW, ready_since=self.now))

    def settle_resizes(self) -> None:
        """Let the kubelet carry out what is asked for; what restarts gets unready for a while."""
        for pod in list(self.pods.values()):
            asked = pod["spec"]["containers"][0]["resources"]
            status = pod["status"]["containerStatuses"][0]
            if status["resources"] != asked:
                status = status | {"resources": asked}
                self._store(pod | {"status": pod["status"] | {"containerStatuses": [status]}})

    def _store(self, pod: Json) -> None:
        metadata = pod["metadata"] | {"resourceVersion": str(self.count)}
        self.count += 1
        self.pods[metadata["name"]] = pod | {"metadata": metadata}

    def _of(self, owner: Owner) -> list[Json]:
        return [
            pod
            for pod in self.pods.values()
            if pod["metadata"]["ownerReferences"][0]["name"] == owner.name
        ]

    def ready(self, owner: Owner) -> int:
        """Return how many pods of an owner are ready."""
        return sum(map(_is_ready, self._of(owner)))

    # --- what the updater sees and does

    def watch(self) -> None:
        """Let the watch show the truth."""
        objects: list[Json] = list(self.pods.values())
        for owner in self.owners:
            objects.append(
                make.workload_json(
                    f"StatefulSet/{owner.name}", replicas=owner.replicas, labels={"app": owner.name}
                )
            )
            amount = {"cpu": owner.target}
            objects.append(
                make.vpa_json(
                    owner.name,
                    target=f"StatefulSet/{owner.name}",
                    mode=owner.mode,
                    boost=make.boost_json(factor=3) if owner.boosts else None,
                    recommendations=[
                        make.recommendation_json(cpu=owner.target, lower=amount, upper=amount)
                    ],
                )
            )
        self.shown = make.snapshot(*objects)

    def plan(self) -> Plan:
        """Return what would be done now."""
        return plan(self.shown, self.rules, ALL_GATES, self.memory, self.now)

    def forget(self) -> None:
        """Restart the updater: it lists anew and remembers nothing."""
        self.memory = after_absence(Memory())
        self.watch()

    def carry_out(self, answers: Iterator[int], between: Callable[[], None]) -> None:
        """Carry out a plan, call by call; something may happen between two calls."""
        found = self.plan()
        outcomes: list[Outcome] = []
        for queue in found.queues:
            walk = QueueCursor(queue)
            while (step := walk.next()) is not None:
                outcomes += self._call(queue, step, walk, answers)
                between()
        self.memory = learn(found.memory, outcomes, self.rules)

    def _call(
        self, queue: ActionQueue, step: QueueStep, walk: QueueCursor, answers: Iterator[int]
    ) -> Iterator[Outcome]:
        error = self._answer(step, next(answers, 0))
        action = step.decision.action
        if error is None:
            self._accept(step, action)
        else:
            walk.came_to_nothing(step)
        yield Outcome(queue, step, self.now, error)
        if isinstance(error, Invalid):
            walk.evict_later(step)

    def _answer(self, step: QueueStep, number: int) -> ClusterError | None:
        pod = self.pods.get(step.pod.name)
        if pod is None or pod["metadata"]["uid"] != step.pod.uid:
            return Unavailable("the pod is gone")
        error = ERRORS[number % len(ERRORS)]
        is_eviction = step.decision.action is Action.EVICT
        return None if is_eviction and isinstance(error, Invalid) else error

    def _accept(self, step: QueueStep, action: Action) -> None:
        pod = self.pods[step.pod.name]
        if action is Action.EVICT:
            self.evicted.append(pod)
            del self.pods[step.pod.name]
            return
        change = step.decision.change
        assert change is not None
        patched = apply(pod, resize_patch(step.pod, change))
        patched = merge(patched, annotation_patch(step.pod, change))
        if change.is_disruptive:
            conditions = [{"type": "Ready", "status": "False"}]
            patched["status"] = patched["status"] | {"conditions": conditions}
        self._store(patched)


def _is_ready(pod: Json) -> bool:
    return any(
        item["type"] == "Ready" and item["status"] == "True" for item in pod["status"]["conditions"]
    )


def is_being_brought_back(pod: Json) -> bool:
    """Whether a pod carries the mark of an end of its boost that was tried."""
    return any(
        key.startswith(UNBOOST_PENDING_ANNOTATION)
        for key in pod["metadata"].get("annotations") or {}
    )
