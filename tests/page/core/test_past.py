"""The past under other settings is drawn as usage is."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from app.page.core.charts import LevelKind, MarkKind, chart_html
from app.page.core.past import PastAmounts, past_charts
from tests.page.core.drawn import of_class, parsed, texts

START = int(datetime(2026, 1, 5, 10, tzinfo=UTC).timestamp())
TOLD = PastAmounts(
    START,
    3600,
    used=np.array([[100.0, 2**20], [np.nan, np.nan], [200.0, 2**21]]),
    requested={
        LevelKind.REQUEST: np.array([[500.0, 2**22]] * 3),
        LevelKind.PRESENT: np.array([[500.0, 2**22], [250.4, 2**22], [250.4, 2**21]]),
    },
    kills=np.array([0, 2, 0]),
)


def test_a_chart_for_each_resource() -> None:
    """A chart shows the whole recording, and requests where they change, an hour's at its end."""
    cpu, memory = past_charts(TOLD, "shop.npz")

    assert (cpu.start, cpu.end, cpu.source) == (START, START + 3 * 3600, "shop.npz")
    changes = cpu.levels[LevelKind.PRESENT].changes
    assert [(at.hour, amount) for at, amount in changes] == [(11, 500), (12, 250)]
    assert memory.levels[LevelKind.PRESENT].now == 2**21
    assert [amount for _, amount in cpu.levels[LevelKind.REQUEST].changes] == [500]


def test_kills_are_marks() -> None:
    """A mark tells when containers were killed, and how many."""
    (mark,) = past_charts(TOLD, "shop.npz")[0].marks

    assert (mark.at.hour, mark.kind, mark.text) == (11, MarkKind.KILL, "2 in the recording")


def test_settings_are_named() -> None:
    """Each setting is a line of its own with its name in the legend."""
    drawn = parsed(chart_html(past_charts(TOLD, "shop.npz")[0]))

    assert {one.tag for one in of_class(drawn, "present")} == {"path", "div"}
    assert "the present flags" in texts(drawn)
