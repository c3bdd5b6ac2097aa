"""What Prometheus is asked, and how its answers are read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import BadObject
from app.model.times import PrometheusDuration
from app.recommender.core.promql import (
    Flaws,
    PastRules,
    Series,
    amounts,
    cpu_query,
    label,
    labels_query,
    memory_query,
    read_series,
)
from tests.cases import cases
from tests.junk import ANYTHING

RULES = PastRules()

POINTS = [[1767571200, "0.5"], [1767574800.5, "NaN"]]
GOOD = {"metric": {"pod": "web-0"}, "values": POINTS}


def test_queries_for_usage() -> None:
    """The words, their order and their spaces are upstream's."""
    rules = replace(RULES, resolution=PrometheusDuration("30s", timedelta(seconds=30)))
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


@cases(
    "metric query",
    {
        "default": ('up{job="kubernetes-pods"}', 'up{job="kubernetes-pods"}[8d]'),
        "a name alone": (" kube_pod_labels ", "kube_pod_labels[8d]"),
        "braces in texts": ("{a=\"}\",b=~'x{2}'}", "{a=\"}\",b=~'x{2}'}[8d]"),
        "an offset stays behind": ("up offset 5m", "up[8d] offset 5m"),
        "a moment stays behind": ("up @ end()", "up[8d] @ end()"),
        "has a range": ("up[3d]", "up[3d]"),
        "a function": ("max_over_time(up[3d])", "max_over_time(up[3d])"),
        "an expression": ('up{a="b"} > 0', 'up{a="b"} > 0'),
        "nothing": ("", ""),
    },
)
def test_query_for_labels(metric: str, query: str) -> None:
    """A bare selector gets a range; anything else is taken as it is written."""
    rules = replace(RULES, pod_labels_metric=metric)
    assert labels_query(rules) == query


def answer(*series: object, kind: str = "matrix", **more: object) -> dict[str, Any]:
    """Return an answer of Prometheus."""
    data = {"resultType": kind, "result": list(series)}
    return {"status": "success", "data": data, **more}


def test_good_answer() -> None:
    """Points are numbers, whatever they say."""
    flaws = Flaws()
    (found,) = read_series(answer(GOOD), flaws)

    assert found.labels == {"pod": "web-0"}
    assert found.times == [1767571200.0, 1767574800.5]
    assert found.values[0] == 0.5
    assert np.isnan(found.values[1])
    assert flaws == Flaws()


@cases(
    "bad",
    {
        "a label is a number": ({"metric": {"pod": 1}, "values": POINTS},),
        "labels are a list": ({"metric": [], "values": POINTS},),
        "no points": ({"metric": {}},),
        "half a point": ({"metric": {}, "values": [[1]]},),
        "a value is a word": ({"metric": {}, "values": [[1, "much"]]},),
        "a time is a word": ({"metric": {}, "values": [["noon", "1"]]},),
        "points are objects": ({"metric": {}, "values": [{"time": 1}]},),
        "a time beyond all times": ({"metric": {}, "values": [[10**400, "1"]]},),
        "histograms": ({"metric": {}, "histograms": []},),
    },
)
def test_bad_series(bad: object) -> None:
    """One bad series costs itself."""
    flaws = Flaws()
    found = list(read_series(answer(bad, GOOD), flaws))

    assert (len(found), flaws.series) == (1, 1)
    assert flaws.sentences[0].startswith("data.result[0]")


@cases(
    "body",
    {
        "empty": ({},),
        "no object": ({"data": []},),
        "another kind": (answer(GOOD, kind="scalar"),),
        "series are words": (answer("a"),),
    },
)
def test_no_answer(body: dict[str, Any]) -> None:
    """What is no answer at all is refused with the field that is wrong."""
    with pytest.raises(BadObject, match="data"):
        list(read_series(body, Flaws()))


def test_vector() -> None:
    """An instant answer has one point a series."""
    item = {"metric": {"pod": "web-0"}, "value": [1767571200, "1"]}
    (found,) = read_series(answer(item, kind="vector"), Flaws())
    assert found.times == [1767571200.0]


def test_warnings_are_told_in_short() -> None:
    """What Prometheus warns of is passed on, but no more than a few sentences."""
    flaws = Flaws()
    list(read_series(answer(warnings=["slow"] * 9), flaws))
    assert flaws.sentences == ["Prometheus warns: slow"] * 5


@given(body=st.dictionaries(st.sampled_from(["data", "result", "status"]), ANYTHING))
def test_junk(body: dict[str, Any]) -> None:
    """Whatever is answered, it is read or refused."""
    with suppress(BadObject):
        list(read_series(body, Flaws()))


@given(item=ANYTHING, points=ANYTHING)
def test_junk_in_series(item: object, points: object) -> None:
    """Whatever stands in a series, the next one is read."""
    bodies = [item] if isinstance(item, dict) else []
    body = answer(*bodies, {"metric": {}, "values": points}, GOOD)
    assert len(list(read_series(body, Flaws()))) >= 1


def test_labels_that_are_missing() -> None:
    """The sentence about a missing label says what there is instead."""
    found = Series({"pod": "web-0"}, [], [])
    assert label(found, "pod") == "web-0"
    with pytest.raises(BadObject, match="no label name: pod=web-0"):
        label(found, "name")
    with pytest.raises(BadObject, match="no labels at all"):
        label(Series({}, [], []), "name")


@cases(
    "value expected",
    {
        "an amount": (0.25, 250),
        "cut, not rounded": (0.0019, 1),
        "nothing": (0.0, 0),
        "below zero": (-1.0, -1),
        "not a number": (float("nan"), -1),
        "infinite": (float("inf"), -1),
        "huge": (1e300, 10**14),
        "infinitely little": (float("-inf"), -1),
    },
)
def test_amounts(value: float, expected: int) -> None:
    """Amounts that cannot be are none."""
    assert amounts(np.array([value]), 1000.0).tolist() == [expected]
