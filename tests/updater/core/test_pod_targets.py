"""How far a pod is from its recommendation."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.fields import Json
from app.model.limits import NO_LIMITS, NamespaceLimits, combined_limits
from app.model.pods import Pod
from app.model.quantity import Quantity
from app.model.workloads import Workload
from app.sizing.sizing import capped
from app.updater.core.decisions import Pair, PodNumbers
from app.updater.core.patching import observed_containers
from app.updater.core.pod_targets import OwnerTargets, growth, measure, pairs_of
from tests import make
from tests.cases import cases
from tests.updater.core.scenes import (
    OURS,
    amounts,
    container,
    named,
    read,
    recommended,
    running,
    sizes,
    with_status,
)

NEAR = 1e-9


def numbers(
    requests: str,
    recommendations: str,
    *,
    observed: str | None = None,
    status: str | None = None,
    policies: list[Json] | None = None,
) -> PodNumbers:
    """Return the numbers of a pod; its containers are `a` and, behind a plus, `b`."""
    annotations = None if observed is None else {"vpaObservedContainers": observed}
    has = zip("ab", requests.split(" + "), strict=False)
    item = running(*(container(name, text) for name, text in has), annotations=annotations)
    if status is not None:
        item = with_status(item, "a", resources={"requests": make.amounts(status)})
    pod = read(item)
    vpa = make.vpa(
        recommendations=[
            recommended(text, name)
            for name, text in zip("ab", recommendations.split(" + "), strict=False)
            if text
        ],
        policies=policies,
    )
    current = pod.current_resources
    amounts = capped(pod, vpa, NO_LIMITS, current)
    return measure(pairs_of(pod, amounts, current))


@cases(
    "requests targets outside up difference",
    {
        "far more": ("2", "10", False, True, 4.0),
        "half": ("4", "2", False, False, 0.5),
        "many times more": ("10m", "900m", False, True, 89.0),
        "below its bounds": ("4", "10 6 14", True, True, 1.5),
        "above its bounds": ("8", "2 1 3", True, False, 0.75),
        "cpu halves and memory doubles": ("4/10M", "2/20M", False, True, 1.5),
        "cpu above its bounds": ("4/20M", "2/10M 1/5M 3/30M", True, False, 1.0),
        "two containers grow": ("1 + 2", "4 + 8", False, True, 3.0),
        "two containers shrink": ("3 + 7", "1 + 2", False, False, 0.7),
        "two containers, two resources": ("6/10M + 4/30M", "8/20M + 7/30M", False, True, 0.75),
        "no request": ("-", "250m", True, True, 249.0),
        "no request for memory": ("100m", "100m/100Mi", True, True, 104857599999.0),
        "two containers change places": ("1 + 3", "3 + 1", False, True, 0.0),
        "small changes within bounds": (
            "1/1Gi",
            "1050m/1100Mi 500m/512Mi 2/2Gi",
            False,
            True,
            0.12421875,
        ),
        "one shrinks and the other grows": ("100m/200Mi", "85m/230Mi", False, True, 0.30),
        "memory alone": ("100m/200Mi", "100m/240Mi", False, True, 0.20),
        "nothing to change": ("600m", "600m = =", False, False, 0.0),
        "memory alone, within bounds": ("-/1Gi", "-/2Gi -/500Mi -/3Gi", False, True, 1.0),
        "one of two below its bounds": ("100m + 100m", "100m + 5 = =", True, True, 24.5),
        "recommended for another container": ("2", " + 10", False, False, 0.0),
    },
)
def test_worked_cases(
    requests: str, targets: str, outside: bool, up: bool, difference: float
) -> None:
    """The three numbers of a pod are upstream's."""
    found = numbers(requests, targets)
    assert (found.is_outside, found.is_up) == (outside, up)
    assert found.difference == pytest.approx(difference, rel=NEAR)


def test_unobserved_containers_do_not_count() -> None:
    """A container that the webhook did not see is not ours to judge."""
    found = numbers("100m + 100m", "100m + 5 = =", observed="a")
    assert (found.is_outside, found.is_up, found.difference) == (False, False, 0.0)


