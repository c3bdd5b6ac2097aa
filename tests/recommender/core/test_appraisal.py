"""Which rows take part, and what they show."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from app.recommender.core.estimation import estimate_rows, rows_in_use
from app.recommender.core.moments import DAY, nanoseconds
from app.recommender.core.rules import (
    EstimatorRules,
    PublishRules,
    RecommenderRules,
    container_rules,
)
from app.recommender.core.tables import RowTable
from tests import make
from tests.recommender.core.scene import GI, START, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))


def shown(scene: Scene) -> dict[str, str]:
    """Tick, and return the targets."""
    scene.tick()
    return {name: one["target"] for name, one in scene.shown().items()}


def test_containers_that_are_off_share_nothing() -> None:
    """W84: the floor is shared by those that take part; all are stored."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("log", mode="Off")])
    scene.pod("web-0", "app", "log", "proxy")
    for container in ("app", "log", "proxy"):
        scene.use(1, 1, container=container)

    assert shown(scene) == dict.fromkeys(("app", "proxy"), "12m 125Mi")
    assert len(scene.store()) == 3


@pytest.mark.parametrize(
    ("omits", "expected"),
    [
        pytest.param(True, {"app": "11m -"}, id="left out"),
        pytest.param(
            False,
            {"app": "11m 87381333", "log": "8m 87381333", "proxy": "8m 87381333"},
            id="W61: floors",
        ),
    ],
)
def test_containers_without_samples(omits: bool, expected: dict[str, str]) -> None:
    """What was never sampled is not shown, but has its share of the floor."""
    scene = Scene(replace(EAGER, estimator=EstimatorRules(omit_unsampled=omits)))
    scene.vpa()
    scene.pod("web-0", "app", "log", "proxy")
    scene.use(cpu=1)

    assert shown(scene) == expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(["memory"], "- 1238659775", id="W83: memory only"),
        pytest.param([], "- -", id="nothing"),
    ],
)
def test_controlled_resources(resources: list[str], expected: str) -> None:
    """Only controlled resources are shown; a container without any is an empty entry."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("*", resources=resources)])
    scene.pod()
    scene.use(100, GI)

    assert shown(scene) == {"app": expected}


@pytest.mark.parametrize(
    ("stale_after", "hours", "others", "expected"),
    [
        pytest.param(24, 23, True, ["app", "log"], id="gone for less than a day"),
        pytest.param(24, 25, True, ["app"], id="gone for a day while others live"),
        pytest.param(24, 25, False, ["app", "log"], id="gone with all the others"),
        pytest.param(None, 25, True, ["app", "log"], id="never stale"),
    ],
)
def test_stale_containers(
    stale_after: int | None, hours: int, others: bool, expected: list[str]
) -> None:
    """A container that no pod has any more is left out, and its share goes to the others."""
    after = None if stale_after is None else timedelta(hours=stale_after)
    scene = Scene(replace(EAGER, estimator=EstimatorRules(stale_after=after)))
    scene.vpa()
    scene.pod("web-0", "app", "log")
    for container in ("app", "log"):
        scene.use(1, 1, container=container)
    scene.drop("web-0")
    scene.tick()
    scene.go(hours * 60)
    if others:
        scene.pod("web-1", "app")

    share = "25m 250Mi" if expected == ["app"] else "12m 125Mi"
    assert shown(scene) == dict.fromkeys(expected, share)


def test_amounts_that_are_not_shown_are_zero() -> None:
    """Changes of what nobody sees are no changes."""
    table, rules = RowTable(EAGER.aggregation), EAGER
    row = table.start("app", 0)
    table.follow(row, 0, container_rules(make.vpa(), "app", rules))
    table.learn_cpu(np.array([row]), np.array([1000]), np.array([DAY]))

    found = estimate_rows(table, rows_in_use(table), nanoseconds(START), rules)

    assert found.amounts[0].tolist() == [1168, 25, 10**14, 0, 0, 0]


def test_no_rows() -> None:
    """Nothing to estimate_rows is no trouble."""
    table = RowTable(EAGER.aggregation)

    assert estimate_rows(table, rows_in_use(table), 0, EAGER).amounts.shape == (0, 6)
