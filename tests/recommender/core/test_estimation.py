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


@cases(
    "age_ns count expected lower upper",
    {
        "none": (None, 0, 0.0, 0.0, np.inf),
        "one sample": (0, 1, 0.0, 0.0, np.inf),
        "five minutes": (5 * MINUTE, 6, 0.003472, 0.602793, 289),
        "an hour": (HOUR, 61, 0.041667, 0.953674, 25),
        "a day": (DAY, 1441, 1, 0.998003, 2),
        "a week": (7 * DAY, 10081, 7, 0.999714, 1.142857),
        "replicas do not add age": (DAY, 14_410, 1, 0.998003, 2),
        "rare samples": (7 * DAY, 169, 0.117361, 0.983174, 9.52071),
    },
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


@cases("minutes expected", {"18 minutes": (18, 0.5), "a day": (1440, 0.00625)})
def test_confidence_interval(minutes: int, expected: float) -> None:
    """The interval sets what counts as full history."""
    found = confidence(*evidence(16 * MINUTE, 9), timedelta(minutes=minutes))

    assert found[0] == pytest.approx(expected)


@cases(
    "containers cpu memory",
    {
        "one": (1, 25, 262_144_000),
        "two": (2, 12, 131_072_000),
        "three": (3, 8, 87_381_333),
        "four": (4, 6, 65_536_000),
        "seven": (7, 3, 37_449_142),
    },
)
def test_floors(containers: int, cpu: int, memory: int) -> None:
    """Containers share what a pod gets at least."""
    counts = np.array([containers])
    cpu_minimum, memory_minimum = pod_minimum(EstimatorRules())

    assert (floors(cpu_minimum, counts)[0], floors(memory_minimum, counts)[0]) == (cpu, memory)


@cases(
    "base confident floor expected",
    {
        "nothing known, the floor wins": (0, 0.0, 25, (25, 25, 25)),
        "idle": (10, 1.0, 25, (25, 25, 25)),
        "nearly 20 MB": (20_499_999, 1.0, 0, (23_574_998, 23_527_918, 47_149_996)),
        "no confidence": (1000, 0.0, 25, (1150, 25, MOST)),
        "two days": (1000, 2.0, 25, (1150, 1148, 1725)),
    },
)
def test_estimate(base: int, confident: float, floor: int, expected: tuple[int, int, int]) -> None:
    """Each step cuts off to whole amounts; nothing ends below the floor."""
    bases = np.full((1, 3), base)

    found = estimate(bases, bases, np.array([confident]), np.array([floor]), 0.15)

    assert tuple(found.amounts[0]) == expected


@cases(
    "amount expected",
    {
        "towards zero": (1.9, 1),
        "negative": (-3.0, 0),
        "infinite": (np.inf, MOST),
        "too much": (1e15, MOST),
        "undefined": (np.nan, 0),
    },
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


@cases("resources expected", {"memory only": (["memory"], "- 1238659775"), "nothing": ([], "- -")})
def test_controlled_resources(resources: list[str], expected: str) -> None:
    """Only controlled resources are shown; a container without any is an empty entry."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("*", resources=resources)])
    scene.pod()
    scene.use(100, GI)

    assert shown(scene) == {"app": expected}


@cases(
    "stale_after hours others expected",
    {
        "gone for less than a day": (24, 23, True, ["app", "log"]),
        "gone for a day while others live": (24, 25, True, ["app"]),
        "gone with all the others": (24, 25, False, ["app", "log"]),
        "never stale": (None, 25, True, ["app", "log"]),
    },
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
