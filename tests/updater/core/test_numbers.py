"""How far a pod is from its recommendation."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.limits import NO_LIMITS
from app.model.quantity import Quantity
from app.sizing.sizing import capped
from app.updater.core.decisions import Numbers, Pair
from app.updater.core.patching import observed_containers
from app.updater.core.targets import measure, pairs_of
from tests import make
from tests.updater.core.scenes import (
    container,
    read,
    recommended,
    running,
    with_status,
)

NEAR = 1e-9


def numbers(
    requests: Mapping[str, str],
    recommendations: Mapping[str, str],
    *,
    observed: str | None = None,
    status: str | None = None,
    policies: list[make.Json] | None = None,
) -> Numbers:
    """Return the numbers of a pod with these containers and recommendations."""
    annotations = None if observed is None else {"vpaObservedContainers": observed}
    item = running(
        *(container(name, text) for name, text in requests.items()), annotations=annotations
    )
    if status is not None:
        item = with_status(item, "a", resources={"requests": make.amounts(status)})
    pod = read(item)
    vpa = make.vpa(
        recommendations=[recommended(text, name) for name, text in recommendations.items()],
        policies=policies,
    )
    current = {found.name: pod.current_resources(found) for found in pod.containers}
    amounts = capped(pod, vpa, NO_LIMITS, current)
    return measure(pairs_of(pod, amounts, current), with_rise=True)


@pytest.mark.parametrize(
    ("requests", "targets", "outside", "up", "difference"),
    [
        pytest.param({"a": "2"}, {"a": "10"}, False, True, 4.0, id="far more"),
        pytest.param({"a": "4"}, {"a": "2"}, False, False, 0.5, id="half"),
        pytest.param({"a": "10m"}, {"a": "900m"}, False, True, 89.0, id="many times more"),
        pytest.param({"a": "4"}, {"a": "10 6 14"}, True, True, 1.5, id="below its bounds"),
        pytest.param({"a": "8"}, {"a": "2 1 3"}, True, False, 0.75, id="above its bounds"),
        pytest.param(
            {"a": "4/10M"}, {"a": "2/20M"}, False, True, 1.5, id="cpu halves and memory doubles"
        ),
        pytest.param(
            {"a": "4/20M"}, {"a": "2/10M 1/5M 3/30M"}, True, False, 1.0, id="cpu above its bounds"
        ),
        pytest.param(
            {"a": "1", "b": "2"}, {"a": "4", "b": "8"}, False, True, 3.0, id="two containers grow"
        ),
        pytest.param(
            {"a": "3", "b": "7"},
            {"a": "1", "b": "2"},
            False,
            False,
            0.7,
            id="two containers shrink",
        ),
        pytest.param(
            {"a": "6/10M", "b": "4/30M"},
            {"a": "8/20M", "b": "7/30M"},
            False,
            True,
            0.75,
            id="two containers, two resources",
        ),
        pytest.param({"a": "-"}, {"a": "250m"}, True, True, 249.0, id="no request"),
        pytest.param(
            {"a": "100m"},
            {"a": "100m/100Mi"},
            True,
            True,
            104857599999.0,
            id="no request for memory",
        ),
        pytest.param(
            {"a": "1", "b": "3"},
            {"a": "3", "b": "1"},
            False,
            True,
            0.0,
            id="two containers change places",
        ),
        pytest.param(
            {"a": "1/1Gi"},
            {"a": "1050m/1100Mi 500m/512Mi 2/2Gi"},
            False,
            True,
            0.12421875,
            id="small changes within bounds",
        ),
        pytest.param(
            {"a": "100m/200Mi"},
            {"a": "85m/230Mi"},
            False,
            True,
            0.30,
            id="one shrinks and the other grows",
        ),
        pytest.param(
            {"a": "100m/200Mi"}, {"a": "100m/240Mi"}, False, True, 0.20, id="memory alone"
        ),
        pytest.param({"a": "600m"}, {"a": "600m = ="}, False, False, 0.0, id="nothing to change"),
        pytest.param(
            {"a": "-/1Gi"},
            {"a": "-/2Gi -/500Mi -/3Gi"},
            False,
            True,
            1.0,
            id="memory alone, within bounds",
        ),
        pytest.param(
            {"a": "100m", "s": "100m"},
            {"a": "100m", "s": "5 = ="},
            True,
            True,
            24.5,
            id="one of two below its bounds",
        ),
        pytest.param(
            {"a": "2"}, {"b": "10"}, False, False, 0.0, id="recommended for another container"
        ),
    ],
)
def test_worked_cases(
    requests: dict[str, str],
    targets: dict[str, str],
    outside: bool,
    up: bool,
    difference: float,
) -> None:
    """The three numbers of a pod are upstream's."""
    found = numbers(requests, targets)
    assert (found.is_outside, found.is_up) == (outside, up)
    assert found.difference == pytest.approx(difference, rel=NEAR)


