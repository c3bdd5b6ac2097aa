"""Curves of usage, and how annotations tell them."""

from __future__ import annotations

from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import BadObject
from app.ports import Json
from app.sandbox.load import ANNOTATION, Exit, Load, Moment, Startup, chance, load_of
from tests.cases import cases
from tests.sandbox.worlds import container, pod

HOUR = 3600.0
MEBI = 2.0**20


def told(text: str, *, own: str = "", labels: Json | None = None, leads: bool = False) -> Load:
    """The load of a container that annotations tell of."""
    found = pod(metadata={"labels": labels or {}, "annotations": {ANNOTATION: text}})
    if own:
        found["metadata"]["annotations"][f"{ANNOTATION}.app"] = own
    return load_of(found, container(), leads=leads)


def cpu(load: Load, hour: float, *, age: float = 0, who: int = 0) -> float:
    """What it wants of the cpu at an hour of the day."""
    return load.at(Moment(hour * HOUR, age, who), starting=False).cpu_cores


@cases(
    "text hour expected",
    {
        "constant": ("cpu: constant 250m", 3, 0.25),
        "daily at its highest": ("cpu: daily 100m 900m", 14, 0.9),
        "daily at its lowest": ("cpu: daily 100m 900m", 2, 0.1),
        "daily in between": ("cpu: daily 100m 900m", 8, 0.5),
        "the first step": ("cpu: steps 2h 100m 300m 200m", 1.9, 0.1),
        "the next step": ("cpu: steps 2h 100m 300m 200m", 2, 0.3),
        "the first step again": ("cpu: steps 2h 100m 300m 200m", 6, 0.1),
        "half of the request unless told": ("", 0, 0.05),
    },
)
def test_curves(text: str, hour: float, expected: float) -> None:
    """A curve gives its value at a time."""
    assert cpu(told(f"noise: 0, {text}" if text else "noise: 0"), hour) == pytest.approx(expected)


def test_spikes() -> None:
    """A spike comes every so often, for so long, and not for all at once."""
    load = told("cpu: spiky 1 3 10m 1m, noise: 0")
    seen = [[cpu(load, second / HOUR, who=who) for second in range(1800)] for who in (1, 2)]

    assert set(seen[0]) == {1.0, 3.0}
    assert [values.count(3.0) for values in seen] == [180, 180]
    assert seen[0] != seen[1]


def test_leaks_begin_with_the_container() -> None:
    """The age counts, not the time of day."""
    load = told("memory: leaking 100Mi 50Mi, noise: 0")
    found = load.at(Moment(12345.0, 2 * HOUR, 0), starting=False)

    assert found.memory_bytes == pytest.approx(200 * MEBI)


@cases(
    "text expected",
    {
        "the cpu of all": ("shared: cpu", (0.25, 64 * MEBI)),
        "the memory of all": ("shared: memory", (1.0, 16 * MEBI)),
        "each its own": ("noise: 0", (1.0, 64 * MEBI)),
        "of each, whatever the start wants": ("shared: cpu, startup: 2 60", (0.25, 64 * MEBI)),
    },
)
def test_loads_that_pods_share(text: str, expected: tuple[float, float]) -> None:
    """A pod has its part of a shared resource, and all of the other one."""
    load = told(f"cpu: constant 1, memory: constant 64Mi, noise: 0, {text}")

    assert load.at(Moment(0, 0, 0, part=0.25), starting=False) == pytest.approx(expected)
    if load.startup:
        assert load.at(Moment(0, 0, 0, part=0.25), starting=True).cpu_cores == 2


def test_start_up() -> None:
    """While it starts a program wants what its start wants; less cpu makes it longer."""
    load = told("cpu: constant 100m, startup: 2 60, noise: 0")

    assert load.startup == Startup(2.0, 60.0)
    assert load.startup.seconds(8) == 30
    assert load.startup.seconds(0.5) == 120
    assert load.at(Moment(0, 0, 0), starting=True).cpu_cores == 2
    assert load.at(Moment(0, 0, 0), starting=False).cpu_cores == pytest.approx(0.1)


def test_programs_that_end() -> None:
    """After so long, with a code."""
    assert told("exit: 1m30s").exit == Exit(90, 0)
    assert told("exit: 5s 3").exit == Exit(5, 3)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [({"role": "leader"}, 2.0), ({"role": "follower"}, 0.5), ({}, 0.1)],
)
def test_leader_and_followers(labels: Json, expected: float) -> None:
    """Labels choose among loads."""
    text = (
        "cpu: constant 100m, noise: 0; role=leader -> cpu: constant 2; "
        "role=follower -> cpu: constant 500m"
    )
    assert cpu(told(text, labels=labels), 0) == pytest.approx(expected)


@pytest.mark.parametrize(("leads", "expected"), [(True, 2.0), (False, 0.1)])
def test_who_leads(leads: bool, expected: float) -> None:
    """Who holds the Lease that is named has another load; no label is needed for it."""
    load = told("elects: db, cpu: constant 100m, noise: 0; leads -> cpu: constant 2", leads=leads)

    assert (load.elects, cpu(load, 0)) == ("db", expected)


def test_a_container_may_have_its_own() -> None:
    """What is told of one container outweighs what is told of all."""
    load = told("cpu: constant 1, noise: 0", own="cpu: constant 3")

    assert cpu(load, 0) == 3


@pytest.mark.parametrize(
    "text",
    [
        "cpu",
        "cpu: often",
        "shared: disk",
        "cpu: steps 2h",
        "cpu: constant",
        "cpu: constant much",
        "cpu: daily 1",
        "cpu: spiky 1 2 3",
        "gpu: constant 1",
        "startup: 1",
        "exit: soon",
        "noise: loud",
        "leader -> cpu: constant 1",
    ],
)
def test_what_cannot_be_read(text: str) -> None:
    """A clause that makes no sense is named."""
    with pytest.raises(BadObject, match="is no"):
        told(text)


def test_noise() -> None:
    """Values swing around the curve, as far as told, the same for the same moment."""
    load = told("cpu: constant 1, noise: 0.2")
    seen = [cpu(load, hour / 60, who=7) for hour in range(2000)]

    assert seen == [cpu(load, hour / 60, who=7) for hour in range(2000)]
    assert all(0.8 <= value <= 1.2 for value in seen)
    assert mean(seen) == pytest.approx(1, abs=0.02)
    assert len(set(seen)) > 1900


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_chance(one: int, other: int) -> None:
    """It is a share, whatever it is made of."""
    assert 0 <= chance(one, other) < 1
