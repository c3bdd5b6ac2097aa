"""Charts show what is known, inside of their boxes, whatever they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.model.quantity import CPU, MEMORY
from app.page.core.charts import Chart, ChartLevel, LevelKind, Mark, MarkKind, chart_html
from app.page.core.usage_series import UsageSeries
from tests.cases import cases
from tests.make import NOW
from tests.page.core.drawn import misplaced, of_class, parsed, texts

END = int(NOW.timestamp())
START = END - 3600
TAGS = " figure figcaption div svg text title desc line path rect g dl dt dd b p span "
ATTRIBUTES = (
    " class height width aria-hidden aria-labelledby role tabindex id data-resource data-top "
    "data-start data-end data-of x x1 x2 y y1 y2 dy d viewBox preserveAspectRatio "
)
HOSTILE = st.text() | st.sampled_from([
    "<script>alert(1)</script>", '" onload="x', "</title>", "&lt;", "\u202eabc", "x" * 253
])  # fmt: skip
LEVELS = {LevelKind.REQUEST: ChartLevel(500), LevelKind.TARGET: ChartLevel(140)}
NAN = float("nan")


def usage(
    median: Sequence[float], high: Sequence[float] = (), highest: Sequence[float] = ()
) -> UsageSeries:
    """Return a series; without more words all pods use the same."""
    high, highest = high or median, highest or high or median
    step = 3600 // len(median)
    return UsageSeries(START, step, *(np.array(one, float) for one in (median, high, highest)))


def chart(
    series: UsageSeries | None = None,
    levels: Mapping[LevelKind, ChartLevel] = LEVELS,
    marks: Sequence[Mark] = (),
    *,
    resource: str = CPU,
    problem: str = "",
) -> str:
    """Draw an hour."""
    return chart_html(
        Chart("c1", "CPU of app", resource, START, END, series, levels, marks, problem=problem)
    )


def paths(html: str, css: str) -> list[str]:
    """Return what is drawn of a class."""
    return [one.get("d", "") for one in of_class(parsed(html), css) if one.tag == "path"]


def test_pods_that_differ() -> None:
    """Median, 95 percent and the highest are drawn, and named with their amounts."""
    html = chart(usage([100, 110], [150, 160], [200, 210]))

    assert [len(paths(html, css)) for css in ("median", "high", "highest")] == [1, 1, 1]
    assert "median pod 110m" in spaced(html)
    assert "95 % of pods 160m" in spaced(html)
    assert "highest pod 210m" in spaced(html)


def test_few_pods() -> None:
    """Of a few pods the one at 95 percent is the highest, and is not said twice."""
    html = chart(usage([100, 110], [150, 160]))

    assert len(paths(html, "high")) == 0
    assert "95 %" not in spaced(html)


def spaced(html: str) -> str:
    """Return all words, apart."""
    return " ".join(" ".join(parsed(html).itertext()).split())


def test_pods_that_are_alike() -> None:
    """One pod, or pods that use the same, are one line."""
    html = chart(usage([100, 110]))

    assert (len(paths(html, "median")), len(paths(html, "highest"))) == (1, 0)
    assert "usage 110m" in spaced(html)


def test_a_gap() -> None:
    """Where nothing is known, nothing is drawn; a single point is seen all the same."""
    html = chart(usage([100, NAN, NAN, 110, 120, 130]))

    assert paths(html, "median")[0].count("M") == 2


def test_a_minute_that_is_missing() -> None:
    """In a line of minutes one may be missing."""
    one_missing = [100.0] * 30 + [NAN] + [100.0] * 29
    two_missing = [100.0] * 30 + [NAN] * 2 + [100.0] * 28

    assert paths(chart(usage(one_missing)), "median")[0].count("M") == 1
    assert paths(chart(usage(two_missing)), "median")[0].count("M") == 2


@cases(
    "series problem expected",
    {
        "none": (None, "Prometheus is away", "No usage is known."),
        "nothing known": (usage([NAN, NAN]), "", "No usage is known."),
    },
)
def test_no_usage(series: UsageSeries | None, problem: str, expected: str) -> None:
    """Without usage the levels are drawn, and the chart says why."""
    html = chart(series, problem=problem)

    assert expected in spaced(html)
    assert problem in spaced(html)
    assert len(paths(html, "request")) == 1


def test_levels() -> None:
    """Levels are lines over the whole time; one far above is only written."""
    html = chart(usage([100, 110]), {**LEVELS, LevelKind.LIMIT: ChartLevel(4000)})

    assert paths(html, "request") == ["M0 91 1000 91"]
    assert paths(html, "limit") == []
    assert "limit 4 (above the chart)" in spaced(html)


def test_levels_that_changed() -> None:
    """A level that changed is drawn in steps; of before the first look it is faint."""
    early, late = NOW - timedelta(minutes=30), NOW - timedelta(minutes=15)
    changes = [(early, 400), (early + timedelta(seconds=1), 500), (late, 250)]
    html = chart(None, {LevelKind.REQUEST: ChartLevel(250, changes)})

    assert paths(html, "request") == [
        "M0 91 500 91",
        "M500 91 750 91 750 845 1000 845",
    ]


def test_a_level_of_before() -> None:
    """A change of before the chart begins at its left end."""
    changes = [(NOW - timedelta(days=3), 500)]
    html = chart(None, {LevelKind.REQUEST: ChartLevel(500, changes)})

    assert paths(html, "request") == ["M0 91 1000 91"]


def test_bounds() -> None:
    """Between the bounds there is a space; an upper bound far above reaches to the top."""
    levels = {**LEVELS, LevelKind.LOWER: ChartLevel(100), LevelKind.UPPER: ChartLevel(99_999)}
    space = next(one for one in of_class(parsed(chart(None, levels)), "bounds") if one.get("y"))

    assert space.get("y") == "0"
    assert int(space.get("height", "0")) == 1298
    assert "bounds 100m to 100 (above the chart)" in spaced(chart(None, levels))


def test_a_bound_alone() -> None:
    """A bound without the other one is a line, as is one that changed."""
    html = chart(None, {**LEVELS, LevelKind.LOWER: ChartLevel(100)})
    changed = ChartLevel(200, [(NOW - timedelta(minutes=30), 200)])
    both = chart(None, {**LEVELS, LevelKind.LOWER: ChartLevel(100), LevelKind.UPPER: changed})

    assert "lower bound 100m" in spaced(html)
    assert of_class(parsed(html), "bounds") == []
    assert paths(both, "upper") == ["M0 996 500 996", "M500 996 1000 996"]


def test_marks() -> None:
    """Marks are letters at their times, with words; those together share one, the worst."""
    marks = [
        Mark(NOW - timedelta(minutes=30), MarkKind.RESIZE, "web-0"),
        Mark(NOW - timedelta(minutes=30), MarkKind.KILL, "web-1"),
        Mark(NOW - timedelta(minutes=15), MarkKind.EVICTION, "web-2"),
        Mark(NOW - timedelta(days=9), MarkKind.BOOST, "web-3"),
    ]
    root = parsed(chart(None, marks=marks))
    drawn = [one for one in of_class(root, "mark") if one.tag == "g"]

    assert [texts(one) for one in drawn] == [
        "09:30 resized: web-0 09:30 out of memory: web-1K2",
        "09:45 evicted: web-2E",
    ]
    assert [one.find("line").get("x1") for one in drawn] == ["50.00%", "75.00%"]  # type: ignore[union-attr]  # each has one


def test_many_marks() -> None:
    """However many marks there are, the chart stays small."""
    marks = [
        Mark(NOW - timedelta(seconds=number), MarkKind.RESIZE, "x" * 253) for number in range(3000)
    ]
    html = chart(None, marks=marks)

    assert "and 61 more" in spaced(html)
    assert len(html) < 150_000


def test_size() -> None:
    """A chart of a fortnight with all lines takes less than 20 KB."""
    table = [[base + number * 37 % 100 for number in range(336)] for base in (100, 300, 800)]
    html = chart(usage(*table))

    assert len(html) < 20_000


@given(HOSTILE, HOSTILE)
def test_hostile_names(title: str, text: str) -> None:
    """Names are shown as text, whatever they hold."""
    marks = [Mark(NOW, MarkKind.KILL, text)]
    drawn = chart_html(Chart("c1", title, CPU, START, END, None, LEVELS, marks, problem=text))

    assert drawn.__html__() is drawn
    root = parsed("".join(one for one in drawn if one.isprintable()))
    assert all(f" {one.tag} " in TAGS for one in root.iter())
    assert all(f" {name} " in ATTRIBUTES for one in root.iter() for name in one.attrib)


AMOUNTS = st.one_of(st.floats(0, 1e14), st.just(NAN))


@given(
    st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=40),
    st.dictionaries(st.sampled_from(LevelKind), st.integers(0, 10**14), max_size=5),
    st.lists(st.integers(-90, 90), max_size=9),
    st.sampled_from([CPU, MEMORY]),
)
def test_all_is_inside(
    rows: list[tuple[float, float, float]],
    levels: dict[LevelKind, int],
    at: list[int],
    resource: str,
) -> None:
    """Every coordinate lies inside of its box, and none is not a number."""
    table = np.sort(np.array(rows), axis=1).T
    series = UsageSeries(START, 3600 // len(rows), *table)
    marks = [Mark(NOW - timedelta(minutes=minute), MarkKind.BOOST, "pod") for minute in at]
    known = {kind: ChartLevel(amount) for kind, amount in levels.items()}

    root = parsed(chart(series, known, marks, resource=resource))

    assert list(misplaced(root, 100, 202)) == []
