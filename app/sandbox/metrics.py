"""The answers of metrics.k8s.io, as a metrics-server gives them.

Strategy: what containers have used is read every 15 seconds; two readings of one run of a
container give a sample. As with the real one, a pod of which a container was restarted is first
listed without it and then, for one turn, not at all: no sample is never a sample of nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from app.model.times import rfc3339
from app.ports import POD_METRICS, Json, ListPage
from app.sandbox.kubelet.kubelet import Kubelet
from app.sandbox.kubelet.runs import ContainerRun
from app.sandbox.objects import Key
from app.sandbox.refusals import not_found
from app.sandbox.stepped_clock import SteppedClock
from app.sandbox.store import selection

WINDOW_SECONDS = 15.0

# What is measured hardly ever comes again, so it is not remembered as other quantities are.
_CPU_UNITS = ((10**9, ""), (10**6, "m"), (10**3, "u"), (1, "n"))
_MEMORY_UNITS = ((2**20, "Gi"), (2**10, "Mi"), (1, "Ki"))
_COLLECTION = "podmetrics.metrics.k8s.io"


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a container had used at a turn."""

    starts: int
    core_seconds: float
    read_at: float
    turns: int = 1  # that this run of the container was seen
    cores: float = 0.0  # since the turn before
    memory_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class _Sample:
    """A pod that is listed this turn."""

    pod: Json
    readings: tuple[tuple[str, _Reading], ...]  # by container


class PodMetrics:
    """The samples of the latest turn."""

    def __init__(self, kubelet: Kubelet, clock: SteppedClock) -> None:
        self._kubelet = kubelet
        self._clock = clock
        self._readings: dict[tuple[str, str], _Reading] = {}  # by uid and container
        self._samples: dict[Key, _Sample] = {}
        self._read_at = clock.now()
        self._calls = 0
        clock.call_later(WINDOW_SECONDS, self._turn)

    def list(self, namespace: str, label_selector: str, field_selector: str) -> ListPage:
        """Return the samples of the pods that are selected."""
        matches = selection(_COLLECTION, label_selector, field_selector)
        self._calls += 1
        found = [
            self._item(sample)
            for key, sample in sorted(self._samples.items(), key=itemgetter(0))
            if namespace in ("", key.namespace) and matches(sample.pod)
        ]
        return ListPage(found, "")

    def get(self, key: Key) -> Json:
        """Return the samples of one pod."""
        sample = self._samples.get(key)
        if sample is None:
            raise not_found(_COLLECTION, f"{key.namespace}/{key.name}")
        return self._item(sample)

    def _item(self, sample: _Sample) -> Json:
        metadata = sample.pod["metadata"]
        moment = rfc3339(self._read_at)
        # The order of containers means nothing, and shows that it does not.
        turn = self._calls % len(sample.readings)
        return {
            "kind": POD_METRICS.kind,
            "apiVersion": POD_METRICS.api_version,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "labels": dict(metadata.get("labels") or {}),
                "creationTimestamp": moment,
            },
            "timestamp": moment,
            "window": f"{WINDOW_SECONDS:.3f}s",
            "containers": [
                {
                    "name": name,
                    "usage": {
                        "cpu": _written(int(reading.cores * 1e9), _CPU_UNITS),
                        "memory": _written(int(reading.memory_bytes) // 1024, _MEMORY_UNITS),
                    },
                }
                for name, reading in sample.readings[turn:] + sample.readings[:turn]
            ],
        }

    def _turn(self) -> None:
        self._clock.call_later(WINDOW_SECONDS, self._turn)
        now = self._clock.monotonic()
        readings: dict[tuple[str, str], _Reading] = {}
        samples: dict[Key, _Sample] = {}
        for run in self._kubelet.runs():
            shown: list[tuple[str, _Reading]] = []
            is_hidden = False
            for container in run.containers.values():
                if not container.is_running:
                    continue
                place = (run.uid, container.name)
                reading = readings[place] = _read(container, self._readings.get(place), now)
                is_hidden = is_hidden or reading.turns == (2 if reading.starts > 1 else 1)
                if reading.turns > 1:
                    shown.append((container.name, reading))
            if shown and not is_hidden:
                samples[run.key] = _Sample(run.pod, tuple(shown))
        self._readings, self._samples, self._read_at = readings, samples, self._clock.now()


def _read(container: ContainerRun, before: _Reading | None, now: float) -> _Reading:
    used = container.cpu_core_seconds + container.cpu_cores * (now - container.counted_at)
    if before is None or before.starts != container.starts:
        return _Reading(container.starts, used, now)
    return _Reading(
        container.starts,
        used,
        now,
        before.turns + 1,
        (used - before.core_seconds) / (now - before.read_at),
        container.memory_bytes,
    )


def _written(amount: int, units: Sequence[tuple[int, str]]) -> str:
    """Write an amount in the largest unit that leaves it whole."""
    if not amount:
        return "0"
    return next(f"{amount // size}{unit}" for size, unit in units if amount % size == 0)
