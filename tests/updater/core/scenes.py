"""Scenes for the updater's tests: pods that run, an owner, a VPA, and what is planned for them.

Strategy: everything is said in the shortest words that a table of cases can hold. `"100m/200Mi"`
is cpu and memory; a missing part is written as `-`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from app.model.fields import Json
from app.model.gates import FeatureGates
from app.model.pods import Pod, read_pod
from app.model.snapshot import Snapshot
from app.updater.core.decisions import Action, ContainerChange, Decision, Reason
from app.updater.core.memory import Memory
from app.updater.core.plan import DEFAULT_OPTIONS, Plan, PlanOptions, plan
from app.updater.core.rules import Prove, UpdateRules
from tests import make
from tests.make import ALL_GATES

OURS = UpdateRules()
UNPROVEN = UpdateRules(prove=Prove.OFF)  # evicts at once, as nearly every case supposes
NOW = make.NOW
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

RESIZED = (Action.RESIZE, Reason.OUTSIDE_BOUNDS)
EVICTED = (Action.EVICT, Reason.OUTSIDE_BOUNDS)
TOO_FEW = (Action.WAIT, Reason.TOO_FEW_REPLICAS)
NO_SLOT = (Action.WAIT, Reason.BUDGET_EXHAUSTED)
IN_PROGRESS = (Action.WAIT, Reason.RESIZE_IN_PROGRESS)
DEFERRED = (Action.WAIT, Reason.RESIZE_DEFERRED)
REMEMBERED = (Action.WAIT, Reason.INFEASIBLE_REMEMBERED)


def amounts(text: str) -> dict[str, str]:
    """Read `cpu/memory`."""
    cpu, _, memory = text.partition("/")
    return {
        name: word for name, word in (("cpu", cpu), ("memory", memory)) if word not in ("", "-")
    }


def container(
    name: str = "app",
    requests: str = "-",
    limits: str = "-",
    resize: Mapping[str, str] | None = None,
) -> Json:
    """Return a container with requests and limits as `cpu/memory`."""
    has, may = amounts(requests), amounts(limits)
    return make.container_json(
        name,
        cpu=has.get("cpu"),
        memory=has.get("memory"),
        cpu_limit=may.get("cpu"),
        memory_limit=may.get("memory"),
        resize=resize,
    )


def sidecar(name: str, requests: str = "-", limits: str = "-") -> Json:
    """Return a native sidecar."""
    return container(name, requests, limits) | {"restartPolicy": "Always"}


def recommended(text: str, container_name: str = "app") -> Json:
    """Read `target`, `target = =` (bounds as the target) or `target lower upper`."""
    target, *bounds = text.split()
    lower, upper = [target if word == "=" else word for word in bounds] or (None, None)
    has = amounts(target)
    return make.recommendation_json(
        container_name,
        cpu=has.get("cpu"),
        memory=has.get("memory"),
        lower=None if lower is None else amounts(lower),
        upper=None if upper is None else amounts(upper),
    )


def running(
    *containers: Json,
    name: str = "web-0",
    age: timedelta = timedelta(days=1),
    ready: bool = True,
    conditions: Sequence[Json] = (),
    spec: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] = make.LABELS,
    owner: str | None = "StatefulSet/web",
    init: Sequence[Json] | None = None,
) -> Json:
    """Return a pod that runs; conditions stand behind Ready."""
    pod = make.pod_json(
        *containers,
        name=name,
        annotations=annotations,
        spec=spec,
        labels=labels,
        owner=owner,
        init=init,
    )
    found = make.running_json(pod, started=age, ready_since=age if ready else None)
    found["status"]["conditions"] += list(conditions)
    found["status"] |= dict(status or {})
    return found


def pending(pod: Json) -> Json:
    """Return the pod as one that has a node but does not run yet."""
    status = {"phase": "Pending", "startTime": pod["status"].get("startTime")}
    return pod | {"status": status}


def unscheduled(pod: Json) -> Json:
    """Return the pod as one that no node takes."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return pod | {"spec": spec, "status": {"phase": "Pending"}}


def with_status(pod: Json, container_name: str, **members: object) -> Json:
    """Return the pod with members of one container's status replaced."""
    statuses = [
        item | members if item["name"] == container_name else item
        for item in pod["status"]["containerStatuses"]
    ]
    return pod | {"status": pod["status"] | {"containerStatuses": statuses}}


