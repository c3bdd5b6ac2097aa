"""Workloads whose pods elect a leader by a Lease, and what an API server tells of them.

Strategy: each pod has a process of its own that really elects, and that can be killed alone. VPAs
begin with the history of days, so that they recommend at once, and so that it shows if it is lost.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final, NamedTuple

from app.kube.client import connect
from app.model.errors import ClusterError
from app.model.fields import Json
from app.model.quantity import Quantity
from app.model.role_leases import ROLE_LEASE_ANNOTATION, bearer
from app.model.times import rfc3339
from app.ports import CHECKPOINTS, LEASES, PODS, VPAS, EventType, Resource
from app.runtime.clock import SystemClock
from tests.acceptance.rights import allow, token
from tests.acceptance.space import APP, item_of, mode, selecting, vpa
from tests.acceptance.stage import LOAD, Stage
from tests.cluster.api import SERVICE_ACCOUNTS
from tests.cluster.programs import Program

ROLES: Final = ("leader", "follower")
REPLICAS: Final = 3
SAMPLES: Final = 8 * 24 * 60  # of a history
WEIGHT: Final = 1000.0
_ROOT: Final = Path(__file__).parents[2]
_ACCOUNT: Final = "electing"
_MAY: Final[Json] = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "verbs": ["get", "create", "update"],
}
_WATCHED_SECONDS: Final = 600
_DAY_SECONDS: Final = 86_400
_USAGE: Final = {
    "leader": "cpu: constant 400m, memory: constant 200Mi",
    "follower": "cpu: constant 100m, memory: constant 200Mi",
}
_BUCKETS: Final = {"leader": "22", "follower": "8"}  # of histograms, for so much cpu
_MEMORY_BUCKET: Final = "14"


class Electing:
    """A workload, whose name is that of its Lease too, and the processes in its pods."""

    def __init__(self, stage: Stage, folder: Path, name: str = APP) -> None:
        self.stage, self.name = stage, name
        self._folder = folder
        self._programs: dict[str, Program] = {}  # by pod

    # --- what is put on the stage

    def size(self, word: str = "InPlaceOrRecreate", *, kind: str = "Deployment") -> None:
        """Create the VPAs of leader and followers, each with a history."""
        for role in ROLES:
            self.stage.space.create(_history(self.vpa(role), role))
            self.stage.space.create(vpa_of(self.name, role, word, kind=kind))
        told = f"both VPAs of {self.name} recommend"
        self.stage.eventually(lambda: all(map(self.target, ROLES)), told)

    def start(self, kind: str = "Deployment") -> None:
        """Create the workload, and wait until its pods are ready."""
        load = {LOAD: _USAGE["follower"]}
        self.stage.start(kind=kind, replicas=REPLICAS, annotations=load, name=self.name)

    def elect(self) -> str:
        """Let all pods elect; return the one that leads."""
        for pod in self.stage.pods(self.name):
            self.run(pod["metadata"]["name"])
        return self.next()

    def run(self, pod: str) -> None:
        """Start the process of a pod, for the first time or again."""
        words = (str(self._folder / "kubeconfig"), self.stage.space.name, self.name, pod)
        command = [sys.executable, "-m", "tests.acceptance.elector", *words]
        environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_ROOT)}
        program = Program(f"elector of {pod}", command, self._folder / f"{pod}.log", environment)
        program.start()
        self._programs[pod] = program

    def kill(self, pod: str) -> None:
        """Kill the process of a pod without a word; what is dead uses nothing."""
        self._programs.pop(pod).kill()
        self._uses(pod, "follower")

    def close(self) -> None:
        """End all processes."""
        for program in self._programs.values():
            program.kill()

    def _uses(self, pod: str, role: str) -> None:
        change = {"metadata": {"annotations": {LOAD: _USAGE[role]}}}
        self.stage.admin.merge(PODS, self.stage.space.name, pod, change)

    # --- what is seen

    def vpa(self, role: str) -> str:
        """Return the name of a VPA."""
        return f"{self.name}-{role}"

    def target(self, role: str) -> int:
        """Return what a VPA recommends; 0 before it does."""
        found = self.stage.admin.get(VPAS, self.stage.space.name, self.vpa(role))
        return target_of(found)

    def history(self, role: str) -> Json:
        """Return what the checkpoint of a VPA holds."""
        name = f"{self.vpa(role)}-{APP}"
        found: Json = self.stage.admin.get(CHECKPOINTS, self.stage.space.name, name)["status"]
        return found

    def sizes(self) -> dict[str, str]:
        """Return by pod whether it has a leader's size, or one for followers."""
        middle = sum(map(self.target, ROLES)) / 2
        return {
            pod["metadata"]["name"]: ROLES[cpu_of(pod) < middle]
            for pod in self.stage.pods(self.name)
        }

    def holder(self) -> str:
        """Return the pod whose process holds the Lease, empty if there is none."""
        for pod, program in self._programs.items():
            assert program.exit_code is None, f"{pod} ended:\n{program.tail()}"
        found = self.stage.admin.find(LEASES, self.stage.space.name, self.name)
        return holder_of(found or {})

    def role(self, pod: str) -> str:
        """Return what the recommender says of the role of a pod, and why."""
        path = f"/v1/namespaces/{self.stage.space.name}/pods/{pod}"
        headers = {"Authorization": f"Bearer {self.stage.admin.token}"}
        return str(json.loads(self.stage.recommender.page(path, headers)).get("role"))

    def unknown(self) -> str:
        """Return the reason for which it is not known who leads, empty if it is."""
        found = self.stage.admin.get(VPAS, self.stage.space.name, self.vpa("leader"))
        conditions = found.get("status", {}).get("conditions") or ()
        return "".join(one["reason"] for one in conditions if one["type"] == "RoleUnknown")

    # --- what is waited for

    def next(self, before: str = "") -> str:
        """Return who leads in the place of another, as soon as somebody does."""
        wanted = f"another pod of {self.name} leads than {before or 'none'}"
        self.stage.eventually(lambda: self.holder() not in ("", before), wanted)
        leader = self.holder()
        self._uses(leader, "leader")
        return leader

    def settles(self, leader: str) -> None:
        """Return when one pod alone has a leader's size."""

        def look() -> bool:
            found = self.sizes()
            expected = {pod: ROLES[pod != leader] for pod in found}
            assert found == expected, f"{found} in the place of {expected}"
            return len(found) == REPLICAS

        self.stage.eventually(look, f"{leader or 'none'} alone is large")

    def fail_over(self) -> str:
        """Kill the process that leads; return the next one's pod; the first one runs again."""
        leader = self.holder()
        self.kill(leader)
        found = self.next(leader)
        self.run(leader)
        return found


