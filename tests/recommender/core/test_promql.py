"""Prometheus is asked what upstream asks, and for labels over the time that is looked at."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.recommender.core.promql import (
    PastRules,
    Span,
    cpu_query,
    labels_query,
    memory_query,
)

RULES = PastRules()


def test_queries_for_usage() -> None:
    """W95: the words, their order and their spaces are upstream's."""
    rules = replace(RULES, resolution=Span("30s", timedelta(seconds=30)))
    selector = (
        '{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!="", '
        'namespace="kube-system"}'
    )

    assert cpu_query(rules, "kube-system") == (
        f"rate(container_cpu_usage_seconds_total{selector}[30s])"
    )
    assert memory_query(rules, "kube-system") == f"container_memory_working_set_bytes{selector}"
    assert cpu_query(RULES) == (
        "rate(container_cpu_usage_seconds_total"
        '{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!=""}[1h])'
    )


def test_other_labels() -> None:
    """All names come from flags; without a job any will do; texts are quoted."""
    rules = replace(
        RULES,
        cadvisor_job="",
        memory_metric="memory",
        container_name_label="container",
        container_pod_name_label="pod",
        container_namespace_label="ns",
    )
    assert memory_query(rules, "a") == (
        'memory{pod=~".+", container!="POD", container!="", ns="a"}'
    )
    assert memory_query(replace(rules, cadvisor_job='a"\\')).startswith('memory{job="a\\"\\\\", ')


@pytest.mark.parametrize(
    ("metric", "query"),
    [
        pytest.param('up{job="kubernetes-pods"}', 'up{job="kubernetes-pods"}[8d]', id="default"),
        pytest.param(" kube_pod_labels ", "kube_pod_labels[8d]", id="a name alone"),
        pytest.param("{a=\"}\",b=~'x{2}'}", "{a=\"}\",b=~'x{2}'}[8d]", id="braces in texts"),
        pytest.param("up offset 5m", "up[8d] offset 5m", id="an offset stays behind"),
        pytest.param("up @ end()", "up[8d] @ end()", id="a moment stays behind"),
        pytest.param("up[3d]", "up[3d]", id="has a range"),
        pytest.param("max_over_time(up[3d])", "max_over_time(up[3d])", id="a function"),
        pytest.param('up{a="b"} > 0', 'up{a="b"} > 0', id="an expression"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_query_for_labels(metric: str, query: str) -> None:
    """A bare selector gets a range; anything else is taken as it is written."""
    rules = replace(RULES, pod_labels_metric=metric)
    assert labels_query(rules) == query
