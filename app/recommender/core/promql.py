"""What Prometheus is asked for the usage of the past, and how its answers are read.

Strategy: what cannot be read costs itself alone, one series or one point, and is counted. Amounts
that cannot be - not a number, infinite, below zero - are no points.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import numpy as np

from app.model.errors import BadObject
from app.model.fields import Object, labels_at, object_at, objects_at, text_at, texts_at
from app.model.times import PrometheusDuration
from app.recommender.core.estimation import MOST
from app.recommender.core.histograms import Amounts, Flags, Floats
from app.recommender.core.usage import ABSENT

_TEXT: Final = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`"
_BARE: Final = re.compile(
    rf"(?P<selector>[a-zA-Z_:][\w:]*(?:\s*\{{(?:{_TEXT}|[^{{}}\"'`])*\}})?"
    rf"|\{{(?:{_TEXT}|[^{{}}\"'`])*\}})"
    r"(?P<shift>(?:\s*(?:offset|@)\s*[\w.+-]+(?:\(\))?)*)",
    re.ASCII,
)

_MOST_SENTENCES: Final = 5
_EIGHT_DAYS: Final = PrometheusDuration("8d", timedelta(days=8))
_AN_HOUR: Final = PrometheusDuration("1h", timedelta(hours=1))


@dataclass(frozen=True, slots=True)
class PastRules:
    """Where the past is to be found, and how it is read; the defaults are upstream's."""

    cadvisor_job: str = "kubernetes-cadvisor"
    length: PrometheusDuration = _EIGHT_DAYS
    resolution: PrometheusDuration = _AN_HOUR
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
    """Return the query for the CPU usage of all containers, of one namespace if named."""
    return f"rate({rules.cpu_metric}{selector(rules, namespace)}[{rules.resolution.text}])"


def memory_query(rules: PastRules, namespace: str = "") -> str:
    """Return the query for the memory usage of all containers, of one namespace if named."""
    return rules.memory_metric + selector(rules, namespace)


def labels_query(rules: PastRules) -> str:
    """Return the query for the labels of pods; a bare selector gets the range it lacks."""
    found = _BARE.fullmatch(rules.pod_labels_metric.strip())
    if found is None:
        return rules.pod_labels_metric
    return f"{found['selector']}[{rules.length.text}]{found['shift']}"


def selector(rules: PastRules, namespace: str = "", pods: str = ".+") -> str:
    """Return what selects the series of containers; `pods` is what their names match."""
    parts = [f"job={quoted(rules.cadvisor_job)}"] if rules.cadvisor_job else []
    parts.append(f"{rules.container_pod_name_label}=~{quoted(pods)}")
    parts += [f'{rules.container_name_label}!="{text}"' for text in ("POD", "")]
    if namespace:
        parts.append(f"{rules.container_namespace_label}={quoted(namespace)}")
    return "{" + ", ".join(parts) + "}"


def quoted(text: str) -> str:
    """Return a text as PromQL writes it."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


@dataclass(frozen=True, slots=True)
class Series:
    """Points with the labels they share; thousands of them are laid out in arrays together."""

    labels: Mapping[str, str]
    times: list[float]  # seconds
    values: list[float]


@dataclass(slots=True)
class Flaws:
    """What could not be read; numbers only grow."""

    series: int = 0
    points: int = 0
    sentences: list[str] = field(default_factory=list)  # the first few

    def note(self, sentence: str) -> None:
        """Keep a sentence, if there are few."""
        if len(self.sentences) < _MOST_SENTENCES:
            self.sentences.append(sentence)


def read_series(body: Object, flaws: Flaws) -> Iterator[Series]:
    """Yield the series of an answer that can be read.

    Raises:
        BadObject: it is no answer.
    """
    kind, items = answer(body, ("matrix", "vector"), flaws)
    for index, item in enumerate(items):
        try:
            yield series_of(item, kind, index)
        except BadObject as error:
            flaws.series += 1
            flaws.note(str(error))


def answer(body: Object, kinds: Collection[str], flaws: Flaws) -> tuple[str, Sequence[Object]]:
    """Return what kind of result an answer holds, and its series, which are not read yet.

    Raises:
        BadObject: it holds no result of these kinds.
    """
    data = object_at(body, "data", "")
    kind = text_at(data, "resultType", "data")
    if kind not in kinds:
        raise BadObject("data.resultType", f'expected "matrix", found "{kind[:40]}"')
    for warning in texts_at(body, "warnings", "") or ():
        flaws.note(f"Prometheus warns: {warning}")
    return kind, objects_at(data, "result", "data")


def label(series: Series, name: str) -> str:
    """Return a label that a series must have.

    Raises:
        BadObject: it has none.
    """
    found = series.labels.get(name)
    if found is None:
        shown = ", ".join(f"{key}={text}" for key, text in sorted(series.labels.items())[:5])
        raise BadObject("", f"a series has no label {name}: {shown[:200] or 'no labels at all'}")
    return found


def amounts(values: Floats, scale: float) -> Amounts:
    """Return values as whole amounts, cut off; ABSENT for those that cannot be."""
    return bent(values, scale, np.isfinite(values) & (values >= 0.0))


def bent(values: Floats, scale: float, can_be: Flags) -> Amounts:
    """Return values as whole amounts between zero and the most; ABSENT for those left out."""
    whole = np.clip(np.clip(np.where(can_be, values, 0.0), 0.0, MOST) * scale, 0.0, MOST)
    return np.where(can_be, whole.astype(np.int64), ABSENT)


def series_of(item: Object, kind: str, index: int) -> Series:
    """Read one series of a result.

    Raises:
        BadObject: it cannot be read.
    """
    path = f"data.result[{index}]"
    labels = labels_at(item, "metric", path)
    points: Any = item.get("values") if kind == "matrix" else [item.get("value")]
    try:
        times = [float(point[0]) for point in points]
        values = [float(point[1]) for point in points]
    except (TypeError, ValueError, LookupError, OverflowError):
        raise BadObject(path, "has points that cannot be read") from None
    return Series(labels, times, values)
