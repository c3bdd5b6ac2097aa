"""Prometheus is asked for ranks of pods, and its answers become series on a grid."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from app.model.errors import BadObject
from app.model.quantity import CPU, MEMORY
from app.page.core.usage_queries import RangeQuery, range_queries, read_answer
from app.page.core.usage_series import ChartRange
from app.recommender.core.promql import Flaws, PastRules
from tests.cases import cases
from tests.make import NOW
from tests.page.core.usage_samples import at, minutes, question

RULES = PastRules(cadvisor_job="", container_pod_name_label="pod", container_name_label="container")
START = (NOW - timedelta(minutes=59)).timestamp()
STEP = 60


def query(resource: str = CPU) -> RangeQuery:
    """Return what is asked of a resource in the last hour."""
    return next(one for one in range_queries(question(), RULES) if one.resource == resource)


def body(*series: tuple[dict[str, str], list[list[object]]]) -> dict[str, object]:
    """Return an answer."""
    result = [{"metric": labels, "values": values} for labels, values in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def test_queries() -> None:
    """Each resource takes one query, which ranks the pods of each container."""
    cpu, memory = range_queries(question('web-"[a-z]+'), RULES)

    selected = 'pod=~"web-\\"[a-z]+", container!="POD", container!="", namespace="default"'
    rate = f"rate(container_cpu_usage_seconds_total{{{selected}}}[120s])"
    assert cpu.query == (
        f'label_replace(quantile by (container) (0.5, {rate}), "rank", "median", "", "") or '
        f'label_replace(quantile by (container) (0.95, {rate}), "rank", "high", "", "") or '
        f'label_replace(max by (container) ({rate}), "rank", "highest", "", "")'
    )
    assert f"max_over_time(container_memory_working_set_bytes{{{selected}}}[120s])" in memory.query


@cases(
    "chart points window",
    {
        "an hour": (ChartRange.HOUR, 60, "[120s]"),
        "a day": (ChartRange.DAY, 288, "[300s]"),
        "a fortnight": (ChartRange.FORTNIGHT, 336, "[3600s]"),
    },
)
def test_queries_are_bounded(chart: ChartRange, points: int, window: str) -> None:
    """However long the range, an answer has few points; each stands for the step before it."""
    found = next(range_queries(question(chart=chart, end=NOW + minutes(0.4)), RULES))

    assert (found.end - found.start) / found.step + 1 == points
    assert found.end == NOW
    assert window in found.query


def test_answer() -> None:
    """Points come to their steps in our units; those that cannot be are left out."""
    flaws = Flaws()
    found = read_answer(
        query(),
        body(
            ({"container": "app", "rank": "median"}, [[START, "0.25"], [START + 60, "NaN"]]),
            ({"container": "app", "rank": "high"}, [[START, "0.5"], [START - 3600, "9"]]),
            ({"container": "app", "rank": "highest"}, [[START, "1"], [START + 60, "-3"]]),
            ({"container": "jvm", "rank": "highest"}, [[START, "2"]]),
            ({"rank": "median"}, [[START, "9"]]),
            ({"container": "app"}, [[START, "9"]]),
        ),
        RULES,
        flaws,
    )

    before = NOW - minutes(60)
    assert at(found["app", CPU], before) == [250, 500, 1000]
    assert at(found["app", CPU], before + minutes(1)) == [None] * 3
    assert at(found["jvm", CPU], before) == [None, None, 2000]
    assert set(found) == {("app", CPU), ("jvm", CPU)}


def test_memory_is_in_bytes() -> None:
    """Memory is not scaled."""
    answer = body(({"container": "app", "rank": "median"}, [[START, "1048576"]]))
    found = read_answer(query(MEMORY), answer, RULES, Flaws())

    assert np.nanmax(found["app", MEMORY].median) == 2**20


def test_series_that_cannot_be_read() -> None:
    """They are noted, and the others are read."""
    flaws = Flaws()
    answer = body(
        ({"container": "app", "rank": "median"}, [["x"]]),
        ({"container": "jvm", "rank": "median"}, [[START, "1"]]),
    )

    assert set(read_answer(query(), answer, RULES, flaws)) == {("jvm", CPU)}
    assert flaws.sentences == ["data.result[0]: has points that cannot be read"]


def test_no_answer() -> None:
    """What is no answer is an error."""
    with pytest.raises(BadObject):
        read_answer(query(), {"data": {"resultType": "string"}}, RULES, Flaws())