def test_unobserved_containers_do_not_count() -> None:
    """A container that the webhook did not see is not ours to judge."""
    found = numbers({"a": "100m", "s": "100m"}, {"a": "100m", "s": "5 = ="}, observed="a")
    assert (found.is_outside, found.is_up, found.difference) == (False, False, 0.0)


def test_status_comes_before_spec() -> None:
    """What the kubelet reports is what a container has."""
    found = numbers({"a": "10000"}, {"a": "10"}, status="2")
    assert (found.is_outside, found.is_up, found.difference) == (False, True, 4.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", frozenset()),
        ("a", frozenset({"a"})),
        ("a, b-1", frozenset({"a", "b-1"})),
        pytest.param("abcd;';", None, id="no names of containers"),
        ("a,b", None),
        ("a, B", None),
        ("a" * 64, None),
    ],
)
def test_observed_containers(text: str | None, expected: frozenset[str] | None) -> None:
    """An annotation that is no list of names says nothing."""
    annotations = None if text is None else {"vpaObservedContainers": text}
    assert observed_containers(make.pod(annotations=annotations)) == expected


def test_gross_difference_nets_nothing() -> None:
    """What one container gains and another loses is not nothing."""
    assert numbers({"a": "1", "b": "3"}, {"a": "3", "b": "1"}).gross_difference == 1.0
    assert numbers({"a": "1", "b": "2"}, {"a": "4", "b": "8"}).gross_difference == 3.0
    assert numbers({"a": "-"}, {"a": "250m"}).gross_difference == 249.0


@pytest.mark.parametrize(
    ("requests", "targets", "outside", "rise"),
    [
        pytest.param({"a": "100m/100Mi"}, {"a": "200m/200Mi = ="}, True, 2.0, id="all grows"),
        pytest.param({"a": "500m/500Mi"}, {"a": "200m/200Mi = ="}, False, 0.0, id="all shrinks"),
        pytest.param(
            {"a": "200m/1000Mi"},
            {"a": "202m/300Mi 100m/200Mi 400m/600Mi"},
            False,
            0.01,
            id="one grows a little, the other shrinks",
        ),
        pytest.param(
            {"a": "200m/1000Mi"},
            {"a": "400m/300Mi 300m/200Mi 600m/600Mi"},
            True,
            1.0,
            id="one doubles, the other shrinks",
        ),
        pytest.param(
            {"a": "1", "b": "3"},
            {"a": "3", "b": "1"},
            False,
            0.5,
            id="two containers change places",
        ),
        pytest.param(
            {"a": "200m/1000Mi"},
            {"a": "230m/800Mi"},
            False,
            0.15,
            id="one grows within wide bounds",
        ),
        pytest.param(
            {"a": "200m/1000Mi"}, {"a": "210m/500Mi"}, False, 0.05, id="one grows by little"
        ),
        pytest.param(
            {"a": "500m"},
            {"a": "400m/100Mi 1m/1Mi 450m/1Gi"},
            True,
            None,
            id="what has no request is below its bounds",
        ),
    ],
)
def test_what_grows(
    requests: dict[str, str], targets: dict[str, str], outside: bool, rise: float | None
) -> None:
    """The upscale view counts what grows, against all that is requested."""
    found = numbers(requests, targets)
    assert found.rises_outside == outside
    assert rise is None or found.rise == pytest.approx(rise)


def test_what_is_not_controlled_does_not_grow() -> None:
    """A container that only makes room for others may be moved, but it never asks to grow."""
    one, nine = make.quantity("1"), make.quantity("9")
    found = measure((Pair("b", "cpu", one, nine, None, None, is_controlled=False),), with_rise=True)
    assert (found.is_up, found.rise) == (True, 0.0)


def test_containers_that_are_off_do_not_count() -> None:
    """What is recommended for one whose policy says Off is not for us."""
    off = [make.policy_json("b", mode="Off")]
    found = numbers({"a": "1", "b": "1"}, {"a": "1", "b": "9"}, policies=off)
    assert [(pair.container, pair.is_controlled) for pair in found.pairs] == [("a", True)]


def test_amounts_that_no_float_holds() -> None:
    """They are infinitely far from all others, in each way of counting."""
    found = numbers({"a": "100m", "b": "100m"}, {"a": "1e1000", "b": "50m"})
    assert found.difference == found.gross_difference == found.rise == float("inf")


MILLI = st.integers(1, 10**6)


@given(st.lists(st.tuples(MILLI, MILLI), min_size=1, max_size=5))
def test_gross_difference_is_never_less(sizes: list[tuple[int, int]]) -> None:
    """Netting can only make a difference look smaller."""
    pairs = tuple(
        Pair(
            str(number),
            "cpu",
            Quantity.of_milli(request),
            Quantity.of_milli(target),
            None,
            None,
            is_controlled=True,
        )
        for number, (request, target) in enumerate(sizes)
    )
    found = measure(pairs, with_rise=True)
    assert found.gross_difference >= found.difference >= 0
    assert found.gross_difference >= found.rise >= 0
