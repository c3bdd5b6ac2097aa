"""Rows without a VPA wait for one, and expire."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.kinds import ObjectKey
from app.recommender.core.detached import DetachedRows
from app.recommender.core.moments import DAY, HOUR
from app.recommender.core.rules import Extras, PublishRules, RecommenderRules, container_rules
from app.recommender.core.tables import NOWHERE, RowTable
from app.recommender.core.tracked import NO_OWNER
from tests import make
from tests.recommender.core.scene import GI, MI, WEB, Scene

KEY = ("default", "web")
DEFAULTS = RecommenderRules()

RULES = RecommenderRules(
    publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)),
    extras=Extras(retain_unmatched=True),
)


def rows_of(table: RowTable, *containers: str) -> dict[str, int]:
    """Begin rows that belong to the first VPA."""
    rows = {}
    for container in containers:
        row = rows[container] = table.start(container, 0)
        table.follow(row, 0, container_rules(make.vpa(), container, DEFAULTS))
    return rows


def test_rows_come_back_to_their_target() -> None:
    """What a VPA left for another target it gets back for the same one, once."""
    table = RowTable(DEFAULTS.aggregation)
    detached, rows = DetachedRows(table), rows_of(table, "app")
    detached.detach(KEY, ("Deployment", "web"), rows)

    assert table.vpa[rows["app"]] == NOWHERE
    assert detached.take_back(KEY, ("Deployment", "db")) is None
    assert detached.take_back(KEY, ("Deployment", "web")) == rows
    assert detached.take_back(KEY, ("Deployment", "web")) is None


def test_nobody_came_back() -> None:
    """Rows go when their time is over, or when their history has expired."""
    table = RowTable(DEFAULTS.aggregation)
    detached = DetachedRows(table)
    detached.detach(KEY, None, rows_of(table, "app"), until_ns=HOUR)
    detached.detach(KEY, ("Deployment", "web"), rows_of(table, "app", "log"))
    table.last_any[1] = DAY

    assert detached.take_expired(HOUR - 1) == []
    assert detached.take_expired(HOUR) == [(KEY, 0)]
    assert detached.take_expired(8 * DAY) == [(KEY, 2)]
    assert detached.take_expired(9 * DAY) == [(KEY, 1)]
    assert detached.take_back(KEY, ("Deployment", "web")) is None


def used(rules: RecommenderRules = RULES, *, top: ObjectKey | None = WEB) -> Scene:
    """Return a scene in which a pod was used before any VPA came."""
    scene = Scene(rules)
    scene.pod(top=top)
    scene.pod(top=top)
    for minute in range(60):
        scene.go(minute)
        scene.use(1000, GI)
    scene.tick()
    return scene


@pytest.mark.parametrize(
    ("retains", "top", "known"),
    [
        pytest.param(True, WEB, True, id="on demand"),
        pytest.param(False, WEB, False, id="usually not"),
        pytest.param(True, None, False, id="not without knowing its owner"),
        pytest.param(True, NO_OWNER, False, id="not without an owner"),
        pytest.param(True, ObjectKey("", "StatefulSet", "db"), False, id="not of another target"),
    ],
)
def test_a_vpa_that_comes_later(retains: bool, top: ObjectKey | None, known: bool) -> None:
    """A VPA takes over what was learned of its target's pods before it came."""
    extras = replace(RULES.extras, retain_unmatched=retains)
    scene = used(replace(RULES, extras=extras), top=top)
    scene.vpa()
    scene.tick()

    assert bool(scene.shown()) is known


def test_it_goes_on_where_it_was() -> None:
    """Counts and running intervals go over; nothing counts twice, nor for another target."""
    scene = used(replace(RULES, gathers_quality=True))
    scene.pod("db-0", top=ObjectKey("", "StatefulSet", "db"))
    scene.use(50, GI, pod="db-0")
    assert scene.model.quality() == ([], [])
    scene.vpa()
    scene.go(60)
    scene.use(1000, GI - 1)
    scene.use(1000, 2 * GI)

    (stored,) = scene.store()
    assert (stored.count, stored.memory.total) == (61, 0.0)
    assert [one.usage_bytes for one in stored.windows] == [2 * GI]


def test_selectors_do_not_take_over() -> None:
    """What was learned of all pods of a target is not what a part of them needs."""
    scene = used()
    scene.vpa(selector={"matchLabels": {"role": "leader"}})
    scene.tick()

    assert scene.shown() == {}


def test_pods_come_and_go() -> None:
    """New containers, pods that go and pods that lose their VPA are kept as well."""
    scene = used()
    scene.pod("web-0", "app", "log")
    scene.use(50, 400 * MI, container="log")
    scene.pod("web-1")
    scene.use(2000, GI, pod="web-1")
    scene.drop("web-1")
    scene.tick()
    assert scene.model.row_count == 2

    scene.vpa("early")
    scene.model.vpa_gone(("default", "early"), scene.now)
    scene.go(62)
    scene.use(3000, GI)
    scene.go(63)
    scene.vpa("late")
    scene.tick()

    assert {one.container: one.count for one in scene.store()} == {"app": 1}


def test_expiry() -> None:
    """What no VPA came for expires with its pods."""
    scene = used()
    for day in (7, 20):
        scene.go(day * 1440)
        scene.tick()
    assert scene.model.row_count == 1
    scene.pod("web-1", "log")
    scene.drop("web-0")
    scene.tick()
    for day in (27, 29):
        scene.go(day * 1440)
        scene.tick()
    assert scene.model.row_count == 1

    scene.drop("web-1")
    scene.tick()
    scene.go(40 * 1440)
    scene.tick()

    assert scene.model.row_count == 0