def test_status_comes_before_spec() -> None:
    """What the kubelet reports is what a container has."""
    found = numbers("10000", "10", status="2")
    assert (found.is_outside, found.is_up, found.difference) == (False, True, 4.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", frozenset()),
        ("a", frozenset({"a"})),
        ("a, b-1", frozenset({"a", "b-1"})),
        ("abcd;';", None),
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
    assert numbers("1 + 3", "3 + 1").gross_difference == 1.0
    assert numbers("1 + 2", "4 + 8").gross_difference == 3.0
    assert numbers("-", "250m").gross_difference == 249.0


@cases(
    "requests targets outside rise",
    {
        "all grows": ("100m/100Mi", "200m/200Mi = =", True, 2.0),
        "all shrinks": ("500m/500Mi", "200m/200Mi = =", False, 0.0),
        "one grows a little, the other shrinks": (
            "200m/1000Mi",
            "202m/300Mi 100m/200Mi 400m/600Mi",
            False,
            0.01,
        ),
        "one doubles, the other shrinks": (
            "200m/1000Mi",
            "400m/300Mi 300m/200Mi 600m/600Mi",
            True,
            1.0,
        ),
        "two containers change places": ("1 + 3", "3 + 1", False, 0.5),
        "one grows within wide bounds": ("200m/1000Mi", "230m/800Mi", False, 0.15),
        "one grows by little": ("200m/1000Mi", "210m/500Mi", False, 0.05),
        "what has no request is below its bounds": (
            "500m",
            "400m/100Mi 1m/1Mi 450m/1Gi",
            True,
            None,
        ),
    },
)
def test_what_grows(requests: str, targets: str, outside: bool, rise: float | None) -> None:
    """The upscale view counts what grows, against all that is requested."""
    found = numbers(requests, targets)
    grown = growth(found.pairs)
    assert grown.is_outside == outside
    assert rise is None or grown.difference == pytest.approx(rise)


def test_what_is_not_controlled_does_not_grow() -> None:
    """A container that only makes room for others may be moved, but it never asks to grow."""
    one, nine = make.quantity("1"), make.quantity("9")
    pairs = (Pair("b", "cpu", one, nine, None, None, is_controlled=False),)
    assert (measure(pairs).is_up, growth(pairs).difference) == (True, 0.0)


def test_containers_that_are_off_do_not_count() -> None:
    """What is recommended for one whose policy says Off is not for us."""
    off = [make.policy_json("b", mode="Off")]
    found = numbers("1 + 1", "1 + 9", policies=off)
    assert [(pair.container, pair.is_controlled) for pair in found.pairs] == [("a", True)]


def test_amounts_that_no_float_holds() -> None:
    """They are infinitely far from all others, in each way of counting."""
    found = numbers("100m + 100m", "1e1000 + 50m")
    assert (
        found.difference == found.gross_difference == growth(found.pairs).difference == float("inf")
    )


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
    found = measure(pairs)
    assert found.gross_difference >= found.difference >= 0
    assert found.gross_difference >= growth(pairs).difference >= 0


USUAL = combined_limits([make.limit_range(default=make.amounts("1", "1Gi"))])


def targets(
    *recommendations: str,
    owner: Json | None = None,
    limits: NamespaceLimits = NO_LIMITS,
    policies: list[Json] | None = None,
) -> OwnerTargets:
    """Return the shapes under a VPA that recommends for `app`, `b`, and so on."""
    names = ("app", "b")[: len(recommendations)]
    vpa = make.vpa(
        recommendations=[
            recommended(text, name) for text, name in zip(recommendations, names, strict=True)
        ],
        policies=policies,
    )
    workload = None if owner is None else _read(owner)
    return OwnerTargets(vpa, workload, limits, OURS)


def _read(item: Json) -> Workload:
    found = make.change(item).value
    assert isinstance(found, Workload)
    return found


def changes(found: OwnerTargets, pod: Pod) -> dict[str, str]:
    """Return what a resize writes, by container, kind and resource."""
    return sizes(found.changes(found.of(pod), pod))


def pod(*containers: Json, **annotations: str) -> Pod:
    """Return a running pod."""
    return read(running(*containers, annotations=annotations or None))


APP = container("app", "100m/100Mi", "300m/400Mi")


def test_pods_that_look_alike_share_a_shape() -> None:
    """The work is done once, for whatever decides about resources."""
    found = targets("200m/200Mi")
    item = running(APP)
    first = found.of(read(item))
    assert found.of(read(named(item, "web-1"))) is first
    assert found.of(read(running(container("app", "1")))) is not first
    assert found.of(read(running(APP, annotations={"vpaObservedContainers": ""}))) is not first
    assert found.of(read(running(APP, init=[container("i", "1")]))) is not first
    status = with_status(item, "app", resources={"requests": amounts("50m")})
    assert found.of(read(status)) is not first
    whole = running(APP, spec={"resources": {"limits": {"cpu": "2"}}})
    assert found.of(read(whole)) is not first
    assert found.of(read(item), frozenset({"app"})) is not first
    assert found.of(read(item)) is first


def template(item: Json, kind: str = "ReplicaSet", **status: str) -> Json:
    """Return an owner with a template."""
    return make.workload_json(
        f"{kind}/web", containers=[item], status={"observedGeneration": 1} | status
    )


@cases(
    "owner limits expected",
    {
        "no owner": (None, NO_LIMITS, "600m"),
        "true ratio": (template(container("app", "3m", "10m")), NO_LIMITS, "666m"),
        "template says nothing": (template(container("app")), NO_LIMITS, "600m"),
        "somebody gave it a limit": (template(container("app", "3m")), NO_LIMITS, "600m"),
        "usual limit": (template(container("app", "500m")), USUAL, "400m"),
        "limit alone": (template(container("app", "-", "1")), NO_LIMITS, "200m"),
        "other container": (template(container("b", "1", "9")), NO_LIMITS, "600m"),
        "DaemonSet": (template(container("app", "3m", "10m"), "DaemonSet"), NO_LIMITS, "600m"),
        "older revision": (
            template(container("app", "3m", "10m"), "StatefulSet", updateRevision="b"),
            NO_LIMITS,
            "600m",
        ),
        "StatefulSet without revisions": (
            template(container("app", "3m", "10m"), "StatefulSet"),
            NO_LIMITS,
            "666m",
        ),
    },
)
def test_limits_follow_the_template(
    owner: Json | None, limits: NamespaceLimits, expected: str
) -> None:
    """What was asked for once tells the ratio, not what the pod was resized to since."""
    found = targets("200m", owner=owner, limits=limits)
    assert changes(found, pod(container("app", "100m", "300m")))["app.limits.cpu"] == expected


def test_the_revision_of_a_stateful_pod_counts() -> None:
    """A pod of the latest revision is made from the template."""
    owner = template(container("app", "3m", "10m"), "StatefulSet", updateRevision="b")
    item = running(
        container("app", "100m", "300m"), labels={"app": "web", "controller-revision-hash": "b"}
    )
    assert changes(targets("200m", owner=owner), read(item))["app.limits.cpu"] == "666m"


@pytest.mark.parametrize(
    ("requests", "limits", "recommendation", "expected"),
    [
        (
            "100m/100Mi",
            "300m/400Mi",
            "200m/200Mi",
            {
                "app.requests.cpu": "200m",
                "app.requests.memory": "200Mi",
                "app.limits.cpu": "600m",
                "app.limits.memory": "800Mi",
            },
        ),
        ("100m/100Mi", "-", "200m/100Mi", {"app.requests.cpu": "200m"}),
        ("100m/100Mi", "-", "100m/100Mi", {}),
        ("200m", "-", "0.2", {}),
        (
            "100m/100Mi",
            "100m/100Mi",
            "200m/100Mi",
            {"app.requests.cpu": "200m", "app.limits.cpu": "200m"},
        ),
    ],
)
def test_only_differences_are_written(
    requests: str, limits: str, recommendation: str, expected: Mapping[str, str]
) -> None:
    """What is as it should be is not touched."""
    item = container("app", requests, limits)
    assert changes(targets(recommendation), pod(item)) == expected


def test_what_is_not_sized_in_place_is_not_written() -> None:
    """Other resources, other containers, containers that were not observed."""
    vpa = targets("200m", "2")
    two = (container("app", "100m"), container("b", "1"))
    assert changes(vpa, pod(*two, vpaObservedContainers="app")) == {"app.requests.cpu": "200m"}
    assert changes(targets("200m"), pod(*two)) == {"app.requests.cpu": "200m"}


def test_limits_stay_where_only_requests_are_controlled() -> None:
    """By policy."""
    policies = [make.policy_json("app", values="RequestsOnly")]
    found = targets("120m/120Mi", policies=policies)
    assert changes(found, pod(container("app", "100m/100Mi", "150m/200Mi"))) == {
        "app.requests.cpu": "120m",
        "app.requests.memory": "120Mi",
    }


LIMIT = combined_limits([make.limit_range(make.limits_json("Pod", most=make.amounts("4")))])


def test_what_makes_no_room_stays_as_it_is() -> None:
    """A container without a recommendation is only moved when a LimitRange asks for room."""
    two = (container("app", "1", "1"), container("b", "500m", "500m"))
    owner = make.workload_json("ReplicaSet/web", containers=[two[0], container("b", "2", "2")])
    calm = targets("1", owner=owner, limits=LIMIT).of(pod(*two))
    assert [(pair.container, str(pair.target)) for pair in calm.numbers.pairs] == [
        ("app", "1"),
        ("b", "500m"),
    ]
    gpu = {"example.com/gpu": "1"}
    with_gpu = two[1] | {
        "resources": {part: {"cpu": "500m"} | gpu for part in ("requests", "limits")}
    }
    plain = targets("1", owner=owner, limits=LIMIT).of(pod(two[0], with_gpu))
    assert [str(pair.target) for pair in plain.numbers.pairs if pair.resource == "cpu"] == [
        "1",
        "500m",
    ]
    tight = targets("6", owner=owner, limits=LIMIT).of(pod(*two))
    milli = {pair.container: pair.target.milli for pair in tight.numbers.pairs}
    assert milli["app"] + milli["b"] <= 4000
