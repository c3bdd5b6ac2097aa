"""The recommender's method in the plainest words, one object at a time.

Strategy: no arrays, no short cuts, nothing remembered that could be computed. What the model
does to a million containers at once must come out the same here, sample by sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from app.recommender.core.histograms import BUCKETS, CPU_GRID, MEMORY_GRID, Grid, exp2

DAY = 86_400.0
EPSILON = 0.0001
MI = 2**20
MOST = 10**14

Labels = Mapping[str, str]
Amounts = dict[str, tuple[int, int, int]]  # target, lower, upper by resource


class Histogram:
    """Weights of buckets that halve every day; times are seconds since 1970."""

    def __init__(self, grid: Grid, first: float, unit: float) -> None:
        self.grid, self.first, self.unit = grid, first, unit
        self.weights = [0.0] * BUCKETS
        self.total = 0.0
        self.reference: float | None = None

    def bucket(self, amount: int) -> int:
        """Return the bucket of an amount."""
        value = amount / self.unit
        if value < self.first:
            return 0
        steps = math.log(value * (1.05 - 1) / self.first + 1) / math.log(1.05)
        return min(BUCKETS - 1, int(steps))

    def factor(self, time: float) -> float:
        """Return by how much a sample of a time counts."""
        if self.reference is None:
            self.reference = math.floor(time / DAY + 0.5) * DAY
        return float(exp2(np.array([(time - self.reference) / DAY]))[0])

    def add(self, amount: int, weight: float, time: float) -> None:
        """Add a sample."""
        weight *= self.factor(time)
        self.weights[self.bucket(amount)] += weight
        self.total += weight

    def subtract(self, amount: int, weight: float, time: float) -> None:
        """Take a sample away."""
        weight *= self.factor(time)
        bucket = self.bucket(amount)
        self.weights[bucket] -= weight
        self.total -= weight
        if self.weights[bucket] < EPSILON:
            self.weights[bucket] = 0.0
        if self.total < EPSILON:
            self.total = 0.0

    def percentile(self, fraction: float) -> int:
        """Return the end of the bucket where a share of the weight is reached."""
        filled = [bucket for bucket in range(BUCKETS) if self.weights[bucket] >= EPSILON]
        if not filled:
            return 0
        reached = 0.0
        for bucket in range(filled[0], filled[-1] + 1):
            reached += self.weights[bucket]
            if reached >= fraction * self.total:
                break
        return int(self.grid.ends[bucket])

    def stored(self) -> Histogram:
        """Return what is left after a checkpoint was written and read."""
        found = Histogram(self.grid, self.first, self.unit)
        heaviest = max(self.weights)
        if heaviest < EPSILON:
            return found
        parts = [math.floor(weight * (10000 / heaviest) + 0.5) for weight in self.weights]
        found.weights = [float(part) * (self.total / sum(parts)) for part in parts]
        found.total, found.reference = self.total, self.reference
        return found


@dataclass
class Window:
    """The running memory interval of a container, as far as one row is concerned."""

    end: float | None = None
    usage: int = 0
    oom: int = 0


@dataclass
class Row:
    """History of a container of a VPA."""

    cpu: Histogram = field(default_factory=lambda: Histogram(CPU_GRID, 0.01, 1000.0))
    memory: Histogram = field(default_factory=lambda: Histogram(MEMORY_GRID, 1e7, 1.0))
    times: list[float] = field(default_factory=list)  # first and last
    count: int = 0
    windows: dict[str, Window] = field(default_factory=dict)  # by pod
    alive: float = 0.0  # when a container of this name was last alive, or sampled

    def use_memory(self, pod: str, amount: int, time: float, *, is_oom: bool) -> None:
        """Take an observation of one pod's container."""
        window = self.windows.setdefault(pod, Window())
        old = None
        if window.end is not None and time < window.end:
            old = max(window.usage, window.oom)
        else:
            start = time if window.end is None else window.end
            window.end = start + math.floor((time - start) / DAY) * DAY + DAY
            window.usage = window.oom = 0
        if is_oom:
            window.oom = max(window.oom, amount)
        else:
            window.usage = max(window.usage, amount)
        if old is None or amount > old:
            if old is not None:
                self.memory.subtract(old, 1.0, window.end)
            self.memory.add(amount, 1.0, window.end)


