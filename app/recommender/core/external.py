"""Usage from external metrics: what is asked for, and what the answers tell of containers.

Strategy: answers become items as `metrics.k8s.io` lists them, so from there on everything is the
same. Each value is an item of its own, with its own time; what is not told is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from app.model.fields import Json, Object, labels_at, objects_at
from app.model.pods import Pod
from app.recommender.core.mishaps import Mishaps
from app.recommender.core.observations import ObservedVpa
from app.recommender.core.policy import CPU, MEMORY

_OVER: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ExternalRules:
    """Which metrics tell of usage, and which of their labels names the container."""

    cpu_metric: str = ""
    memory_metric: str = ""
    container_label: str = "name"

    @property
    def metrics(self) -> list[tuple[str, str]]:
        """The resources that are told of, and by which metric."""
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
    mishaps: Mishaps,
) -> list[ExternalQuestion]:
    """Return what to ask of the pods that VPAs select; `pods_of` knows those of a namespace."""
    found: dict[tuple[str, str, str], ExternalQuestion] = {}
    for vpa in vpas:
        with mishaps.guard("VPA", *vpa.key):
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
    return [pod for pod in pods if pod.phase not in _OVER]


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
    """Return what is told of containers as `metrics.k8s.io` lists it, at the time of a value."""
    window = value.get("window")
    return {
        "metadata": {"namespace": question.namespace, "name": question.pod},
        "timestamp": value.get("timestamp"),
        "window": f"{window}s" if isinstance(window, int) else "",
        "containers": containers,
    }
