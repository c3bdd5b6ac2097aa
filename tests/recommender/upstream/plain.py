"""Upstream's way in the plainest words, one object at a time.

Strategy: every list and dictionary is what its name says, nothing is shared with the model but
the grid. What is told between two loops waits for the next one. Times are seconds since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.recommender.core.histograms import BUCKETS, CPU_GRID, MEMORY_GRID, Grid

DAY = 86_400.0
EPSILON = 0.0001
MI = 2**20
MOST = 10**14
YEAR_ONE = -62_135_596_800.0

Labels = Mapping[str, str]
Amounts = dict[str, tuple[int, int, int]]  # target, lower, upper by resource


class Histogram:
    """Weights, and the first and last bucket that count as filled."""

    def __init__(self, grid: Grid, first: float, unit: float) -> None:
        self.grid, self.first_size, self.unit = grid, first, unit
        self.weights = [0.0] * BUCKETS
        self.total = 0.0
        self.least, self.most = BUCKETS - 1, 0
        self.reference = YEAR_ONE

    def bucket(self, amount: int) -> int:
        """Return the bucket of an amount."""
        value = amount / self.unit
        if value < self.first_size:
            return 0
        steps = math.log(value * (1.05 - 1) / self.first_size + 1) / math.log(1.05)
        return min(BUCKETS - 1, int(steps))

    def shift(self, time: float) -> None:
        """Move the reference to the midnight that is nearest to a time."""
        reference = math.floor(time / DAY + 0.5) * DAY
        exponent = math.floor(max((self.reference - reference) / DAY, -106_752.0) + 0.5)
        for bucket in range(self.least, self.most + 1):
            self.weights[bucket] *= 2.0**exponent
        self.total *= 2.0**exponent
        self.reference = reference
        self.trim()

    def trim(self) -> None:
        """Leave out the buckets at both ends that weigh too little."""
        while self.least < BUCKETS - 1 and self.weights[self.least] < EPSILON:
            self.least += 1
        while self.most > 0 and self.weights[self.most] < EPSILON:
            self.most -= 1

    def factor(self, time: float) -> float:
        """Return by how much a sample of a time counts."""
        if time > self.reference + 100 * DAY:
            self.shift(time)
        return float(2.0 ** ((time - self.reference) / DAY))

    def add(self, amount: int, weight: float, time: float) -> None:
        """Add a sample."""
        weight *= self.factor(time)
        bucket = self.bucket(amount)
        self.weights[bucket] += weight
        self.total += weight
        if self.weights[bucket] >= EPSILON:
            self.least, self.most = min(self.least, bucket), max(self.most, bucket)

    def subtract(self, amount: int, weight: float, time: float) -> None:
        """Take a sample away, be it there or not."""
        weight *= self.factor(time)
        bucket = self.bucket(amount)
        self.total = self.total - weight if self.total - weight >= EPSILON else 0.0
        left = self.weights[bucket] - weight
        self.weights[bucket] = left if left >= EPSILON else 0.0
        self.trim()

    def merge(self, other: Histogram) -> None:
        """Take in another one; the older of the two is shifted for good."""
        if self.reference < other.reference:
            self.shift(other.reference)
        elif other.reference < self.reference:
            other.shift(self.reference)
        for bucket in range(other.least, other.most + 1):
            self.weights[bucket] += other.weights[bucket]
        self.total += other.total
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)

    def percentile(self, fraction: float) -> int:
        """Return the end of the bucket where a share of the weight is reached."""
        if self.weights[self.least] < EPSILON:
            return 0
        reached, bucket = 0.0, self.least
        while bucket < self.most:
            reached += self.weights[bucket]
            if reached >= fraction * self.total:
                break
            bucket += 1
        return int(self.grid.ends[bucket])

    def stored(self) -> dict[int, int]:
        """Return the weights as a checkpoint holds them."""
        span = range(self.least, self.most + 1)
        heaviest = max((self.weights[bucket] for bucket in span), default=0.0)
        parts = {at: math.floor(self.weights[at] * (10000 / heaviest) + 0.5) for at in span}
        return {bucket: part for bucket, part in parts.items() if part}

    def read_again(self) -> None:
        """Become what is read from one's own checkpoint."""
        parts = self.stored()
        ratio = self.total / sum(parts.values()) if parts else 0.0
        self.weights = [parts.get(bucket, 0) * ratio for bucket in range(BUCKETS)]
        self.least, self.most = min(parts, default=BUCKETS - 1), max(parts, default=0)
        if not parts:
            self.total = 0.0
        self.trim()