def killed(
    pod: Json,
    *,
    lived: timedelta = timedelta(minutes=2),
    ago: timedelta = timedelta(),
    where: str = "lastState",
    container_name: str = "app",
    reason: str = "OOMKilled",
) -> Json:
    """Return the pod after a container was killed so long ago, having lived so long."""
    end = {
        "reason": reason,
        "exitCode": 137,
        "startedAt": make.time(ago + lived),
        "finishedAt": make.time(ago),
    }
    return with_status(pod, container_name, **{where: {"terminated": end}})


def resize_condition(kind: str, reason: str = "", message: str = "", ago: float = 0) -> Json:
    """Return a resize condition; `kind` is Pending or InProgress, `ago` in seconds."""
    return {
        "type": f"PodResize{kind}",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": make.time(timedelta(seconds=ago)),
    }


@dataclass(frozen=True)
class Scene:
    """Pods of one owner, their VPA, and what holds around them."""

    pods: Sequence[Json]
    recommendation: Sequence[Json] = field(default_factory=lambda: [recommended("200m/200Mi = =")])
    mode: str | None = "Recreate"
    replicas: int | None = None  # as many as there are pods
    owner: Json | None = None
    min_replicas: int | None = None
    vpa: Mapping[str, Any] = field(default_factory=dict)  # further arguments of make.vpa_json
    others: Sequence[Json] = ()
    rules: UpdateRules = UNPROVEN
    gates: FeatureGates = ALL_GATES
    memory: Memory = field(default_factory=Memory)
    now: datetime = NOW
    whole: Snapshot | None = None  # instead of what is made of all this

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the scene."""
        if self.whole is not None:
            return self.whole
        replicas = len(self.pods) if self.replicas is None else self.replicas
        owner = self.owner or make.workload_json(replicas=replicas)
        arguments: Json = {
            "mode": self.mode,
            "min_replicas": self.min_replicas,
            "recommendations": list(self.recommendation),
        } | dict(self.vpa)
        return make.snapshot(*self.pods, owner, make.vpa_json(**arguments), *self.others)

    def plan(self, around: PlanOptions = DEFAULT_OPTIONS) -> Plan:
        """Return the plan for the scene."""
        return plan(self.snapshot(), self.rules, self.gates, self.memory, self.now, around)

    def decisions(self, around: PlanOptions = DEFAULT_OPTIONS) -> dict[str, Decision]:
        """Return the decisions by pod."""
        found = {decision.pod: decision for decision in self.plan(around).decisions}
        assert sorted(found) == sorted(pod["metadata"]["name"] for pod in self.pods)
        return found

    def decision(self, around: PlanOptions = DEFAULT_OPTIONS) -> Decision:
        """Return the decision about the first pod."""
        return self.decisions(around)[self.pods[0]["metadata"]["name"]]

    def told(self, around: PlanOptions = DEFAULT_OPTIONS) -> tuple[Action, Reason]:
        """Return action and reason for the first pod."""
        found = self.decision(around)
        return found.action, found.reason

    def count(self, action: Action) -> int:
        """Return for how many pods an action is planned."""
        return sum(found.action is action for found in self.plan().decisions)


def with_metadata(pod: Json, **members: object) -> Json:
    """Return the pod with members of its metadata replaced."""
    return pod | {"metadata": pod["metadata"] | members}


def named(pod: Json, name: str) -> Json:
    """Return the same pod under another name."""
    return with_metadata(pod, name=name, uid=f"uid-{name}")


def terminating(pod: Json) -> Json:
    """Return the pod on its way out."""
    return with_metadata(pod, deletionTimestamp=make.time(timedelta()))


def several(pod: Json, count: int) -> list[Json]:
    """Return so many pods like this one."""
    return [named(pod, f"web-{number}") for number in range(count)]


def read(pod: Json) -> Pod:
    """Read a pod."""
    return read_pod(pod)


def sizes(changes: Iterable[ContainerChange]) -> dict[str, str]:
    """Return what changes write, such as `app.requests.cpu`."""
    return {
        f"{change.container}.{word}.{name}": str(amount)
        for change in changes
        for word, amounts_ in (("requests", change.requests), ("limits", change.limits))
        for name, amount in amounts_.items()
    }


def written(found: Decision) -> dict[str, str]:
    """Return the sizes that a decision writes."""
    return sizes(found.change.containers if found.change is not None else ())


def annotated(found: Decision) -> dict[str, str | None]:
    """Return the annotations that a decision writes, None for those it removes."""
    return dict(found.change.annotations if found.change is not None else ())
