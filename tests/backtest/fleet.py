"""A fleet of containers, and what a Prometheus would tell of it, faults included."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from tests.prometheus_server import Asked, Reply

Amount = Callable[[float], float | None]  # of a time in seconds; None: not scraped
Sample = tuple[Mapping[str, str], float]

MI = float(2**20)


@dataclass(frozen=True)
class Load:
    """A container, and what is known of it at any time."""

    pod: str
    container: str = "app"
    namespace: str = "shop"
    owner: tuple[str, str] | None = ("StatefulSet", "db")
    cpu: Amount = lambda _time: 0.5
    memory: Amount = lambda _time: 200 * MI
    requests: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1, "memory": 512 * MI})
    limits: Mapping[str, float] = field(default_factory=lambda: {"memory": 1024 * MI})
    restarts: Amount = lambda _time: 0.0
    was_killed: Amount = lambda _time: 0.0
    is_killed: Amount = lambda _time: 0.0
    throttled: Amount = lambda _time: None
    is_init: bool = False
    cluster: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its series."""
        return {"pod": self.pod, "container": self.container}


@dataclass
class Fleet:
    """Answers queries as a Prometheus does that has scraped all of this."""

    loads: Sequence[Load]
    owners: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    most_points: int = 10**9  # of an answer; more is refused with 422
    most_series: int = 10**9  # more are left out without a word
    warning: str = ""
    has_state: bool = True  # whether kube-state-metrics is scraped
    refused: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Reply:
        """Answer."""
        query, told = asked.told["query"], asked.told
        is_range = "start" in told
        end = float(told.get("end", told.get("time", "")))
        start = float(told["start"]) if is_range else end
        step = float(told.get("step", 60.0))
        times = [start + index * step for index in range(int((end - start) / step) + 1)]
        series: dict[bytes, list[tuple[float, str]]] = {}
        for time in times:
            for labels, value in self._samples(query, time):
                series.setdefault(orjson.dumps(labels), []).append((time, f"{value}"))
        if sum(map(len, series.values())) > self.most_points:
            self.refused.append(query)
            return Reply.of(422, "execution", "query processing would load too many samples")
        key = "values" if is_range else "value"
        result = [
            {"metric": orjson.loads(labels), key: points if is_range else points[-1]}
            for labels, points in list(series.items())[: self.most_series]
        ]
        data = {"resultType": "matrix" if is_range else "vector", "result": result}
        body = {"status": "success", "data": data}
        return Reply(orjson.dumps(body | ({"warnings": [self.warning]} if self.warning else {})))

    def _samples(self, query: str, time: float) -> Iterator[Sample]:
        named = re.search(r'namespace="([^"]*)"', query)
        chosen = re.search(r'cluster="([^"]*)"', query)
        here = [
            one
            for one in self.loads
            if (not named or one.namespace == named[1]) and (not chosen or one.cluster == chosen[1])
        ]
        if query.startswith("count by (cluster,"):
            for cluster in sorted({one.cluster for one in here}):
                yield {"cluster": cluster} if cluster else {}, 1.0
        elif query.startswith("count by"):
            yield from self._sizes(here, time)
        elif query.startswith("count("):
            if ("kube_" not in query or self.has_state) and "exported" not in query:
                yield from [({}, 1.0)] if 'pod_name!=""' not in query else []
        elif "kube_" in query:
            yield from self._state(query, here, time) if self.has_state else ()
        else:
            for one in here:
                amount = self._usage(query, one)(time)
                if amount is not None:
                    yield one.labels, amount

    def _sizes(self, here: Sequence[Load], time: float) -> Iterator[Sample]:
        for namespace in sorted({one.namespace for one in here}):
            number = sum(
                one.namespace == namespace and one.memory(time) is not None for one in here
            )
            if number:
                yield {"namespace": namespace}, number

    def _usage(self, query: str, one: Load) -> Amount:
        if "oom_events" in query:
            return lambda _time: None
        if "throttled" in query:
            return one.throttled
        return one.memory if "working_set" in query else one.cpu

    def _state(self, query: str, here: Sequence[Load], time: float) -> Iterator[Sample]:
        if "kube_pod_owner" in query:
            for one in here:
                if one.owner is not None:
                    yield {"pod": one.pod, **_owner(one.owner)}, 1
        elif owned := re.search(r"kube_(replicaset|job)_owner", query):
            label = {"replicaset": "replicaset", "job": "job_name"}[owned[1]]
            for (kind, name), owner in self.owners.items():
                if kind.lower() == owned[1]:
                    yield {label: name, **_owner(owner)}, 1
        else:
            for one in here:
                yield from self._container(query, one, time)

    def _container(self, query: str, one: Load, time: float) -> Iterator[Sample]:
        if "init_container" in query:
            yield from [(one.labels, 1.0)] if one.is_init else []
        elif found := re.search(r"resource_(requests|limits)", query):
            for resource, amount in getattr(one, found[1]).items():
                yield one.labels | {"resource": resource}, amount
        else:
            states = {
                "restarts": one.restarts,
                "status_last": one.was_killed,
                "status_term": one.is_killed,
            }
            state = next(state for word, state in states.items() if word in query)
            amount = state(time)
            if amount is not None:
                yield one.labels, amount


def _owner(owner: tuple[str, str]) -> dict[str, str]:
    return {"owner_kind": owner[0], "owner_name": owner[1]}
