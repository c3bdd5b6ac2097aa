"""From percentiles to amounts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from app.recommender.core.estimation import (
    MOST,
    confidence,
    estimate,
    estimate_rows,
    floors,
    multipliers,
    pod_minimum,
    rows_in_use,
    whole,
)
from app.recommender.core.histograms import Times
from app.recommender.core.moments import DAY, HOUR, MINUTE, UNSET, nanoseconds
from app.recommender.core.rules import (
    EstimatorRules,
    container_rules,
)
from app.recommender.core.tables import LOWER, TARGET, UPPER, RowTable
from tests import make
from tests.cases import cases
from tests.recommender.core.scene import EAGER, GI, START, Scene

FRACTIONS = (0.9, 0.5, 0.95)


def evidence(age_ns: int | None, count: int) -> tuple[Times, Times, Times]:
    """Return the evidence of one row."""
    first, last = (UNSET, UNSET) if age_ns is None else (DAY, DAY + age_ns)
    return np.array([first]), np.array([last]), np.array([count])


@pytest.mark.parametrize(
    ("age_ns", "count", "expected", "lower", "upper"),
    [
        pytest.param(None, 0, 0.0, 0.0, np.inf, id="none"),
        pytest.param(0, 1, 0.0, 0.0, np.inf, id="one sample"),
        pytest.param(5 * MINUTE, 6, 0.003472, 0.602793, 289, id="five minutes"),
        pytest.param(HOUR, 61, 0.041667, 0.953674, 25, id="an hour"),
        pytest.param(DAY, 1441, 1, 0.998003, 2, id="a day"),
        pytest.param(7 * DAY, 10081, 7, 0.999714, 1.142857, id="a week"),
        pytest.param(DAY, 14_410, 1, 0.998003, 2, id="replicas do not add age"),
        pytest.param(7 * DAY, 169, 0.117361, 0.983174, 9.52071, id="rare samples"),
    ],
)
def test_confidence(
    age_ns: int | None, count: int, expected: float, lower: float, upper: float
) -> None:
    """Bounds close in with age and number of samples, whichever says less."""
    found = confidence(*evidence(age_ns, count), timedelta(days=1))
    factors = multipliers(found)[0]

    assert found[0] == pytest.approx(expected, abs=1e-6)
    assert (factors[TARGET], factors[LOWER], factors[UPPER]) == (
        1.0,
        pytest.approx(lower, abs=1e-6),
        pytest.approx(upper, rel=1e-6),
    )


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [pytest.param(18, 0.5, id="18 minutes"), pytest.param(1440, 0.00625, id="a day")],
)
def test_confidence_interval(minutes: int, expected: float) -> None:
    """The interval sets what counts as full history."""
    found = confidence(*evidence(16 * MINUTE, 9), timedelta(minutes=minutes))

    assert found[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("containers", "cpu", "memory"),
    [
        pytest.param(1, 25, 262_144_000, id="one"),
        pytest.param(2, 12, 131_072_000, id="two"),
        pytest.param(3, 8, 87_381_333, id="three"),
        pytest.param(4, 6, 65_536_000, id="four"),
        pytest.param(7, 3, 37_449_142, id="seven"),
    ],
)
def test_floors(containers: int, cpu: int, memory: int) -> None:
    """Containers share what a pod gets at least."""
    counts = np.array([containers])
    cpu_minimum, memory_minimum = pod_minimum(EstimatorRules())

    assert (floors(cpu_minimum, counts)[0], floors(memory_minimum, counts)[0]) == (cpu, memory)


@pytest.mark.parametrize(
    ("base", "confident", "floor", "expected"),
    [
        pytest.param(0, 0.0, 25, (25, 25, 25), id="nothing known, the floor wins"),
        pytest.param(10, 1.0, 25, (25, 25, 25), id="idle"),
        pytest.param(20_499_999, 1.0, 0, (23_574_998, 23_527_918, 47_149_996), id="nearly 20 MB"),
        pytest.param(1000, 0.0, 25, (1150, 25, MOST), id="no confidence"),
        pytest.param(1000, 2.0, 25, (1150, 1148, 1725), id="two days"),
    ],
)
def test_estimate(base: int, confident: float, floor: int, expected: tuple[int, int, int]) -> None:
    """Each step cuts off to whole amounts; nothing ends below the floor."""
    bases = np.full((1, 3), base)

    found = estimate(bases, bases, np.array([confident]), np.array([floor]), 0.15)

    assert tuple(found.amounts[0]) == expected


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        pytest.param(1.9, 1, id="towards zero"),
        pytest.param(-3.0, 0, id="negative"),
        pytest.param(np.inf, MOST, id="infinite"),
        pytest.param(1e15, MOST, id="too much"),
        pytest.param(np.nan, 0, id="undefined"),
    ],
)
def test_whole(amount: float, expected: int) -> None:
    """Amounts are whole and bounded, whatever comes out of a formula."""
    assert whole(np.array([amount]))[0] == expected


def shown(scene: Scene) -> dict[str, str]:
    """Tick, and return the targets."""
    scene.tick()
    return {name: one["target"] for name, one in scene.shown().items()}


def test_containers_that_are_off_share_nothing() -> None:
    """The floor is shared by those that take part; all are stored."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("log", mode="Off")])
    scene.pod("web-0", "app", "log", "proxy")
    for container in ("app", "log", "proxy"):
        scene.use(1, 1, container=container)

    assert shown(scene) == dict.fromkeys(("app", "proxy"), "12m 125Mi")
    assert len(scene.store()) == 3


@cases(
    "omits expected",
    {
        "left out": (True, {"app": "11m -"}),
        "floors": (False, {"app": "11m 87381333", "log": "8m 87381333", "proxy": "8m 87381333"}),
    },
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
        pytest.param(["memory"], "- 1238659775", id="memory only"),
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
    """Changes of what is not shown are no changes."""
    table, rules = RowTable(EAGER.aggregation), EAGER
    row = table.start("app", 0)
    table.follow(row, 0, container_rules(make.vpa(), "app", rules))
    table.learn_cpu(np.array([row]), np.array([1000]), np.array([DAY]))

    found = estimate_rows(table, rows_in_use(table), nanoseconds(START), rules)

    assert found.amounts[0].tolist() == [1168, 25, 10**14, 0, 0, 0]


def test_no_rows() -> None:
    """Without rows there is nothing to estimate."""
    table = RowTable(EAGER.aggregation)

    assert estimate_rows(table, rows_in_use(table), 0, EAGER).amounts.shape == (0, 6)
