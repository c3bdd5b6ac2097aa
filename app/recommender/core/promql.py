"""What Prometheus is asked for the usage of the past."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

_TEXT: Final = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`"
_BARE: Final = re.compile(
    rf"(?P<selector>[a-zA-Z_:][\w:]*(?:\s*\{{(?:{_TEXT}|[^{{}}\"'`])*\}})?"
    rf"|\{{(?:{_TEXT}|[^{{}}\"'`])*\}})"
    r"(?P<shift>(?:\s*(?:offset|@)\s*[\w.+-]+(?:\(\))?)*)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Span:
    """A duration, and how it was written."""

    text: str
    time: timedelta


@dataclass(frozen=True, slots=True)
class PastRules:
    """Where the past is to be found, and how it is read; the defaults are upstream's."""

    cadvisor_job: str = "kubernetes-cadvisor"
    length: Span = Span("8d", timedelta(days=8))
    resolution: Span = Span("1h", timedelta(hours=1))
    cpu_metric: str = "container_cpu_usage_seconds_total"
    memory_metric: str = "container_memory_working_set_bytes"
    pod_labels_metric: str = 'up{job="kubernetes-pods"}'
    pod_label_prefix: str = "pod_label_"
    pod_namespace_label: str = "kubernetes_namespace"
    pod_name_label: str = "kubernetes_pod_name"
    container_namespace_label: str = "namespace"
    container_pod_name_label: str = "pod_name"
    container_name_label: str = "name"
    sampling: timedelta = timedelta(minutes=1)  # between two samples of live usage


def cpu_query(rules: PastRules, namespace: str = "") -> str:
    """Return the query for the CPU usage of all containers, of one namespace if told."""
    return f"rate({rules.cpu_metric}{_selector(rules, namespace)}[{rules.resolution.text}])"


def memory_query(rules: PastRules, namespace: str = "") -> str:
    """Return the query for the memory usage of all containers, of one namespace if told."""
    return rules.memory_metric + _selector(rules, namespace)


def labels_query(rules: PastRules) -> str:
    """Return the query for the labels of pods; a bare selector gets the range it lacks."""
    found = _BARE.fullmatch(rules.pod_labels_metric.strip())
    if found is None:
        return rules.pod_labels_metric
    return f"{found['selector']}[{rules.length.text}]{found['shift']}"


def _selector(rules: PastRules, namespace: str) -> str:
    parts = [f"job={_quoted(rules.cadvisor_job)}"] if rules.cadvisor_job else []
    parts.append(f'{rules.container_pod_name_label}=~".+"')
    parts += [f'{rules.container_name_label}!="{text}"' for text in ("POD", "")]
    if namespace:
        parts.append(f"{rules.container_namespace_label}={_quoted(namespace)}")
    return "{" + ", ".join(parts) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
