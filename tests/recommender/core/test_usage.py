"""Usage is read into columns."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import Any, SupportsIndex

import pytest
from hypothesis import given

from app.model.errors import BadObject
from app.model.selectors import EVERYTHING, Selector
from app.recommender.core.estimation import MOST
from app.recommender.core.moments import SECOND, nanoseconds
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import ObservedVpa, handles
from app.recommender.core.usage import (
    ABSENT,
    REFUSED,
    ExternalQuestion,
    ExternalRules,
    UsageBatch,
    external_items,
    external_questions,
    read_metrics,
    unfinished,
)
from tests import make
from tests.cases import cases
from tests.junk import ANYTHING

NOW = nanoseconds(datetime(2026, 1, 5, 10, tzinfo=UTC))

RULES = ExternalRules("cpu", "memory", "container")
WEB = Selector.of_labels(make.LABELS)
CPU = ExternalQuestion("default", "web-0", "cpu", "cpu", "app=web,pod=web-0")
MEMORY = ExternalQuestion("default", "web-0", "memory", "memory", "app=web,pod=web-0")
AT = "2026-01-05T00:00:00Z"


@cases(
    "named by_default by_perf",
    {
        "none named": ([], True, False),
        "the default one": (["default"], True, False),
        "another one": (["perf"], False, True),
    },
)
def test_handles(named: list[str], by_default: bool, by_perf: bool) -> None:
    """A VPA is for the recommenders it names, else for the default one."""
    vpa = make.vpa(spec={"recommenders": [{"name": name} for name in named]})

    assert (handles(vpa, "default"), handles(vpa, "perf")) == (by_default, by_perf)


def item(*containers: object, **more: object) -> dict[str, Any]:
    """Return the metrics of one pod."""
    return {
        "metadata": {"namespace": "default", "name": "web-0"},
        "timestamp": "2026-01-05T10:00:00Z",
        "window": "17s",
        "containers": list(containers),
    } | more


def used(name: str = "app", **usage: object) -> dict[str, Any]:
    """Return the metrics of one container."""
    return {"name": name, "usage": usage}


def read(*items: object, most: float = MOST) -> UsageBatch:
    """Read a list of items."""
    return read_metrics({"items": list(items)}, most)


class OddText(str):
    """A text that our own code fails at."""

    __slots__ = ()

    def __getitem__(self, key: SupportsIndex | slice, /) -> str:
        raise ZeroDivisionError


def test_a_mistake_of_ours_about_one_item() -> None:
    """It costs the rest of that item, and is kept with its name; no amount moves elsewhere."""
    skipped = SkippedObjects()
    odd = item(used(cpu="1", memory="1"), used("odd", cpu="2", memory=OddText("2")))
    sound = item(used(cpu="3", memory="3"), metadata={"namespace": "default", "name": "web-1"})
    batch = read_metrics({"items": [odd, sound]}, skipped=skipped)

    assert [key[1:] for key in batch.containers] == [("web-0", "app"), ("web-1", "app")]
    assert batch.cpu_millicores.tolist() == [1000, 3000]
    assert batch.memory_bytes.tolist() == [1, 3]
    assert [(one.kind, one.name) for one in skipped.taken()] == [("usage", "default/web-0")]


def test_columns() -> None:
    """Each container becomes a line; amounts are rounded up."""
    batch = read(
        item(used(cpu="498501465n", memory="656Ki"), used("sidecar", cpu="1500m", memory=5))
    )

    assert batch.containers == [("default", "web-0", "app"), ("default", "web-0", "sidecar")]
    assert batch.cpu_millicores.tolist() == [499, 1500]
    assert batch.memory_bytes.tolist() == [671_744, 5]
    assert batch.times.tolist() == [NOW, NOW]
    assert batch.windows_ns.tolist() == [17 * SECOND] * 2
    assert (len(batch), batch.problems, batch.unreadable) == (2, [], 0)


@cases(
    "usage most expected problem",
    {
        "nothing told": ({}, MOST, (ABSENT, ABSENT), ""),
        "cpu alone": ({"cpu": "1"}, MOST, (1000, ABSENT), ""),
        "negative": (
            {"cpu": "-1", "memory": "-5Mi"},
            MOST,
            (REFUSED, REFUSED),
            "metrics of default/web-0/app: cpu: -1 is negative",
        ),
        "no quantity": (
            {"cpu": "much", "memory": "1Ki"},
            MOST,
            (REFUSED, 1024),
            "metrics of default/web-0/app: cpu: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        "huge": (
            {"cpu": "1e300", "memory": "100000000000001"},
            MOST,
            (REFUSED, REFUSED),
            "metrics of default/web-0/app: cpu: 1e300 is too much",
        ),
        "huge is the most": ({"cpu": "1e30", "memory": "1e30"}, inf, (2**62, 2**62), ""),
        "not the usual form": ({"cpu": "1.5n", "memory": "1.5Ki"}, MOST, (1, 1536), ""),
    },
)
def test_amounts(
    usage: dict[str, Any], most: float, expected: tuple[int, int], problem: str
) -> None:
    """Amounts that cannot be are refused one by one."""
    found = read(item(used(**usage)), most=most)

    assert (found.cpu_millicores[0], found.memory_bytes[0]) == expected
    assert problem in "".join(found.problems[:1])
    assert bool(problem) == bool(found.problems)


@cases(
    "broken problem",
    {
        "no time": (item(used(), timestamp=None), "default/web-0: timestamp: is"),
        "no such time": (item(used(), timestamp="noon"), 'timestamp: "noon" is no'),
        "no name": (item(used(), metadata=[]), "pod ?: metadata: expected"),
        "container without name": (item({"name": 5}), "containers.name: expected"),
        "no amounts": (item({"usage": []}), "usage: expected an object"),
        "no list": (item(containers={}), "containers: expected a list"),
        "no containers": (item(containers=[]), "web-0: containers: there are none"),
    },
)
def test_broken_items(broken: dict[str, Any], problem: str) -> None:
    """An item that cannot be read is told of, and the next one counts."""
    found = read(broken, item(used(cpu="1")))

    assert found.cpu_millicores.tolist() == [1000]
    assert found.unreadable == 1
    assert problem in found.problems[0]


def test_broken_containers() -> None:
    """A container that cannot be read costs none of its neighbours."""
    found = read(item(used(cpu="1"), {"usage": 1}, used("log", cpu="2")))
    assert (found.cpu_millicores.tolist(), found.unreadable) == ([1000, 2000], 1)


def test_no_items() -> None:
    """An empty list is an empty batch; a missing window is none."""
    assert len(read()) == 0
    assert read(item(used(), window="soon")).windows_ns.tolist() == [0]


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
    assert found.containers == [("default", "web-0", "app"), ("default", "web-0", "log")]
    assert found.cpu_millicores.tolist() == [250, 1000]
    assert found.memory_bytes.tolist() == [-1, -1]
    assert found.windows_ns.tolist() == [30 * 10**9, 0]


@cases(
    "body",
    {
        "no list": ({"items": {}},),
        "no values": ({"items": [1]},),
        "no labels": (answer({"metricLabels": ["app"]}),),
    },
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
    assert found.cpu_millicores[-1] == 1000
