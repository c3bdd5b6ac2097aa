"""Pods are changed when the updater's own rules say so, and as sizing says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pytest

from app.backtest.core.learning import Recommended
from app.backtest.core.recorded_fleet import Fleet, RecordedWorkload, fleet_of
from app.backtest.core.settings import Given, Setting
from app.backtest.core.updating import Killed, Updating
from app.backtest.recording import RecordedContainer
from app.model.limits import combined_limits
from app.model.quantity import CPU, MEMORY, Quantity
from app.model.update_modes import UpdateMode
from app.model.vpa import Vpa
from app.recommender.core.moments import nanoseconds
from app.recommender.core.rules import RecommenderRules
from app.updater.core.decisions import Pair
from app.updater.core.need import Deviation, QuickOom, check_need, no_need
from app.updater.core.pod_targets import growth, measure
from app.updater.core.rules import UpdateRules
from tests import make
from tests.cases import cases

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
RULES = UpdateRules()
RESOURCES = (CPU, MEMORY)
SHOP_WEB = RecordedWorkload("default", "StatefulSet", "web")
NAMES = ("app", "side")
MI = 2**20


def fleet(pods: int = 1, names: Sequence[str] = NAMES) -> Fleet:
    """Return a workload."""
    return fleet_of(
        [
            RecordedContainer("default", "StatefulSet", "web", f"web-{pod}", name)
            for pod in range(pods)
            for name in names
        ]
    )


def updating(
    pods: int = 1,
    mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE,
    given: Given | None = None,
    names: Sequence[str] = NAMES,
) -> Updating:
    """Return what holds for a workload, of which nothing is recommended yet."""
    setting = Setting("usual", RecommenderRules(), mode)
    return Updating(fleet(pods, names), [setting], given or Given(), RULES)


def amounts(*thousandths: Sequence[Sequence[int]]) -> Recommended:
    """Return a recommendation: for each container of cpu, then of memory target, lower, upper."""
    found = np.array(thousandths, dtype=np.int64)
    lines = np.arange(len(found))
    uncapped = found[..., :1]
    shows = np.ones((len(found), 2), dtype=np.bool_)
    return Recommended(lines, shows, np.concatenate([found, uncapped], axis=-1))


@pytest.mark.parametrize("seed", range(300))
def test_a_pod_is_updated_when_the_updater_would(seed: int) -> None:
    """Difference, bounds, age and early kills decide as in the updater."""
    dice = Random(seed)
    mode = dice.choice((UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY))
    found = updating(pods=1, mode=mode, given=Given({SHOP_WEB: make.vpa(min_replicas=1)}))
    requests = [[dice.choice((0, 100, 300)), dice.choice((0, 200 * MI))] for _ in NAMES]
    told = []
    for request in requests:
        of_container: list[list[int]] = []
        for has in request:
            target = max(round((has or 50) * dice.choice((0.7, 0.95, 1, 1.005, 1.02, 1.12))), 1)
            lower, upper = (round(target * dice.uniform(*span)) for span in ((0.8, 1), (1, 1.2)))
            unit = 1 if len(of_container) == 0 else 1000
            of_container.append([target * unit, lower * unit, upper * unit])
        told.append(of_container)
    now = BEGIN + timedelta(hours=dice.choice((1, 11, 12, 30)))
    is_quick = dice.random() < 0.3
    in_cores = np.array([[cpu / 1000, memory] for cpu, memory in requests])
    found.take(np.array([0]), in_cores, np.zeros((2, 2)), nanoseconds(BEGIN))
    found.publish(0, amounts(*told))
    killed = Killed(np.array([0]), np.array([0])) if is_quick else None
    found.update(0, np.ones(2, dtype=np.bool_), nanoseconds(now), killed)
    changes = int(found.resizes.sum() + found.evictions.sum())
    assert changes == _is_needed(requests, told, mode, now, is_quick=is_quick)


def _is_needed(
    requests: Sequence[Sequence[int]],
    told: Sequence[Sequence[Sequence[int]]],
    mode: UpdateMode,
    now: datetime,
    *,
    is_quick: bool,
) -> bool:
    pairs = tuple(
        Pair(
            name,
            resource,
            Quantity.of_milli(has * unit) if has else None,
            Quantity.of_milli(bounds[0]),
            Quantity.of_milli(bounds[1]),
            Quantity.of_milli(bounds[2]),
            True,
        )
        for name, request, of_container in zip(NAMES, requests, told, strict=True)
        for resource, unit, has, bounds in zip(
            RESOURCES, (1, 1000), request, of_container, strict=True
        )
    )
    numbers = measure(pairs)
    deviation = Deviation(numbers.gross_difference, numbers.is_outside, pairs)
    if mode is UpdateMode.UPSCALE_ONLY:
        deviation = growth(pairs)
    if not is_quick and no_need(deviation, RULES) is not None:
        return False
    oom = QuickOom("app", now + timedelta(minutes=5)) if is_quick else None
    return check_need(deviation, oom, BEGIN, RULES, now).is_needed


def applied(given: Given, names: Sequence[str] = ("app",)) -> tuple[list[object], list[object]]:
    """Return requests and limits of a pod that gets 400m and 400 MiB, from 100m and 100 MiB of
    which the limits are twice as much.
    """
    found = updating(given=given, names=names)
    has = np.array([[0.1, 100.0 * MI]] * len(names))
    found.take(np.array([0]), has, 2 * has, nanoseconds(BEGIN))
    target = [[400, 300, 500], [400 * MI * 1000, 300 * MI * 1000, 500 * MI * 1000]]
    found.publish(0, amounts(*([target] * len(names))))
    there = np.ones(len(names), dtype=np.bool_)
    found.update(0, there, nanoseconds(BEGIN + timedelta(minutes=5)))
    in_mi = np.array([1, 1000 * MI])
    return (found.requests[0] / in_mi).tolist(), (found.limits[0] / in_mi).tolist()


def policy(**told: object) -> Given:
    """Return a VPA with a policy for all containers."""
    item = make.policy_json("*", **told)  # type: ignore[arg-type]
    return Given({SHOP_WEB: make.vpa(policies=[item])})


def held(resource: str) -> Given:
    """Return a VPA of which replicas are scaled by a resource."""
    items = make.snapshot(
        make.workload_json(),
        make.vpa_json(),
        make.hpa_json(make.metric_json(resource, 80), target="StatefulSet/web"),
    )
    vpa = items.of("default").vpas["web"]
    assert isinstance(vpa, Vpa)
    return Given({SHOP_WEB: vpa})


def ranged(most: Mapping[str, str]) -> Given:
    """Return a LimitRange."""
    return Given(limits={"default": combined_limits([make.limit_range(most=most)])})


def test_caps_without_a_lower_bound() -> None:
    """What a LimitRange makes of a recommendation without a lower bound is asked for each time."""
    found = updating(given=ranged({"cpu": "600m"}), names=("app",))
    found.take(np.array([0]), np.array([[0.1, 200]]), np.array([[0.2, 200]]), 0)
    for day, target, expected in ((1, 250, 250), (2, 900, 300), (3, 250, 250)):
        found.publish(0, amounts([[target, 0, 2_000], [200_000, 0, 10**9]]))
        found.update(0, np.array([True]), day * 86_400 * 10**9)
        assert found.requests[0, 0, 0] == expected


@cases("given resizes", {"free": (Given(), 1), "held": (held("cpu"), 0)})
def test_what_is_held_is_no_reason_to_update(given: Given, resizes: int) -> None:
    """However far cpu is from its target, an HPA that scales by it keeps it; memory fits."""
    found = updating(given=given, names=("app",))
    found.take(np.array([0]), np.array([[0.1, 200]]), np.zeros((1, 2)), 0)
    found.publish(0, amounts([[900, 800, 1000], [200_000, 1, 10**9]]))
    found.update(0, np.array([True]), 10**9)
    assert found.resizes[0].tolist() == [resizes]


@cases(
    "given requests limits",
    {
        "nothing": (Given(), [[400, 400]], [[800, 800]]),
        "requests alone": (
            policy(values="RequestsOnly"),
            [[200, 200]],
            [[200, 200]],
        ),
        "hpa": (held("cpu"), [[100, 400]], [[200, 800]]),
        "a LimitRange": (
            ranged({"cpu": "600m", "memory": "300Mi"}),
            [[300, 150]],
            [[600, 300]],
        ),
    },
)
def test_sizes_are_those_of_sizing(given: Given, requests: object, limits: object) -> None:
    """Limits follow, stay, or hold requests back; what replicas are scaled by stays."""
    assert applied(given) == (requests, limits)


@pytest.mark.parametrize("hours", [1, 20])
def test_what_is_held_asks_for_no_update(hours: int) -> None:
    """A resource that replicas are scaled by is far from its target, and no pod is changed."""
    found = updating(given=held("cpu"), names=("app",))
    has = np.array([[0.1, 100.0 * MI]])
    found.take(np.array([0]), has, 2 * has, nanoseconds(BEGIN))
    as_it_is = [100 * MI * 1000] * 3
    recommended = amounts([[400, 300, 500], as_it_is])
    found.publish(0, recommended)
    found.publish_memory(0, recommended)
    found.update(0, np.ones(1, dtype=np.bool_), nanoseconds(BEGIN + timedelta(hours=hours)))
    assert found.resizes.sum() == 0


def test_what_is_held_asks_for_nothing_after_a_kill() -> None:
    """Nor if memory is held and recommended again at once."""
    found = updating(given=held("memory"), names=("app",))
    has = np.array([[0.1, 100.0 * MI]])
    found.take(np.array([0]), has, 2 * has, nanoseconds(BEGIN))
    memory = [400 * MI * 1000, 300 * MI * 1000, 500 * MI * 1000]
    found.publish_memory(0, amounts([[100, 100, 100], memory]))
    later_ns = nanoseconds(BEGIN + timedelta(minutes=5))
    found.update(0, np.ones(1, dtype=np.bool_), later_ns, Killed(np.array([0]), np.array([0])))
    assert found.resizes.sum() == 0


def test_what_owners_change() -> None:
    """A pod whose limit is raised keeps what it was given; the new ratio holds for its limit."""
    found = updating(names=("app",))
    has = np.array([[0.1, 100.0 * MI]])
    found.take(np.array([0]), has, 2 * has, nanoseconds(BEGIN))
    found.publish(0, amounts([[400, 300, 500], [400000, 300000, 500000]]))
    found.update(0, np.ones(1, dtype=np.bool_), nanoseconds(BEGIN + timedelta(minutes=5)))
    found.publish(0, amounts([[500, 300, 500], [500000, 300000, 500000]]))
    found.take(np.array([0]), has, 3 * has, nanoseconds(BEGIN + timedelta(hours=1)))
    assert found.requests[0, 0].tolist() == [400, 400000]
    assert found.limits[0, 0].tolist() == [1200, 1200000]
    assert found.resizes.sum() == 1


def test_a_pod_that_would_be_alone_is_not_evicted() -> None:
    """Eviction needs the least number of replicas that policy or updater ask for."""
    evicted = {}
    for living in (1, 2):
        found = updating(pods=2, mode=UpdateMode.RECREATE, names=("app",))
        has = np.array([[0.1, 100.0 * MI]] * 2)
        found.take(np.array([0, 1]), has, 2 * has, nanoseconds(BEGIN))
        found.publish(0, amounts([[400, 300, 500], [400000, 300000, 500000]]))
        there = np.arange(2) < living
        found.update(0, there, nanoseconds(BEGIN + timedelta(minutes=5)))
        evicted[living] = found.evictions[0].tolist()
    assert evicted == {1: [0, 0], 2: [1, 1]}


def test_limit_ranges_bind_the_bounds_too() -> None:
    """A pod at its maximum is as recommended; without containers nothing is asked."""
    found = updating(given=ranged({"cpu": "200m"}), names=("app",))
    has = np.array([[0.1, 100.0 * MI]])
    found.take(np.array([0]), has, 2 * has, nanoseconds(BEGIN))
    as_it_is = 100 * MI * 1000
    found.publish(0, amounts([[400, 300, 500], [as_it_is, as_it_is, as_it_is]]))
    later_ns = nanoseconds(BEGIN + timedelta(days=1))
    found.update(0, np.zeros(1, dtype=np.bool_), later_ns)
    found.update(0, np.ones(1, dtype=np.bool_), later_ns)
    assert found.resizes.sum() == 0