@dataclass
class Aggregate:
    """Usage of containers of one name in pods with the same labels."""

    created: float
    cpu: Histogram = field(default_factory=lambda: Histogram(CPU_GRID, 0.01, 1000.0))
    memory: Histogram = field(default_factory=lambda: Histogram(MEMORY_GRID, 1e7, 1.0))
    first: float = YEAR_ONE
    last: float = YEAR_ONE
    count: int = 0

    def merge(self, other: Aggregate) -> None:
        """Take in another one."""
        self.cpu.merge(other.cpu)
        self.memory.merge(other.memory)
        if self.first == YEAR_ONE or YEAR_ONE < other.first < self.first:
            self.first = other.first
        self.last = max(self.last, other.last)
        self.count += other.count


@dataclass
class Container:
    """A container of a pod, and its running interval."""

    held: Aggregate | None = None  # since its pod changed its labels
    last_cpu: float = -math.inf
    last_memory: float = -math.inf
    end: float | None = None
    usage: int = 0
    oom: int = 0


@dataclass
class Pod:
    """A pod as the last loop saw it."""

    labels: Labels
    phase: str = "Running"
    containers: dict[str, Container] = field(default_factory=dict)


@dataclass
class Vpa:
    """A VPA as the last loop saw it; without labels its target is not found."""

    labels: Labels | None
    initial: dict[str, Aggregate] = field(default_factory=dict)

    def selects(self, labels: Labels) -> bool:
        """Whether pods with such labels are its own."""
        return self.labels is not None and self.labels.items() <= labels.items()


