"""What the kubelet knows of a pod that it runs, when it is ready, and how its status tells that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from app.model.quantity import Quantity
from app.ports import Json
from app.sandbox.load import Load
from app.sandbox.objects import Key, ObjectCondition, copied, set_condition, uid_of
from app.sandbox.resources import SIZED, Amounts, is_sidecar, quantities, total

STOP_SECONDS: Final = 1.0  # until a program has ended that was asked to
WAITING: Json = {"waiting": {"reason": "ContainerCreating"}}
PENDING = "PodResizePending"
IN_PROGRESS = "PodResizeInProgress"


@dataclass(slots=True)
class ContainerRun:
    """A container: what it may use, what it does, how it fares."""

    spec: Json
    load: Load
    allocated: Json  # requests and limits that the node has set aside
    who: int  # to its load
    actual: Json = field(default_factory=dict)  # those that the runtime applies
    cpu_limit: float = math.inf  # of those, in cores
    memory_limit: float = math.inf  # in bytes
    state: Json = field(default_factory=lambda: WAITING)
    last_state: Json = field(default_factory=dict)
    restarts: int = 0
    starts: int = 0  # tells one start from the next
    leads: bool = False  # by the Lease that its load names
    started_at: float = 0.0  # on the sandbox's clock
    useful_at: float = math.inf  # when its startup work is done
    is_ready: bool = False
    cpu_cores: float = 0.0
    cpu_core_seconds: float = 0.0  # since it started
    counted_at: float = 0.0  # up to when they are counted
    memory_bytes: float = 0.0
    tried: object = None  # what crashed last: image and resources
    pause_seconds: float = 0.0  # if that crashes again
    is_waiting_to_restart: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.spec["name"])

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return "running" in self.state

    def apply(self) -> None:
        """Let the runtime apply what is allocated."""
        self.actual = self.allocated
        self.cpu_limit, self.memory_limit = (self._limit(name) for name in SIZED)

    def _limit(self, resource: str) -> float:
        limit = (self.actual.get("limits") or {}).get(resource)
        return math.inf if limit is None else Quantity.read(limit).nano / 1e9


@dataclass(slots=True)
class Resizing:
    """A resize that is not done yet."""

    kind: str  # the type of its condition
    since: datetime
    generation: int
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class PodRun:
    """A pod on its node."""

    pod: Json  # as it was when last looked at
    node: str
    containers: dict[str, ContainerRun]
    started: str  # when the kubelet took it in
    observed_generation: int
    phase: str = "Pending"
    reason: str = ""  # why it failed as a whole
    message: str = ""
    is_stopping: bool = False
    pending: Resizing | None = None
    progress: Resizing | None = None
    rounds: int = 0  # of applying resources; only the last one counts
    is_disrupted: bool = False

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        metadata = self.pod["metadata"]
        return Key(metadata["namespace"], metadata["name"])

    @property
    def uid(self) -> str:
        """Its uid."""
        return uid_of(self.pod)

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests of users."""
        is_up = self.phase == "Running" and not self.is_stopping
        return is_up and all(container.is_ready for container in self.containers.values())

    def allocated(self) -> Amounts:
        """Return what the node has set aside for it."""
        return total(self.pod["spec"], self._allocated_to)

    def _allocated_to(self, container: Json) -> Amounts:
        run = self.containers.get(container["name"])
        resources = run.allocated if run else container.get("resources") or {}
        return quantities(resources.get("requests"))


def lasting(spec: Json) -> Iterator[Json]:
    """Yield the containers of a pod that run as long as it does."""
    yield from spec["containers"]
    yield from filter(is_sidecar, spec.get("initContainers") or ())


def sized(resources: Json | None) -> Json:
    """Return the requests and limits of a container, without what is not there."""
    found = resources or {}
    return {side: dict(found[side]) for side in ("requests", "limits") if found.get(side)}


