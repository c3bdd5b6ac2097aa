"""Usage of containers in columns: read from `metrics.k8s.io` and external metrics, or of the past.

Strategy: reading is the only code that runs once per container and tick, so it is plain loops over
parsed JSON. What cannot be read costs itself alone: one amount, one container, one pod. Values of
external metrics become items as `metrics.k8s.io` lists them, so from there on everything is the
same; each value is an item of its own, with its own time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from app.model.errors import BadObject
from app.model.fields import Json, Object, labels_at, object_at, objects_at, text_at, time_at
from app.model.pods import Pod
from app.model.quantity import Quantity
from app.model.times import parse_duration
from app.recommender.core.estimation import MOST
from app.recommender.core.histograms import Amounts, Spans, Times
from app.recommender.core.moments import nanoseconds, span
from app.recommender.core.rules import CPU, MEMORY
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.tracked import OVER

ABSENT: Final = -1  # no amount of this resource is given
REFUSED: Final = -2  # an amount is given, but cannot be

ContainerKey = tuple[str, str, str]  # namespace, pod, container

_GREATEST: Final = 2**62
_NANO_PER_MILLI: Final = 10**6
_MOST_DIGITS: Final = 18
_KI_DIGITS: Final = 4
_REMEMBERED: Final = 65_536
_SHOWN: Final = 40  # characters of an amount


@dataclass(frozen=True, slots=True, eq=False)
class UsageBatch:
    """Usage samples in columns; those of one container may repeat."""

    containers: Sequence[tuple[str, str, str]]  # namespace, pod, container
    cpu_millicores: Amounts  # or ABSENT or REFUSED
    memory_bytes: Amounts  # or ABSENT or REFUSED
    times: Times  # the end of the window that was measured
    windows_ns: Spans  # over how long cpu usage is averaged; 0 if not known
    unreadable: int = 0  # pods and containers that are not among them
    problems: Sequence[str] = ()  # sentences about what is left out

    def __len__(self) -> int:
        return len(self.containers)

    @staticmethod
    def of(samples: Sequence[tuple[tuple[str, str, str], int, int, int, int]]) -> UsageBatch:
        """Lay samples out in columns: container, cpu, memory, time, window."""
        containers = [sample[0] for sample in samples]
        table = np.array([sample[1:] for sample in samples], dtype=np.int64).reshape(-1, 4)
        return UsageBatch(containers, table[:, 0], table[:, 1], table[:, 2], table[:, 3])


@dataclass(frozen=True, slots=True, eq=False)
class PastUsage:
    """What containers used, also those of pods that are gone."""

    labels: Mapping[tuple[str, str], Mapping[str, str]]  # by namespace and pod, as they were last
    containers: Sequence[ContainerKey]  # each once
    times: Times  # of the columns, the oldest first
    cpu_millicores: Amounts  # a line for each container, or ABSENT
    memory_bytes: Amounts  # likewise
    window_ns: int = 0  # over how long CPU usage is averaged; 0 if not known
    stands_for: float = 1.0  # so many samples of live usage as each amount takes the place of
    refused_series: int = 0  # could not be read
    refused_points: int = 0


@dataclass(slots=True)
class _Columns:
    most: float  # greater amounts cannot be
    containers: list[tuple[str, str, str]] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unreadable: int = 0

    def refuse(self, item: Object, error: BadObject) -> None:
        """Leave out what cannot be read."""
        self.problems.append(f"metrics of pod {_name(item)}: {error}")
        self.unreadable += 1


def read_metrics(
    body: Object, most: float = MOST, *, skipped: SkippedObjects | None = None
) -> UsageBatch:
    """Read `items` of a PodMetricsList; greater amounts than the most cannot be."""
    columns = _Columns(most)
    skipped = skipped or SkippedObjects()
    for item in objects_at(body, "items", ""):
        with skipped.guard("usage", item, name=_name):
            try:
                _read_pod(item, columns)
            except BadObject as error:
                columns.refuse(item, error)
    return UsageBatch(
        columns.containers,
        np.array(columns.cpu, dtype=np.int64),
        np.array(columns.memory, dtype=np.int64),
        np.array(columns.times, dtype=np.int64),
        np.array(columns.windows, dtype=np.int64),
        columns.unreadable,
        columns.problems,
    )


def _read_pod(item: Object, columns: _Columns) -> None:
    metadata = object_at(item, "metadata", "")
    namespace = text_at(metadata, "namespace", "metadata")
    pod = text_at(metadata, "name", "metadata")
    time_ns = _time(item)
    window_ns = _window(text_at(item, "window", ""))
    containers = objects_at(item, "containers", "")
    if not containers:
        raise BadObject("containers", "there are none")
    for container in containers:
        try:
            name = text_at(container, "name", "containers")
            usage = object_at(container, "usage", "containers")
        except BadObject as error:
            columns.refuse(item, error)
            continue
        key = (namespace, pod, name)
        cpu = _amount(_millicores, usage.get("cpu"), "cpu", key, columns)
        memory = _amount(_bytes, usage.get("memory"), "memory", key, columns)
        columns.containers.append(key)  # all at once, so that the columns stay as long
        columns.cpu.append(cpu)
        columns.memory.append(memory)
        columns.times.append(time_ns)
        columns.windows.append(window_ns)


def _amount(
    read: Callable[[object], int],
    value: object,
    resource: str,
    container: tuple[str, str, str],
    columns: _Columns,
) -> int:
    """Return an amount in whole units, rounded up."""
    if value is None:
        return ABSENT
    try:
        found = read(value)
    except BadObject as error:
        problem = str(error)
    else:
        if 0 <= found <= columns.most:
            return min(found, _GREATEST)
        problem = f"{str(value)[:_SHOWN]} is {'negative' if found < 0 else 'too much'}"
    columns.problems.append(f"metrics of {'/'.join(container)}: {resource}: {problem}")
    return REFUSED


def _millicores(value: object) -> int:
    # What metrics-server sends, nearly always; no two of these texts are the same.
    if isinstance(value, str) and value[-1:] == "n":
        digits = value[:-1]
        if digits.isdecimal() and digits.isascii() and len(digits) < _MOST_DIGITS:
            return -(-int(digits) // _NANO_PER_MILLI)
    return Quantity.read(value).milli


def _bytes(value: object) -> int:
    if isinstance(value, str) and value[-2:] == "Ki":
        digits = value[:-2]
        if digits.isdecimal() and digits.isascii() and len(digits) < _MOST_DIGITS - _KI_DIGITS:
            return int(digits) << 10
    return Quantity.read(value).units


def _time(item: Object) -> int:
    found = time_at(item, "timestamp", "")
    if found is None:
        raise BadObject("timestamp", "is missing")
    return nanoseconds(found)


@lru_cache(_REMEMBERED)
def _window(text: str) -> int:
    """Return how long cpu usage was averaged, 0 where that is not given."""
    try:
        return max(span(parse_duration(text)), 0)
    except BadObject:
        return 0


def _name(item: Object) -> str:
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        return "?"
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


@dataclass(frozen=True, slots=True)
class ExternalRules:
    """Which metrics are usage, and which of their labels names the container."""

    cpu_metric: str = ""
    memory_metric: str = ""
    container_label: str = "name"

    @property
    def metrics(self) -> list[tuple[str, str]]:
        """The resources that have a metric, and which."""
        named = ((CPU, self.cpu_metric), (MEMORY, self.memory_metric))
        return [(resource, metric) for resource, metric in named if metric]


@dataclass(frozen=True, slots=True)
class ExternalQuestion:
    """What the containers of a pod use of a resource."""

    namespace: str
    pod: str
    resource: str
    metric: str
    selector: str


def external_questions(
    vpas: Iterable[ObservedVpa],
    pods_of: Callable[[str], Collection[Pod]],
    rules: ExternalRules,
    skipped: SkippedObjects,
) -> list[ExternalQuestion]:
    """Return what to ask of the pods that VPAs select; `pods_of` knows those of a namespace."""
    found: dict[tuple[str, str, str], ExternalQuestion] = {}
    for vpa in vpas:
        with skipped.guard("VPA", *vpa.key):
            for one in _questions(vpa, pods_of, rules):
                found.setdefault((one.namespace, one.pod, one.resource), one)
    return list(found.values())


def _questions(
    vpa: ObservedVpa, pods_of: Callable[[str], Collection[Pod]], rules: ExternalRules
) -> Iterator[ExternalQuestion]:
    namespace, selector = vpa.vpa.namespace, vpa.selector
    if selector is None:
        return
    for pod in pods_of(namespace):
        if selector.matches(pod.labels):
            text = ",".join(filter(None, (str(selector), f"pod={pod.name}")))
            for resource, metric in rules.metrics:
                yield ExternalQuestion(namespace, pod.name, resource, metric, text)


def unfinished(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that may still use something."""
    return [pod for pod in pods if pod.phase not in OVER]


def external_items(question: ExternalQuestion, answer: Object, rules: ExternalRules) -> list[Json]:
    """Return what an answer tells; values that name no container are left out.

    Raises:
        BadObject: it is no list of values.
    """
    return [
        usage_item(
            question, [{"name": name, "usage": {question.resource: value.get("value")}}], value
        )
        for name, value in named_values(answer, rules)
    ]


def named_values(answer: Object, rules: ExternalRules) -> Iterator[tuple[str, Object]]:
    """Yield the values of an answer that name a container, with its name."""
    for index, value in enumerate(objects_at(answer, "items", "")):
        name = labels_at(value, "metricLabels", f"items[{index}]").get(rules.container_label)
        if name:
            yield name, value


def usage_item(question: ExternalQuestion, containers: list[Json], value: Object) -> Json:
    """Return usage of containers as `metrics.k8s.io` lists it, at the time of a value."""
    window = value.get("window")
    return {
        "metadata": {"namespace": question.namespace, "name": question.pod},
        "timestamp": value.get("timestamp"),
        "window": f"{window}s" if isinstance(window, int) else "",
        "containers": containers,
    }