class Plain:
    """VPAs and pods of one namespace."""

    def __init__(self) -> None:
        self.shown: dict[str, Labels | None] = {}  # VPAs as they are
        self.present: dict[str, tuple[Labels, str, tuple[str, ...]]] = {}  # pods as they are
        self.vpas: dict[str, Vpa] = {}
        self.pods: dict[str, Pod] = {}
        self.aggregates: dict[tuple[tuple[tuple[str, str], ...], str], Aggregate] = {}
        self.used: list[tuple[str, str, int, int, float]] = []
        self.kills: list[tuple[str, str, int, float]] = []
        self.collected = -math.inf
        self.now = 0.0

    def aggregate(self, labels: Labels, container: str) -> Aggregate:
        """Return what pods with these labels feed."""
        key = (tuple(sorted(labels.items())), container)
        return self.aggregates.setdefault(key, Aggregate(self.now))

    def fed(self, pod: Pod, name: str) -> Aggregate:
        """Return what a container feeds."""
        held = pod.containers[name].held
        return held if held is not None else self.aggregate(pod.labels, name)

    def loop(self, now: float) -> dict[str, dict[str, Amounts]]:
        """Go through one loop; return what each VPA recommends for each container."""
        self.now = now
        self.load_vpas()
        gone = self.load_pods()
        for name, container, cpu, memory, time in self.used:
            if name in self.pods and container in self.pods[name].containers:
                self.use(self.pods[name], container, cpu, memory, time)
        for name, container, request, time in self.kills:
            if name in self.pods and container in self.pods[name].containers:
                self.kill(self.pods[name], container, request, time)
        self.used, self.kills = [], []
        for name in gone:
            del self.pods[name]
        return {name: self.recommend(vpa) for name, vpa in self.vpas.items()}

    def load_vpas(self) -> None:
        """Take the VPAs as they are; one whose selector changed begins anew."""
        for name, labels in self.shown.items():
            if name not in self.vpas or (self.vpas[name].labels or {}) != (labels or {}):
                self.vpas[name] = Vpa(labels)
        for name in self.vpas.keys() - self.shown.keys():
            del self.vpas[name]

    def load_pods(self) -> list[str]:
        """Take the pods as they are; return those that went."""
        for name, (labels, phase, containers) in self.present.items():
            pod = self.pods.setdefault(name, Pod(labels))
            pod.phase = phase
            if pod.labels != labels:
                pod.labels = labels
                for container, state in pod.containers.items():
                    state.held = self.aggregate(labels, container)
            for container in containers:
                if container not in pod.containers:
                    pod.containers[container] = Container()
                    self.aggregate(labels, container)
        return [name for name in self.pods if name not in self.present]

    def use(self, pod: Pod, name: str, cpu: int, memory: int, time: float) -> None:
        """Count a sample."""
        container = pod.containers[name]
        if time > container.last_cpu:
            container.last_cpu = time
            found = self.fed(pod, name)
            found.cpu.add(cpu, 0.1, time)
            found.first = time if found.first == YEAR_ONE else min(found.first, time)
            found.last = max(found.last, time)
            found.count += 1
        if time >= container.last_memory:
            self.use_memory(pod, name, memory, time, is_oom=False)

    def use_memory(self, pod: Pod, name: str, amount: int, time: float, *, is_oom: bool) -> None:
        """Count memory."""
        container = pod.containers[name]
        container.last_memory = time
        end = time if container.end is None else container.end
        if time < end:
            old = max(container.usage, container.oom)
            if not 0 < old < amount:
                return
            self.fed(pod, name).memory.subtract(old, 1.0, end)
        else:
            end += math.floor((time - end) / DAY) * DAY + DAY
            container.usage = container.oom = 0
        container.end = end
        self.fed(pod, name).memory.add(amount, 1.0, end)
        if is_oom:
            container.oom = amount
        else:
            container.usage = amount

    def kill(self, pod: Pod, name: str, request: int, time: float) -> None:
        """Count a kill."""
        container = pod.containers[name]
        if time < container.last_memory - DAY:
            return
        used = max(request, container.usage)
        self.use_memory(pod, name, max(used + 100 * MI, int(used * 1.2)), time, is_oom=True)

    def view(self, vpa: Vpa) -> dict[str, Aggregate]:
        """Return all that a VPA knows, those that know nothing last."""
        found: dict[str, Aggregate] = {}
        linked = [
            (key[1], one) for key, one in self.aggregates.items() if vpa.selects(dict(key[0]))
        ]
        unset = {
            id(one): (one.cpu.reference == YEAR_ONE) + (one.memory.reference == YEAR_ONE)
            for _, one in linked
        }
        linked.sort(key=lambda link: unset[id(link[1])])
        for name, one in [*linked, *vpa.initial.items()]:
            found.setdefault(name, Aggregate(self.now)).merge(one)
        return found

    def checkpoints(self, now: float) -> dict[tuple[str, str], Aggregate]:
        """Return what each VPA stores for each container."""
        self.now = now
        found: dict[tuple[str, str], Aggregate] = {}
        for vpa_name, vpa in self.vpas.items():
            view = self.view(vpa)
            for name, container in self.feeding(vpa):
                if container.end is not None and now < container.end:
                    peak = max(container.usage, container.oom)
                    view[name].memory.subtract(peak, 1.0, container.end)
            found |= {(vpa_name, name): state for name, state in view.items()}
        return found

    def feeding(self, vpa: Vpa) -> list[tuple[str, Container]]:
        """Return the containers whose aggregates a VPA looks at, each with its name."""
        return [
            (name, container)
            for pod in self.pods.values()
            if vpa.selects(pod.labels)
            for name, container in pod.containers.items()
            if (tuple(sorted(pod.labels.items())), name) in self.aggregates
        ]

    def collect(self) -> None:
        """Drop what nobody needs, once an hour."""
        if self.now - self.collected < 3600:
            return
        self.collected = self.now
        fed = {
            (tuple(sorted(pod.labels.items())), name)
            for pod in self.pods.values()
            if pod.phase == "Running" or any(v.selects(pod.labels) for v in self.vpas.values())
            for name in pod.containers
        }
        for key, one in list(self.aggregates.items()):
            since = one.last if one.count else one.created
            if (key not in fed and not one.count) or self.now - since >= 8 * DAY:
                del self.aggregates[key]

    def restarted(self, now: float) -> Plain:
        """Return what a new process knows that reads the checkpoints."""
        fresh = Plain()
        fresh.shown, fresh.present, fresh.now = self.shown, self.present, now
        fresh.load_vpas()
        for (vpa, name), state in self.checkpoints(now).items():
            state.cpu.read_again()
            state.memory.read_again()
            state.first, state.last = math.floor(state.first), math.floor(state.last)
            if vpa in fresh.vpas:
                fresh.vpas[vpa].initial[name] = state
        return fresh

    def recommend(self, vpa: Vpa) -> dict[str, Amounts]:
        """Return what the containers of a VPA should get."""
        view = self.view(vpa)
        return {name: self.amounts(state, len(view)) for name, state in view.items()}

    def amounts(self, state: Aggregate, containers: int) -> Amounts:
        """Return what one container should get."""
        confidence = min((state.last - state.first) / DAY, state.count / 1440)
        found: Amounts = {}
        for resource, histogram, minimum in (
            ("cpu", state.cpu, 25),
            ("memory", state.memory, 250 * MI),
        ):
            floor = int(minimum * (1.0 / containers))
            bases = [histogram.percentile(fraction) for fraction in (0.9, 0.5, 0.95)]
            target, lower, upper = (base + int(base * 0.15) for base in bases)
            if confidence:
                closer = 1 + 0.001 / confidence
                lower = int(lower * (1 / (closer * closer)))
                upper = min(int(upper * (1 + 1 / confidence)), MOST)
            else:
                lower, upper = 0, MOST if upper else 0
            found[resource] = (max(target, floor), max(lower, floor), max(upper, floor))
        return found
