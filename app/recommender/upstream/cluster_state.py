"""Upstream's picture of a cluster: VPAs, pods, and aggregates by label set.

Strategy: a container feeds the aggregate of its pod's exact labels, whether a VPA selects it or
not. A VPA is linked to every aggregate its selector matches, and its view is merged from those
again each time. When its selector changes the VPA is replaced by a new one, and what it had from
checkpoints is gone. After a label change a container holds on to the aggregate it was given then,
even if that is collected; before, it asks for the one of the day.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.model.pods import Pod
from app.model.selectors import NOTHING, Selector
from app.recommender.core.moments import HOUR, UNSET
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.targets import ObservedVpa, VpaKey
from app.recommender.core.usage import PastUsage
from app.recommender.upstream.containers import Aggregate, RunningContainer

Labels = Mapping[str, str]

PodKey = tuple[str, str]  # namespace and name
AggregateKey = tuple[str, str, str]  # namespace, labels as text, container

_COLLECT_NS: Final = HOUR
_OVER: Final = ("Succeeded", "Failed")


class Selections:
    """VPAs by the labels they select, within each namespace."""

    def __init__(self) -> None:
        self._selectors: defaultdict[str, dict[VpaKey, Selector]] = defaultdict(dict)
        self._labels: defaultdict[str, dict[str, Labels]] = defaultdict(dict)  # by text
        self._found: dict[tuple[str, str], dict[VpaKey, None]] = {}  # by namespace and text

    def put(self, vpa: VpaKey, selector: Selector) -> None:
        """Note what a VPA selects from now on."""
        namespace = vpa[0]
        self._selectors[namespace][vpa] = selector
        for text, labels in self._labels[namespace].items():
            if selector.matches(labels):
                self._found[namespace, text][vpa] = None
            else:
                self._found[namespace, text].pop(vpa, None)

    def drop(self, vpa: VpaKey) -> None:
        """Forget a VPA."""
        namespace = vpa[0]
        del self._selectors[namespace][vpa]
        for text in self._labels[namespace]:
            self._found[namespace, text].pop(vpa, None)

    def of(self, namespace: str, labels: Labels, text: str) -> Collection[VpaKey]:
        """Return the VPAs that select labels, of which the text is given too."""
        found = self._found.get((namespace, text))
        if found is None:
            self._labels[namespace][text] = labels
            selectors = self._selectors[namespace].items()
            found = {vpa: None for vpa, selector in selectors if selector.matches(labels)}
            self._found[namespace, text] = found
        return found


@dataclass(slots=True)
class UpstreamVpa:
    """A VPA, the aggregates it is linked to, and what checkpoints gave it."""

    observed: ObservedVpa
    selector: Selector
    links: dict[AggregateKey, Aggregate] = field(default_factory=dict)
    initial: dict[str, Aggregate] = field(default_factory=dict)  # by container
    stored_before_ns: int = UNSET
    stored_ns: int = UNSET


@dataclass(slots=True)
class UpstreamPod:
    """A pod; its containers stay as long as it does."""

    namespace: str
    labels_text: str
    phase: str
    init_containers: frozenset[str] = frozenset()
    containers: dict[str, RunningContainer] = field(default_factory=dict)

    def key(self, container: str) -> AggregateKey:
        """Return the key of the aggregate of one container."""
        return (self.namespace, self.labels_text, container)


class UpstreamCluster:
    """All state that survives from loop to loop."""

    def __init__(self, rules: RecommenderRules) -> None:
        self.rules = rules
        self.vpas: dict[VpaKey, UpstreamVpa] = {}
        self.pods: dict[PodKey, UpstreamPod] = {}
        self.aggregates: dict[AggregateKey, Aggregate] = {}
        self.now_ns = UNSET  # of the loop under way
        self._labels: dict[str, Mapping[str, str]] = {}  # by text
        self._selections = Selections()
        self._collected_ns = UNSET

    # --- what a loop loads

    def load_vpas(self, observed: Iterable[ObservedVpa]) -> None:
        """Take all VPAs there are; others are forgotten."""
        seen = {one.key: one for one in observed}
        for key, one in seen.items():
            self._load_vpa(key, one)
        for key in [key for key in self.vpas if key not in seen]:
            del self.vpas[key]
            self._selections.drop(key)

    def load_pods(self, pods: Mapping[PodKey, Pod]) -> list[PodKey]:
        """Take all pods there are; return those that are gone, which are not forgotten yet."""
        for key, pod in pods.items():
            if not self.rules.memory_saver or self._selecting(
                pod.namespace, self._labels_text(pod.labels)
            ):
                self._load_pod(key, pod)
        return [key for key in self.pods if key not in pods]

    def recall_pods(self, past: PastUsage) -> None:
        """Take the pods of the past, whichever VPAs asked, until the next loop."""
        names: defaultdict[PodKey, list[str]] = defaultdict(list)
        for namespace, pod, container in past.containers:
            names[namespace, pod].append(container)
        for key in {**past.labels, **names}:
            labels = past.labels.get(key, {})
            known = self._pod(key, labels, "Unknown")
            self._have_containers(known, names[key])

    def forget_pods(self, keys: Iterable[PodKey]) -> None:
        """Forget pods."""
        for key in keys:
            del self.pods[key]

    def container(self, namespace: str, pod: str, container: str) -> RunningContainer | None:
        """Return a container that takes part, None for init containers and unknown ones."""
        found = self.pods.get((namespace, pod))
        if found is None or container in found.init_containers:
            return None
        return found.containers.get(container)

    def matching_pods(self) -> dict[VpaKey, int]:
        """Return how many pods of any phase each VPA selects."""
        found = Counter(
            key
            for pod in self.pods.values()
            for key in self._selecting(pod.namespace, pod.labels_text)
        )
        return {key: found[key] for key in self.vpas}

    # --- what a loop reads

    def view(self, vpa: UpstreamVpa) -> dict[str, Aggregate]:
        """Return everything a VPA knows, by container.

        Aggregates without samples come last: whichever order upstream happens to take, sooner
        or later they are merged behind another and take over its reference.
        """
        found: dict[str, Aggregate] = {}

        def merge(container: str, other: Aggregate) -> None:
            if container not in found:
                found[container] = Aggregate(self.rules.aggregation, self.now_ns)
            found[container].merge(other)

        for key, aggregate in sorted(vpa.links.items(), key=lambda link: link[1].is_unset):
            merge(key[2], aggregate)
        for container, aggregate in vpa.initial.items():
            merge(container, aggregate)
        return found

    def view_to_store(
        self, vpa: UpstreamVpa, running: Mapping[AggregateKey, list[RunningContainer]]
    ) -> dict[str, Aggregate]:
        """Return the view without the peaks of running intervals."""
        found = self.view(vpa)
        for key in vpa.links:
            for container in running.get(key, ()):
                found[key[2]].take_peak(container.peak_bytes, container.end_ns)
        return found

    def running(self) -> dict[AggregateKey, list[RunningContainer]]:
        """Return the containers whose interval has not ended, by aggregate."""
        found: defaultdict[AggregateKey, list[RunningContainer]] = defaultdict(list)
        for pod in self.pods.values():
            for name, container in pod.containers.items():
                if self.now_ns < container.end_ns:
                    found[pod.key(name)].append(container)
        return found

    def collect(self) -> None:
        """Drop expired aggregates and empty ones that no pod feeds, at most once an hour."""
        now_ns = self.now_ns
        if self._collected_ns != UNSET and now_ns - self._collected_ns < _COLLECT_NS:
            return
        self._collected_ns = now_ns
        fed = {
            pod.key(name)
            for pod in self.pods.values()
            if pod.phase not in _OVER or self._has_controller(pod)
            for name in pod.containers
        }
        gone = [
            key
            for key, aggregate in self.aggregates.items()
            if (key not in fed and not aggregate.count) or aggregate.is_expired(now_ns)
        ]
        for key in gone:
            del self.aggregates[key]
            for vpa in self._selecting(key[0], key[1]):
                self.vpas[vpa].links.pop(key, None)

    # --- inside

    def _load_vpa(self, key: VpaKey, observed: ObservedVpa) -> None:
        selector = observed.selector if observed.selector is not None else NOTHING
        known = self.vpas.get(key)
        if known is None or _text(known.selector) != _text(selector):
            known = self.vpas[key] = UpstreamVpa(observed, selector)
            self._selections.put(key, selector)
            for aggregate_key, aggregate in self.aggregates.items():
                if key in self._selecting(aggregate_key[0], aggregate_key[1]):
                    self._link(known, aggregate_key, aggregate)
        elif known.observed.vpa is not observed.vpa:
            known.observed = observed
            for (_, _, container), aggregate in known.links.items():
                aggregate.follow(observed.vpa.policy(container), self.rules)
        known.observed = observed

    def _load_pod(self, key: PodKey, pod: Pod) -> None:
        known = self._pod(key, pod.labels, pod.phase)
        known.init_containers = frozenset(one.name for one in pod.init_containers)
        self._have_containers(known, (one.name for one in pod.containers))

    def _pod(self, key: PodKey, labels: Mapping[str, str], phase: str) -> UpstreamPod:
        text = self._labels_text(labels)
        known = self.pods.get(key)
        if known is None:
            known = self.pods[key] = UpstreamPod(key[0], text, phase)
        elif known.labels_text != text:
            known.labels_text = text
            for name, container in known.containers.items():
                container.aggregate = _always(self._aggregate(known.key(name)))
        known.phase = phase
        return known

    def _have_containers(self, pod: UpstreamPod, names: Iterable[str]) -> None:
        for name in names:
            if name not in pod.containers:
                self._aggregate(pod.key(name))
                pod.containers[name] = RunningContainer(self._of_the_day(pod, name))

    def _of_the_day(self, pod: UpstreamPod, container: str) -> Callable[[], Aggregate]:
        return lambda: self._aggregate(pod.key(container))

    def _aggregate(self, key: AggregateKey) -> Aggregate:
        """Return an aggregate, a new one if there is none."""
        found = self.aggregates.get(key)
        if found is None:
            found = self.aggregates[key] = Aggregate(self.rules.aggregation, self.now_ns)
            for vpa in self._selecting(key[0], key[1]):
                self._link(self.vpas[vpa], key, found)
        return found

    def _link(self, vpa: UpstreamVpa, key: AggregateKey, aggregate: Aggregate) -> None:
        vpa.links[key] = aggregate
        aggregate.follow(vpa.observed.vpa.policy(key[2]), self.rules)

    def _selecting(self, namespace: str, labels_text: str) -> Collection[VpaKey]:
        """Return the VPAs that select pods of some labels."""
        return self._selections.of(namespace, self._labels[labels_text], labels_text)

    def _has_controller(self, pod: UpstreamPod) -> bool:
        """Whether a VPA whose target was found selects a pod; others keep no history alive."""
        vpas = (self.vpas[key] for key in self._selecting(pod.namespace, pod.labels_text))
        return any(vpa.observed.selector is not None for vpa in vpas)

    def _labels_text(self, labels: Mapping[str, str]) -> str:
        text = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        self._labels.setdefault(text, labels)
        return text


def _always(aggregate: Aggregate) -> Callable[[], Aggregate]:
    return lambda: aggregate


def _text(selector: Selector) -> str:
    """Write a selector as upstream does: one that matches nothing looks like one for all."""
    return "" if selector.never else str(selector)
