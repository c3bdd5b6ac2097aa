"""Pod metrics become columns; what cannot be read costs itself alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, SupportsIndex

import pytest

from app.recommender.core.moments import SECOND, nanoseconds
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.usage import ABSENT, REFUSED, Metrics, UsageLimits, read_metrics

NOW = nanoseconds(datetime(2026, 1, 5, 10, tzinfo=UTC))


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


LIMITLESS = UsageLimits(absent=0, most=float("inf"))


def read(*items: object, limits: UsageLimits | None = None) -> Metrics:
    """Read a list of items."""
    return read_metrics({"items": list(items)}, limits)


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
    batch = read_metrics({"items": [odd, sound]}, skipped=skipped).batch

    assert [key[1:] for key in batch.containers] == [("web-0", "app"), ("web-1", "app")]
    assert batch.cpu_millicores.tolist() == [1000, 3000]
    assert batch.memory_bytes.tolist() == [1, 3]
    assert [(one.kind, one.name) for one in skipped.taken()] == [("usage", "default/web-0")]


def test_columns() -> None:
    """W96: each container becomes a line; amounts are rounded up."""
    found = read(
        item(used(cpu="498501465n", memory="656Ki"), used("sidecar", cpu="1500m", memory=5))
    )

    batch = found.batch
    assert batch.containers == [("default", "web-0", "app"), ("default", "web-0", "sidecar")]
    assert batch.cpu_millicores.tolist() == [499, 1500]
    assert batch.memory_bytes.tolist() == [671_744, 5]
    assert batch.times.tolist() == [NOW, NOW]
    assert batch.windows_ns.tolist() == [17 * SECOND] * 2
    assert (len(batch), found.problems, found.batch.unreadable) == (2, [], 0)


@pytest.mark.parametrize(
    ("usage", "limits", "expected", "problem"),
    [
        pytest.param({}, None, (ABSENT, ABSENT), "", id="nothing told"),
        pytest.param({}, LIMITLESS, (0, 0), "", id="nothing told counts as nothing used"),
        pytest.param({"cpu": "1"}, None, (1000, ABSENT), "", id="cpu alone"),
        pytest.param(
            {"cpu": "-1", "memory": "-5Mi"},
            None,
            (REFUSED, REFUSED),
            "metrics of default/web-0/app: cpu: -1 is negative",
            id="negative",
        ),
        pytest.param(
            {"cpu": "much", "memory": "1Ki"},
            None,
            (REFUSED, 1024),
            "metrics of default/web-0/app: cpu: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="no quantity",
        ),
        pytest.param(
            {"cpu": "1e300", "memory": "100000000000001"},
            None,
            (REFUSED, REFUSED),
            "metrics of default/web-0/app: cpu: 1e300 is too much",
            id="huge",
        ),
        pytest.param(
            {"cpu": "1e30", "memory": "1e30"}, LIMITLESS, (2**62, 2**62), "", id="huge is the most"
        ),
        pytest.param(
            {"cpu": "1.5n", "memory": "1.5Ki"}, None, (1, 1536), "", id="not the usual form"
        ),
    ],
)
def test_amounts(
    usage: dict[str, Any], limits: UsageLimits | None, expected: tuple[int, int], problem: str
) -> None:
    """Amounts that cannot be are refused one by one."""
    found = read(item(used(**usage)), limits=limits)

    assert (found.batch.cpu_millicores[0], found.batch.memory_bytes[0]) == expected
    assert problem in "".join(found.problems[:1])
    assert bool(problem) == bool(found.problems)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        pytest.param(item(used(), timestamp=None), "default/web-0: timestamp: is", id="no time"),
        pytest.param(item(used(), timestamp="noon"), 'timestamp: "noon" is no', id="no such time"),
        pytest.param(item(used(), metadata=[]), "pod ?: metadata: expected", id="no name"),
        pytest.param(item({"name": 5}), "containers.name: expected", id="container without name"),
        pytest.param(item({"usage": []}), "usage: expected an object", id="no amounts"),
        pytest.param(item(containers={}), "containers: expected a list", id="no list"),
        pytest.param(item(containers=[]), "web-0: containers: there are none", id="no containers"),
    ],
)
def test_broken_items(broken: dict[str, Any], problem: str) -> None:
    """An item that cannot be read is told of, and the next one counts."""
    found = read(broken, item(used(cpu="1")))

    assert found.batch.cpu_millicores.tolist() == [1000]
    assert found.batch.unreadable == 1
    assert problem in found.problems[0]


def test_broken_containers() -> None:
    """A container that cannot be read costs none of its neighbours."""
    found = read(item(used(cpu="1"), {"usage": 1}, used("log", cpu="2")))
    assert (found.batch.cpu_millicores.tolist(), found.batch.unreadable) == ([1000, 2000], 1)


def test_no_items() -> None:
    """An empty list is an empty batch; a missing window is none."""
    assert len(read().batch) == 0
    assert read(item(used(), window="soon")).batch.windows_ns.tolist() == [0]
