"""What Prometheus is asked for a recording: usage by cAdvisor, the rest by kube-state-metrics.

Strategy: each query sums up one namespace by pod and container, so answers are small. Series of
one container that several jobs scraped have the same `id`, so only the highest of them counts;
a container that was restarted has another one, so both are added up. Counters of events are read
as they stand at the end of each step, and their differences are taken here: that is exact, where
`increase` would guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.recommender.core.promql import quoted


class Answered(StrEnum):
    """What is asked for, step by step."""

    MEMORY = "memory"
    CPU = "cpu"
    REQUESTS = "requests"
    LIMITS = "limits"
    RESTARTS = "restarts"  # so far, as the next three
    LAST_KILLED = "last_killed"  # 1 if the last end of a container was an OOM kill
    ENDED_KILLED = "ended_killed"  # 1 of a container that was killed and is not started again
    OOM_EVENTS = "oom_events"  # as cAdvisor has counted in the step
    THROTTLED = "throttled"


class RosterKind(StrEnum):
    """What is asked for once, over all steps."""

    PODS = "pods"  # and their owners
    REPLICA_SETS = "replica_sets"  # and theirs
    JOBS = "jobs"  # and theirs
    INIT_CONTAINERS = "init_containers"  # that end before the others start


@dataclass(frozen=True, slots=True)
class MetricNames:
    """How metrics and their labels are called."""

    cadvisor_job: str
    cpu: str
    memory: str
    namespace: str  # labels of cAdvisor's metrics
    pod: str
    container: str
    state_prefix: str = ""  # of such labels of kube-state-metrics: exported_ without honor_labels
    has_requests: bool = True  # whether kube-state-metrics tells requests
    selector: str = ""  # what all series have besides, as `cluster="eu"`


CLUSTER_LABELS: Final = ("cluster", "cluster_name", "cluster_id", "k8s_cluster_name")
_STATE: Final = "kube_pod_container_"
_OWNERS: Final = {  # metric, label that names the object
    RosterKind.PODS: ("kube_pod_owner", "pod"),
    RosterKind.REPLICA_SETS: ("kube_replicaset_owner", "replicaset"),
    RosterKind.JOBS: ("kube_job_owner", "job_name"),
}


def step_queries(names: MetricNames, namespace: str, step: int) -> Mapping[Answered, str]:
    """Return the queries for what is asked for step by step."""
    seconds = f"[{step}s]"
    used, state = usage_selector(names, namespace), _state_selector(names, namespace)
    whose = f"{names.pod}, {names.container}"
    owned = f"{names.state_prefix}pod, {names.state_prefix}container"

    def counted(metric: str) -> str:
        inner = f"max by ({whose}, id) (increase({metric}{used}{seconds}))"
        return f"sum by ({whose}) ({inner})"

    def stated(metric: str, by: str = "", selector: str = state) -> str:
        return f"max by ({owned}{by}) (last_over_time({_STATE}{metric}{selector}{seconds}))"

    killed = _state_selector(names, namespace, 'reason="OOMKilled"')
    resources = _state_selector(names, namespace, 'resource=~"cpu|memory"')
    periods = "container_cpu_cfs_{}periods_total"
    return {
        Answered.MEMORY: f"max by ({whose}) (max_over_time({names.memory}{used}{seconds}))",
        Answered.CPU: f"sum by ({whose}) (max by ({whose}, id) (rate({names.cpu}{used}{seconds})))",
        Answered.REQUESTS: stated("resource_requests", ", resource", resources),
        Answered.LIMITS: stated("resource_limits", ", resource", resources),
        Answered.RESTARTS: stated("status_restarts_total"),
        Answered.LAST_KILLED: stated("status_last_terminated_reason", selector=killed),
        Answered.ENDED_KILLED: stated("status_terminated_reason", selector=killed),
        Answered.OOM_EVENTS: counted("container_oom_events_total"),
        Answered.THROTTLED: (
            f"{counted(periods.format('throttled_'))} / {counted(periods.format(''))}"
        ),
    }


def roster_queries(names: MetricNames, namespace: str, seconds: int) -> Mapping[RosterKind, str]:
    """Return the queries for who owns what, and what is no container for good."""
    prefix = names.state_prefix

    def seen(metric: str, by: str, *more: str) -> str:
        selector = _state_selector(names, namespace, *more)
        return f"group by ({by}) (last_over_time({metric}{selector}[{seconds}s]))"

    found = {
        kind: seen(metric, f"{prefix if label == 'pod' else ''}{label}, owner_kind, owner_name")
        for kind, (metric, label) in _OWNERS.items()
    }
    ended = 'restart_policy!="Always"'
    by = f"{prefix}pod, {prefix}container"
    return found | {RosterKind.INIT_CONTAINERS: seen("kube_pod_init_container_info", by, ended)}


def owner_label(names: MetricNames, kind: RosterKind) -> str:
    """Return the label that names what is owned."""
    _, label = _OWNERS[kind]
    return f"{names.state_prefix}{label}" if label == "pod" else label


def sizes_query(names: MetricNames, namespace: str, seconds: int) -> str:
    """Return the query for how many containers each namespace had within so many seconds."""
    inner = f"last_over_time({names.memory}{usage_selector(names, namespace)}[{seconds}s])"
    each = f"group by ({names.namespace}, {names.pod}, {names.container}) ({inner})"
    return f"count by ({names.namespace}) ({each})"


def usage_probe(names: MetricNames) -> str:
    """Return the query that has an answer if cAdvisor's metrics are called like this."""
    return f"count({names.memory}{usage_selector(names, '')})"


def clusters_query(names: MetricNames) -> str:
    """Return the query for the labels that tell clusters apart."""
    return f"count by ({', '.join(CLUSTER_LABELS)}) ({names.memory}{usage_selector(names, '')})"


def state_probe(names: MetricNames, prefix: str) -> str:
    """Return the query that has an answer if labels of kube-state-metrics begin like this."""
    parts = [f'{prefix}pod!=""', f'{prefix}namespace!=""', *_more(names)]
    return f"count(kube_pod_owner{{{', '.join(parts)}}})"


def requests_probe(names: MetricNames) -> str:
    """Return the query that has an answer if kube-state-metrics tells requests."""
    return f"count(kube_pod_container_resource_requests{{{names.selector}}})"


def usage_selector(names: MetricNames, namespace: str) -> str:
    """Return what selects the containers of a namespace, of all if it is empty."""
    parts = [f"job={quoted(names.cadvisor_job)}"] if names.cadvisor_job else []
    parts += [f'{names.pod}!=""', f'{names.container}!=""', f'{names.container}!="POD"']
    parts.append(_in(names.namespace, namespace))
    return "{" + ", ".join((*parts, *_more(names))) + "}"


def _state_selector(names: MetricNames, namespace: str, *more: str) -> str:
    where = _in(f"{names.state_prefix}namespace", namespace)
    return "{" + ", ".join((where, *more, *_more(names))) + "}"


def _more(names: MetricNames) -> tuple[str, ...]:
    return (names.selector,) if names.selector else ()


def _in(label: str, namespace: str) -> str:
    return f"{label}={quoted(namespace)}" if namespace else f'{label}!=""'
