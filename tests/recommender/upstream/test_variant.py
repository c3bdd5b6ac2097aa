"""What is ours is turned back, what flags set is kept; usage is read as upstream reads it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.errors import BadObject
from app.model.times import PrometheusDuration
from app.recommender.core.reading import ReadingStage
from app.recommender.core.rules import EstimatorRules, PublishRules, RecommenderRules
from app.recommender.core.usage import ABSENT, ExternalQuestion, read_metrics
from app.recommender.upstream.variant import ReadingOnce, as_upstream, pod_items
from tests.cases import cases
from tests.recommender.core.test_reading import CUT, END, RULES, answer, asked, series
from tests.recommender.core.test_usage import CPU, MEMORY, value
from tests.recommender.core.test_usage import RULES as EXTERNAL
from tests.recommender.core.test_usage import answer as metrics


def test_flags_and_gates_are_kept() -> None:
    """Neither flags nor gates change, and every tick is written."""
    publish, estimator = PublishRules(), EstimatorRules(margin_fraction=0.5)
    rules = RecommenderRules(
        name="perf",
        estimator=estimator,
        per_vpa_config=True,
        memory_saver=True,
    )

    found = as_upstream(rules)

    assert (found.name, found.per_vpa_config, found.memory_saver) == ("perf", True, True)
    assert (found.publish.refresh, found.publish.checkpoint_age) == (timedelta(0), timedelta(0))
    assert found.estimator == replace(estimator, omit_unsampled=False, stale_after=None)
    assert replace(found, estimator=estimator, publish=publish) == rules


_BARE = replace(RULES, pod_labels_metric="kube_pod_labels")
NAMES = {"namespace": "default", "pod": "web-0", "container": "app"}


def test_pod_items() -> None:
    """A pod is one item at the time of the first value of its last answer, whatever is told."""
    later = "2026-01-05T00:01:00Z"
    told = [
        (CPU, metrics(value("250m"), value("1", "log"))),
        (MEMORY, metrics(value("1Mi", timestamp=later, window=60))),
        (ExternalQuestion("default", "web-1", "cpu", "cpu", ""), metrics()),
    ]
    (item,) = pod_items(told, EXTERNAL)
    found = read_metrics({"items": [item]})

    assert (item["timestamp"], item["window"]) == (later, "60s")
    assert found.cpu_millicores.tolist() == [250, 1000]
    assert found.memory_bytes.tolist() == [2**20, ABSENT]


def test_one_piece() -> None:
    """However many points there are, they are asked for at once, and never differently."""
    reading = ReadingOnce(
        replace(RULES, resolution=PrometheusDuration("1s", timedelta(seconds=1))), END
    )
    assert not reading.was_refused(is_too_much=True)
    question = asked(reading)
    assert (question.start, question.end) == (CUT - timedelta(days=8), CUT)
    reading.take(answer())
    assert reading.stage is ReadingStage.MEMORY


def test_labels_are_asked_for_as_they_are_named() -> None:
    """A bare selector gets no range, and one series without a label spoils the answer."""
    reading = ReadingOnce(_BARE, END)
    for _ in range(2):
        reading.take(answer())
    assert asked(reading).query == "kube_pod_labels"
    with pytest.raises(BadObject, match="no label"):
        reading.take(answer(series({"pod": "x"}, (CUT, 1))))


@cases(
    "bad message",
    {
        "label": (series({"namespace": "a", "pod": "b"}, (CUT, 1)), "no label"),
        "half a point": ({"metric": NAMES, "values": [[1]]}, r"data\.result\[0\]"),
    },
)
def test_one_bad_series(bad: dict[str, object], message: str) -> None:
    """It spoils the answer."""
    with pytest.raises(BadObject, match=message):
        ReadingOnce(RULES, END).take(answer(bad))


def test_vector() -> None:
    """An instant answer is none."""
    body = {"data": {"resultType": "vector", "result": []}}
    with pytest.raises(BadObject, match="resultType"):
        ReadingOnce(RULES, END).take(body)


@cases(
    "value expected",
    {
        "an amount": (0.25, 250),
        "below zero": (-1.0, 0),
        "not a number": (float("nan"), -1),
        "infinite": (float("inf"), 10**14),
        "infinitely little": (float("-inf"), 0),
    },
)
def test_amounts(value: float, expected: int) -> None:
    """Amounts that cannot be are bent until they can, but for what is not a number."""
    reading = ReadingOnce(RULES, END)
    reading.take(answer(series(NAMES, (CUT, value))))
    assert reading.usage().cpu_millicores[0, -1] == expected