@contextmanager
def electing(stage: Stage, *names: str) -> Iterator[list[Electing]]:
    """Give workloads that can elect, and whose processes end in the end."""
    place = stage.space.name
    stage.space.create(item_of(SERVICE_ACCOUNTS, _ACCOUNT))
    allow(stage.admin, place, _ACCOUNT, _MAY, {"name": _ACCOUNT, "namespace": place})
    with TemporaryDirectory(prefix="plumbline-") as name:
        folder = Path(name)
        text = token(stage.admin, place, _ACCOUNT)
        stage.cluster.access.kubeconfig(folder / "kubeconfig", text)
        found = [Electing(stage, folder, name) for name in names or (APP,)]
        try:
            yield found
        finally:
            for one in found:
                one.close()


class Change(NamedTuple):
    """Something about an object that became another one."""

    seconds: float  # of the clock that never runs backwards
    name: str
    value: object  # None of what was deleted


@contextmanager
def changes(
    stage: Stage, resource: Resource, value: Callable[[Json], object]
) -> Iterator[list[Change]]:
    """Give a list that grows whenever a value of an object changes, as the API server tells it."""
    seen: dict[str, object] = {}
    found: list[Change] = []
    place, cluster = stage.space.name, connect(stage.cluster.kubeconfig)
    listed = cluster.list(resource, place)
    seen.update({one["metadata"]["name"]: value(one) for one in listed.items})
    events = cluster.watch(
        resource,
        place,
        resource_version=listed.resource_version,
        timeout_seconds=_WATCHED_SECONDS,
    )

    def read() -> None:
        with suppress(ClusterError):
            for event in events:
                now = time.monotonic()
                if event.change is EventType.BOOKMARK:
                    continue
                name, is_gone = event.object["metadata"]["name"], event.change is EventType.DELETED
                became = None if is_gone else value(event.object)
                if seen.get(name) != became:
                    seen[name] = became
                    found.append(Change(now, name, became))

    reader = Thread(target=read)
    reader.start()
    try:
        yield found
    finally:
        cluster.close()
        reader.join()


def vpa_of(workload: str, role: str, word: str = "Off", *, kind: str = "Deployment") -> Json:
    """Return the VPA of a role in a mode."""
    spec = {**mode(word), **selecting(role=role)}
    found = vpa(f"{workload}-{role}", kind=kind, target=workload, **spec)
    found["metadata"]["annotations"] = {ROLE_LEASE_ANNOTATION: f"role={workload}"}
    return found


def _history(name: str, role: str) -> Json:
    """Return the checkpoint of a VPA whose pods have done the same for days."""
    now = SystemClock().now()
    day = rfc3339(now.replace(hour=0, minute=0, second=0, microsecond=0))
    buckets = {"cpu": _BUCKETS[role], "memory": _MEMORY_BUCKET}
    histograms = {
        f"{resource}Histogram": {
            "referenceTimestamp": day,
            "bucketWeights": {bucket: 10_000},
            "totalWeight": WEIGHT,
        }
        for resource, bucket in buckets.items()
    }
    status = {
        "version": "v3",
        "firstSampleStart": rfc3339(now.fromtimestamp(now.timestamp() - SAMPLES * 60, now.tzinfo)),
        "lastSampleStart": rfc3339(now),
        "lastUpdateTime": rfc3339(now),
        "totalSamplesCount": SAMPLES,
        **histograms,
    }
    spec = {"vpaObjectName": name, "containerName": APP}
    return item_of(CHECKPOINTS, f"{name}-{APP}", spec=spec, status=status)


def holder_of(lease: Json) -> str:
    """Return the pod whose process holds a Lease, empty if there is none."""
    return bearer((lease.get("spec") or {}).get("holderIdentity") or "")


def cpu_of(pod: Json) -> int:
    """Return what a pod requests, in millicores."""
    (container,) = pod["spec"]["containers"]
    return Quantity.read(container["resources"]["requests"]["cpu"]).milli


def target_of(found: Json) -> int:
    """Return what a VPA recommends, in millicores; 0 if nothing."""
    told = (found.get("status") or {}).get("recommendation") or {}
    for one in told.get("containerRecommendations") or ():
        return Quantity.read(one["target"]["cpu"]).milli
    return 0
