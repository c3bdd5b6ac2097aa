"""Random stories of small clusters: usage, kills, pods that come and go, restarts.

Strategy: one seed is one story, in the files that `plumbline replay` reads. Rare things are made
frequent: samples that come late or twice, gaps, new labels, changed policies, evictions, restarts
at odd moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from app.model.fields import Json

START: Final = datetime(2000, 1, 1, tzinfo=UTC)  # when the clock of upstream's side begins
TICK: Final = timedelta(minutes=1)
_NAMESPACE: Final = "shop"
_CONTAINERS: Final = ("app", "side", "x")
_MIB: Final = 1 << 20
_PER_VPA: Final = {
    "oomBumpUpRatio": "1.5",
    "oomMinBumpUp": "200Mi",
    "memoryAggregationIntervalSeconds": 3600,
    "memoryAggregationIntervalCount": 3,
}


@dataclass
class Story:
    """A cluster, what happens to it, and when its state is compared."""

    seed: int
    objects: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        random = self._random = Random(self.seed)
        hours = random.choice((1, 2, 3, 6, 26, 50))
        self._step = 60 if hours <= 6 else random.choice((300, 600))  # seconds between samples
        self.until = START + timedelta(hours=hours)
        self._apps = ("a", "b", "c")[: random.choice((1, 1, 2, 3))]
        self._containers = {app: _CONTAINERS[: random.choice((1, 2, 2, 3))] for app in self._apps}
        self._usual = {
            (app, name): (random.choice((5, 50, 300, 2000)), random.choice((20, 100, 400, 3000)))
            for app in self._apps
            for name in self._containers[app]
        }
        self._pods: dict[str, str] = {}  # and what each is of
        self._born = 0
        self._last: dict[tuple[str, str], datetime] = {}
        self._restarted = START  # ticks count from here
        self._begin()
        self._go_on()
        every = timedelta(minutes=random.choice((7, 20, 59)))
        count = int((self.until - START) / every)
        self.moments = [moment(START + every * index) for index in range(1, count + 1)]
        self.moments.append(moment(self.until))

    def _begin(self) -> None:
        for app in self._apps:
            self.objects.append(
                _object("apps/v1", "Deployment", app, {"selector": {"matchLabels": {"app": app}}})
            )
            if self._random.random() < 0.9:
                self.objects.append(self._vpa(app))
            for _ in range(self._random.choice((1, 2, 3))):
                self.objects.append(self._new_pod(app))

    def _go_on(self) -> None:
        now = START
        while now < self.until:
            now += timedelta(seconds=self._step)
            self.events += [*self._usage(now), *self._kills(now), *self._changes(now)]
            self.events += self._restarts(now)
        self.events.sort(key=lambda event: str(event["time"]))

    # --- what happens

    def _usage(self, now: datetime) -> Iterator[Json]:
        random = self._random
        for pod, app in self._pods.items():
            for name in self._containers[app]:
                if random.random() < 0.05:
                    continue
                cpu, memory = self._usual[app, name]
                event = _event(now - timedelta(seconds=random.choice((0, 1, 20))), "usage")
                event |= {"namespace": _NAMESPACE, "pod": pod, "container": name}
                if random.random() < 0.97:
                    event["cpu"] = f"{int(cpu * random.lognormvariate(0, 0.5))}m"
                if random.random() < 0.97 or "cpu" not in event:
                    event["memory"] = str(int(memory * random.lognormvariate(0, 0.2) * _MIB))
                if random.random() < 0.9:
                    self._last[pod, name] = self._measured(now, (pod, name))
                    event["timestamp"] = moment(self._last[pod, name])
                yield event

    def _measured(self, now: datetime, at: tuple[str, str]) -> datetime:
        chance = self._random.random()
        if chance < 0.03:
            return now - timedelta(hours=self._random.choice((1, 25)))
        if chance < 0.05 and at in self._last:
            return self._last[at]
        return now - timedelta(seconds=self._random.choice((5, 15, 30)))

    def _kills(self, now: datetime) -> Iterator[Json]:
        random = self._random
        for pod, app in self._pods.items():
            name = random.choice(self._containers[app])
            if random.random() < 0.004 * self._step / 60:
                yield _event(now - timedelta(seconds=25), "oom") | {
                    "namespace": _NAMESPACE,
                    "pod": pod,
                    "container": name,
                    "memory": random.choice(("100Mi", "1Gi", "2500Mi")),
                    "finishedAt": moment(now - timedelta(seconds=random.choice((26, 40, 90)))),
                }
            if random.random() < 0.003:
                yield _applied(now - timedelta(seconds=33), self._eviction(now, pod, name))

    def _changes(self, now: datetime) -> Iterator[Json]:
        random, at = self._random, now - timedelta(seconds=22)
        if random.random() > 0.01:
            return
        pod = random.choice(list(self._pods))
        app = self._pods[pod]
        match random.choice(("labels", "pod", "pod", "VPA", "VPA", "VPA gone")):
            case "labels":
                yield _applied(at, self._pod(app, pod, {"role": random.choice(("x", "y"))}))
            case "pod":
                yield _deleted(at, "Pod", pod)
                del self._pods[pod]
                yield _applied(at, self._new_pod(app))
            case "VPA":
                yield _applied(at, self._vpa(app, random.randint(2, 9)))
            case "VPA gone":
                yield _deleted(at, "VerticalPodAutoscaler", app)

    def _restarts(self, now: datetime) -> Iterator[Json]:
        """Yield restarts: with a tick, halfway between two writes of checkpoints, in any second.

        There are more of them soon after the first samples, and some come twice in a row.
        """
        random, is_early = self._random, now <= START + timedelta(seconds=3 * self._step)
        if random.random() > (0.2 if is_early else 0.006):
            return
        begin, seconds = now - timedelta(seconds=self._step), random.randint(1, self._step)
        tick = self._restarted + max(1, (begin - self._restarted) // TICK) * TICK
        at = random.choice((tick, tick + TICK / 2, begin + timedelta(seconds=seconds)))
        yield _event(at, "restart")
        if random.random() < 0.3:
            at += timedelta(seconds=random.choice((0, 1, 30, 60, 61)))
            yield _event(at, "restart")
        self._restarted = max(self._restarted, at)

    # --- what there is

    def _new_pod(self, app: str) -> Json:
        name = f"{app}-{self._born}"
        self._born += 1
        self._pods[name] = app
        return self._pod(app, name)

    def _pod(self, app: str, name: str, labels: Json | None = None) -> Json:
        random = self._random
        spec: Json = {"containers": []}
        for container in self._containers[app]:
            requests = {
                "cpu": random.choice(("100m", "1")),
                "memory": random.choice(("100Mi", "500Mi", "1Gi")),
            }
            resources = {"requests": requests} if random.random() < 0.8 else {}
            spec["containers"].append({"name": container, "resources": resources})
        if random.random() < 0.1:
            spec["initContainers"] = [{"name": "init"}]
        found = _object("v1", "Pod", name, spec) | {"status": {"phase": "Running"}}
        found["metadata"]["labels"] = {"app": app, **(labels or {})}
        return found

    def _vpa(self, app: str, generation: int = 1) -> Json:
        random = self._random
        spec: Json = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app}}
        if random.random() < 0.3:
            spec["updatePolicy"] = {"updateMode": random.choice(("Off", "Initial", "Recreate"))}
        if random.random() < 0.6:
            names = random.sample((*_CONTAINERS, "*"), random.choice((1, 1, 2)))
            spec["resourcePolicy"] = {"containerPolicies": list(map(self._policy, names))}
        found = _object("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", app, spec)
        found["metadata"] |= {
            "generation": generation,
            "creationTimestamp": moment(START - timedelta(days=1)),
        }
        return found

    def _policy(self, name: str) -> Json:
        random = self._random
        choices: dict[str, tuple[float, tuple[object, ...]]] = {
            "mode": (0.25, ("Off", "Auto")),
            "minAllowed": (0.3, ({"cpu": "10m", "memory": "1Gi"}, {"cpu": "1", "memory": "100Mi"})),
            "maxAllowed": (0.3, ({"cpu": "30m", "memory": "2Gi"}, {"cpu": "2", "memory": "300Mi"})),
            "controlledResources": (0.4, (["cpu"], ["memory"], ["cpu", "memory"], [], [])),
        }
        policy: Json = {"containerName": name}
        for key, (chance, values) in choices.items():
            if random.random() < chance:
                policy[key] = random.choice(values)
        policy |= {key: value for key, value in _PER_VPA.items() if random.random() < 0.15}
        return policy

    def _eviction(self, now: datetime, pod: str, container: str) -> Json:
        random, at = self._random, now - timedelta(seconds=33)
        name = f"{pod}.{random.getrandbits(40):x}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": name,
                "namespace": _NAMESPACE,
                "creationTimestamp": moment(at),
                "annotations": {
                    "offending_containers": container,
                    "offending_containers_usage": random.choice(("700Mi", "3Gi", "123456789")),
                    "starved_resource": random.choice(("memory", "memory", "memory", "cpu")),
                },
            },
            "reason": "Evicted",
            "involvedObject": {"kind": "Pod", "namespace": _NAMESPACE, "name": pod},
        }


def moment(at: datetime) -> str:
    """Return a moment as events have it."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _object(api_version: str, kind: str, name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": _NAMESPACE, "uid": f"{kind}-{name}"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _event(at: datetime, kind: str) -> Json:
    return {"time": moment(at), "type": kind}


def _applied(at: datetime, found: Json) -> Json:
    return _event(at, "apply") | {"object": found}


def _deleted(at: datetime, kind: str, name: str) -> Json:
    gone = {"kind": kind, "namespace": _NAMESPACE, "name": name}
    return _event(at, "delete") | {"object": gone}