def status_of(run: PodRun, old: Json, now: datetime) -> Json:
    """Return the status of a pod as its kubelet tells it."""
    draft: Json = {"status": copied(old)}
    status: Json = draft["status"]
    spec = run.pod["spec"]
    status |= {
        "phase": run.phase,
        "startTime": run.started,
        "hostIP": "127.0.0.1",
        "observedGeneration": run.observed_generation,
        "containerStatuses": [
            _container(run, run.containers[item["name"]]) for item in spec["containers"]
        ],
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [_init(run, item) for item in spec["initContainers"]]
    for key, text in (("reason", run.reason), ("message", run.message)):
        if text:
            status[key] = text
    for condition in _conditions(run):
        set_condition(draft, condition, now)
    _tell_resizing(draft, run)
    return status


def _conditions(run: PodRun) -> Iterator[ObjectCondition]:
    has_begun = run.phase != "Pending"
    yield ObjectCondition("PodReadyToStartContainers", "True")
    yield ObjectCondition("Initialized", "True" if has_begun else "False")
    unready = [one.name for one in run.containers.values() if not one.is_ready]
    is_ready = has_begun and not unready and not run.has_ended
    for kind in ("Ready", "ContainersReady"):
        if is_ready:
            yield ObjectCondition(kind, "True")
        elif run.has_ended:
            reason = "PodCompleted" if run.phase == "Succeeded" else "PodFailed"
            yield ObjectCondition(kind, "False", reason)
        else:
            message = f"containers with unready status: [{' '.join(unready)}]"
            yield ObjectCondition(kind, "False", "ContainersNotReady", message)
    if run.is_disrupted:
        yield ObjectCondition("DisruptionTarget", "True", "TerminationByKubelet", run.message)


def _tell_resizing(draft: Json, run: PodRun) -> None:
    """Conditions of a resize come and go; they are never False."""
    conditions = draft["status"]["conditions"]
    conditions[:] = [found for found in conditions if found["type"] not in (PENDING, IN_PROGRESS)]
    for resizing in (run.pending, run.progress):
        if resizing is not None:
            condition = ObjectCondition(resizing.kind, "True", resizing.reason, resizing.message)
            set_condition(draft, condition, resizing.since, observedGeneration=resizing.generation)


def _container(run: PodRun, container: ContainerRun) -> Json:
    status: Json = {
        "name": container.name,
        "state": container.state,
        "lastState": container.last_state,
        "ready": container.is_ready,
        "started": container.is_running,
        "restartCount": container.restarts,
        "image": container.spec.get("image", ""),
        "imageID": "",
        # What does not run is shown with what it will get.
        "resources": sized(container.actual if container.is_running else container.allocated),
    }
    if container.starts:
        status["containerID"] = f"sandbox://{run.uid}/{container.name}/{container.starts}"
    if container.allocated.get("requests"):
        status["allocatedResources"] = container.allocated["requests"]
    return status


def _init(run: PodRun, item: Json) -> Json:
    sidecar = run.containers.get(item["name"])
    if sidecar is not None:
        return _container(run, sidecar)
    has_begun = run.phase != "Pending"
    done = {"terminated": {"reason": "Completed", "exitCode": 0, "finishedAt": run.started}}
    return {
        "name": item["name"],
        "state": done if has_begun else WAITING,
        "lastState": {},
        "ready": has_begun,
        "restartCount": 0,
        "image": item.get("image", ""),
        "imageID": "",
    }


def next_probe(container: ContainerRun, now: float) -> float:
    """Return when, from now on, the probe is due that finds a container ready."""
    useful_at = container.useful_at
    startup, readiness = (container.spec.get(key) for key in ("startupProbe", "readinessProbe"))
    if startup is not None:
        useful_at = _due(startup, container.started_at, useful_at)
    if readiness is not None:
        return _due(readiness, container.started_at, max(useful_at, now))
    return max(useful_at, now) if startup is not None else now


def _due(probe: Json, started_at: float, earliest: float) -> float:
    """Return the first turn of a probe that is not before a moment."""
    first = started_at + float(probe.get("initialDelaySeconds") or 0)
    period = float(probe.get("periodSeconds") or 10)
    turns = max(math.ceil((earliest - first) / period - 1e-9), 0)
    return first + turns * period