@dataclass
class Pod:
    """A pod, its labels since when, and what was counted of it."""

    labels: Labels
    before: list[tuple[float, Labels]] = field(default_factory=list)  # until when, which
    containers: tuple[str, ...] = ("app",)
    last_cpu: dict[str, float] = field(default_factory=dict)
    last_memory: dict[str, float] = field(default_factory=dict)
    killed: dict[str, tuple[float, int]] = field(default_factory=dict)  # time and request

    def labels_at(self, time: float) -> Labels:
        """Return the labels at a time; two changes are remembered."""
        for until, labels in self.before[-2:]:
            if time < until:
                return labels
        return self.labels


def _more(used: int) -> int:
    return max(used + 100 * MI, int(used * 1.2))


class Reference:
    """VPAs that select by labels, and the pods of one workload."""

    def __init__(self, vpas: Mapping[str, Labels]) -> None:
        self.vpas = vpas
        self.pods: dict[str, Pod] = {}
        self.rows: dict[tuple[str, str], Row] = {}
        self.kills: set[tuple[str, str, float]] = set()

    def members(self, labels: Labels) -> list[str]:
        """Return the VPAs that select these labels."""
        return [
            name for name, wanted in self.vpas.items() if wanted.items() <= dict(labels).items()
        ]

    def see(self, name: str, labels: Labels, containers: tuple[str, ...], now: float) -> None:
        """Take a pod as it is now."""
        pod = self.pods.get(name)
        if pod is None:
            pod = self.pods[name] = Pod(labels, containers=containers)
        elif pod.labels != labels:
            self.move(name, pod, labels, now)
        for vpa in self.members(labels):
            for container in containers:
                self.rows.setdefault((vpa, container), Row())

    def move(self, name: str, pod: Pod, labels: Labels, now: float) -> None:
        """Take a pod with other labels; a row it comes back to later than a day begins again."""
        self.touch(now)
        left, joined = self.members(pod.labels), self.members(labels)
        if left != joined:
            pod.before.append((now, pod.labels))
        pod.labels = labels
        for (vpa, _), row in self.rows.items():
            if vpa in joined and vpa not in left and name in row.windows:
                end = row.windows[name].end
                if end is not None and end <= now:
                    del row.windows[name]

    def lose(self, name: str, now: float) -> None:
        """Take a pod away."""
        self.touch(now)
        del self.pods[name]
        for row in self.rows.values():
            row.windows.pop(name, None)

    def touch(self, now: float) -> None:
        """Note which containers are alive."""
        for pod in self.pods.values():
            for vpa in self.members(pod.labels):
                for container in pod.containers:
                    row = self.rows[vpa, container]
                    row.alive = max(row.alive, now)

    def use(
        self, name: str, container: str, cpu: int | None, memory: int | None, time: float
    ) -> None:
        """Take one sample, averaged over half a minute; None is not known."""
        pod = self.pods[name]
        rows = [self.rows[vpa, container] for vpa in self.members(pod.labels_at(time))]
        if cpu is not None and time > pod.last_cpu.get(container, -math.inf):
            pod.last_cpu[container] = time
            if not any(time - 30 < until < time for until, _ in pod.before[-2:]):
                for row in rows:
                    row.alive = max(row.alive, time)
                    row.cpu.add(cpu, 0.1, time)
                    row.times = [min([*row.times, time]), max([*row.times, time])]
                    row.count += 1
        if memory is not None and time >= pod.last_memory.get(container, -math.inf):
            pod.last_memory[container] = time
            for row in rows:
                row.alive = max(row.alive, time)
                row.use_memory(name, memory, time, is_oom=False)
            killed, request = pod.killed.get(container, (-math.inf, 0))
            if time <= killed:
                self._ask(name, container, request, killed)

    def kill(self, name: str, container: str, request: int, time: float, now: float) -> None:
        """Take an OOM kill."""
        pod = self.pods[name]
        late = time < pod.last_memory.get(container, now) - DAY
        if late or (name, container, time) in self.kills:
            return
        if self._ask(name, container, request, time, builds_up=True):
            pod.killed[container] = max(pod.killed.get(container, (time, request)), (time, request))
            self.kills.add((name, container, time))

    def _ask(
        self, name: str, container: str, request: int, time: float, *, builds_up: bool = False
    ) -> int:
        """Raise the peaks of whatever a pod belonged to; return how many rows that were."""
        vpas = self.members(self.pods[name].labels_at(time))
        for row in [self.rows[vpa, container] for vpa in vpas]:
            window = row.windows.get(name, Window())
            used = max(request, window.usage)
            needed = _more(used)
            if builds_up:
                oom = window.oom if time < (window.end or time) else 0
                needed = max(needed, min(_more(max(used, oom)), 2 * used))
            row.use_memory(name, needed, time, is_oom=True)
            row.alive = max(row.alive, time)
        return len(vpas)

    def restart(self, now: float) -> None:
        """Lose everything that a checkpoint does not tell."""
        for key, row in list(self.rows.items()):
            sampled = row.times[1] if row.times else now
            fresh = Row(row.cpu.stored(), times=row.times, count=row.count, alive=sampled)
            open_ones = {
                pod: window for pod, window in row.windows.items() if (window.end or 0) > now
            }
            for window in open_ones.values():
                row.memory.subtract(max(window.usage, window.oom), 1.0, window.end or 0)
            fresh.memory = row.memory.stored()
            for window in open_ones.values():
                fresh.memory.add(max(window.usage, window.oom), 1.0, window.end or 0)
            fresh.windows = open_ones
            self.rows[key] = fresh
        for pod in self.pods.values():
            pod.before = []
            pod.last_cpu, pod.last_memory, pod.killed = {}, {}, {}

    def recommend(self, vpa: str, now: float) -> dict[str, Amounts]:
        """Return what the containers of a VPA should get."""
        self.touch(now)
        rows = {container: row for (name, container), row in self.rows.items() if name == vpa}
        lives = any(name == vpa for pod in self.pods.values() for name in self.members(pod.labels))
        rows = {name: row for name, row in rows.items() if not lives or now - row.alive < DAY}
        return {
            name: amounts
            for name, row in rows.items()
            if (amounts := self._amounts(row, len(rows)))
        }

    def _amounts(self, row: Row, containers: int) -> Amounts:
        confidence = 0.0
        if row.times:
            confidence = min((row.times[1] - row.times[0]) / DAY, row.count / 1440)
        found: Amounts = {}
        for resource, histogram, minimum in (
            ("cpu", row.cpu, 25),
            ("memory", row.memory, 250 * MI),
        ):
            if histogram.total:
                floor = int(minimum * (1 / containers))
                found[resource] = (
                    max(self._margin(histogram, 0.9), floor),
                    max(self._lower(histogram, confidence), floor),
                    max(self._upper(histogram, confidence), floor),
                )
        return found

    def _margin(self, histogram: Histogram, fraction: float) -> int:
        base = histogram.percentile(fraction)
        return base + int(base * 0.15)

    def _lower(self, histogram: Histogram, confidence: float) -> int:
        base = self._margin(histogram, 0.5)
        return int(base * (1 / (1 + 0.001 / confidence) ** 2)) if confidence else 0

    def _upper(self, histogram: Histogram, confidence: float) -> int:
        base = self._margin(histogram, 0.95)
        if not base:
            return 0
        return min(int(base * (1 + 1 / confidence)), MOST) if confidence else MOST
