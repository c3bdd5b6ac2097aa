"""External metrics become usage, value by value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from app.model.errors import BadObject
from app.model.selectors import EVERYTHING, Selector
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import (
    ExternalQuestion,
    ExternalRules,
    external_items,
    external_questions,
    read_metrics,
    unfinished,
)
from tests import make
from tests.junk import ANYTHING

RULES = ExternalRules("cpu", "memory", "container")
WEB = Selector.of_labels(make.LABELS)
CPU = ExternalQuestion("default", "web-0", "cpu", "cpu", "app=web,pod=web-0")
MEMORY = ExternalQuestion("default", "web-0", "memory", "memory", "app=web,pod=web-0")
AT = "2026-01-05T00:00:00Z"


def value(amount: object, container: str = "app", **more: object) -> dict[str, Any]:
    """Return a value of an answer."""
    labels = {"container": container} if container else {}
    return {"metricLabels": labels, "timestamp": AT, "value": amount, **more}


def answer(*values: object) -> dict[str, Any]:
    """Return an answer."""
    return {"kind": "ExternalMetricValueList", "items": list(values)}


def test_questions() -> None:
    """Each pod of a VPA is asked for each resource, once, by the selector and its name."""
    pods = {
        "default": [
            make.pod(name="web-0"),
            make.pod(name="done", status={"phase": "Succeeded"}),
            make.pod(name="db-0", labels={"app": "db"}),
        ]
    }
    vpas = [
        ObservedVpa(make.vpa("web"), WEB),
        ObservedVpa(make.vpa("other"), WEB),
        ObservedVpa(make.vpa("lost"), None, "no such target"),
        ObservedVpa(make.vpa("all"), EVERYTHING),
    ]
    found = external_questions(
        vpas, lambda name: unfinished(pods.get(name, [])), RULES, SkippedObjects()
    )

    assert [(one.pod, one.resource, one.selector) for one in found] == [
        ("web-0", "cpu", "app=web,pod=web-0"),
        ("web-0", "memory", "app=web,pod=web-0"),
        ("db-0", "cpu", "pod=db-0"),
        ("db-0", "memory", "pod=db-0"),
    ]
    rules = ExternalRules("", "memory")
    alone = external_questions(
        vpas, lambda name: unfinished(pods.get(name, [])), rules, SkippedObjects()
    )
    assert {one.metric for one in alone} == {"memory"}


def test_items() -> None:
    """Each value is a sample of one resource, at its own time; the other is not told."""
    values = [value("250m", window=30), value("1", "log"), value("2", "")]
    found = read_metrics({"items": external_items(CPU, answer(*values), RULES)})

    assert found.problems == []
    assert found.batch.containers == [("default", "web-0", "app"), ("default", "web-0", "log")]
    assert found.batch.cpu_millicores.tolist() == [250, 1000]
    assert found.batch.memory_bytes.tolist() == [-1, -1]
    assert found.batch.windows_ns.tolist() == [30 * 10**9, 0]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"items": {}}, id="no list"),
        pytest.param({"items": [1]}, id="no values"),
        pytest.param(answer({"metricLabels": ["app"]}), id="no labels"),
    ],
)
def test_bad_answers(body: dict[str, Any]) -> None:
    """What is no answer is refused with the field that is wrong."""
    with pytest.raises(BadObject, match="items"):
        external_items(CPU, body, RULES)


@given(item=ANYTHING, amount=ANYTHING)
def test_junk(item: object, amount: object) -> None:
    """Whatever a value says, the others count."""
    values = [value(amount, window=item, timestamp=amount), value("1")]
    found = read_metrics({"items": external_items(CPU, answer(*values), RULES)})
    assert found.batch.cpu_millicores[-1] == 1000
