"""A workload has a pair of charts for each container."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np

from app.model.quantity import CPU, MEMORY
from app.page.core.charts import ChartLevel, LevelKind, chart_html
from app.page.core.usage_series import KnownUsage, UsageSeries
from app.page.core.workload_charts import workload_charts
from tests.make import NOW
from tests.page.core.drawn import of_class, parsed, texts
from tests.page.core.usage_samples import question

QUESTION = question()
END = int(NOW.timestamp())
LEVELS = {
    ("proxy", CPU): {LevelKind.REQUEST: ChartLevel(10)},
    ("web", CPU): {LevelKind.REQUEST: ChartLevel(100), LevelKind.TARGET: ChartLevel(50)},
    ("web", MEMORY): {LevelKind.REQUEST: ChartLevel(2**20)},
}
SERIES = UsageSeries(END - 7200, 3600, *(np.array([1.0, 2.0]) for _ in range(3)))


def drawn(answer: KnownUsage) -> list[ET.Element]:
    """Return the charts as they are drawn."""
    return [parsed(chart_html(one)) for one in workload_charts(QUESTION, answer, LEVELS)]


def test_charts() -> None:
    """Containers that have a target stand first; what is not known is said."""
    answer = KnownUsage({("web", CPU): SERIES, ("aaa", CPU): SERIES}, "metrics.k8s.io")
    found = drawn(answer)

    assert [texts(one[0]).rpartition(" 2026")[0] for one in found] == [
        "CPU of web",
        "Memory of web",
        "CPU of aaa",
        "CPU of proxy",
    ]
    assert [bool(of_class(one, "chart-note")) for one in found] == [False, True, False, True]


def test_times() -> None:
    """A chart shows the time of its usage, else what was asked for; a problem is said on each."""
    answer = KnownUsage({("web", CPU): SERIES}, "metrics.k8s.io", "only a part")
    first, second, _ = drawn(answer)

    plots = [of_class(one, "plot")[0] for one in (first, second)]
    assert [one.get("data-start") for one in plots] == [f"{END - 7200}", f"{END - 3600}"]
    assert [one.get("data-end") for one in plots] == [f"{END}", f"{END}"]
    assert texts(of_class(first, "chart-note")[0]) == "only a part"


def test_many_containers() -> None:
    """A page has room for a dozen charts."""
    levels = {(f"c{number}", CPU): {LevelKind.REQUEST: ChartLevel(1)} for number in range(40)}

    assert len(workload_charts(QUESTION, KnownUsage({}, ""), levels)) == 12
