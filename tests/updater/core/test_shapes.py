"""What pods of one shape have and should have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from app.model.limits import NO_LIMITS, NamespaceLimits, combined_limits
from app.model.pods import Pod
from app.model.workloads import Workload
from app.updater.core.targets import OwnerTargets
from tests import make
from tests.updater.core.scenes import (
    OURS,
    amounts,
    container,
    named,
    read,
    recommended,
    running,
    with_status,
)

Json = make.Json
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
    return {
        f"{change.container}.{word}.{name}": str(amount)
        for change in found.changes(found.of(pod), pod)
        for word, amounts_ in (("requests", change.requests), ("limits", change.limits))
        for name, amount in amounts_.items()
    }


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


@pytest.mark.parametrize(
    ("owner", "limits", "expected"),
    [
        pytest.param(None, NO_LIMITS, "600m", id="no owner"),
        pytest.param(template(container("app", "3m", "10m")), NO_LIMITS, "666m", id="true ratio"),
        pytest.param(template(container("app")), NO_LIMITS, "600m", id="template says nothing"),
        pytest.param(
            template(container("app", "3m")), NO_LIMITS, "600m", id="somebody gave it a limit"
        ),
        pytest.param(template(container("app", "500m")), USUAL, "400m", id="usual limit"),
        pytest.param(template(container("app", "-", "1")), NO_LIMITS, "200m", id="limit alone"),
        pytest.param(template(container("b", "1", "9")), NO_LIMITS, "600m", id="other container"),
        pytest.param(
            template(container("app", "3m", "10m"), "DaemonSet"), NO_LIMITS, "600m", id="DaemonSet"
        ),
        pytest.param(
            template(container("app", "3m", "10m"), "StatefulSet", updateRevision="b"),
            NO_LIMITS,
            "600m",
            id="older revision",
        ),
        pytest.param(
            template(container("app", "3m", "10m"), "StatefulSet"),
            NO_LIMITS,
            "666m",
            id="StatefulSet without revisions",
        ),
    ],
)
def test_limits_follow_the_template(
    owner: Json | None, limits: NamespaceLimits, expected: str
) -> None:
    """What was asked for once tells the ratio, not what the pod was resized to since."""
    found = targets("200m", owner=owner, limits=limits)
    assert changes(found, pod(container("app", "100m", "300m")))["app.limits.cpu"] == expected


def test_ratios_do_not_drift() -> None:
    """3m of 10m to 1m and to 100m gives 333m, not 300m."""
    owner = template(container("app", "3m", "10m"))
    shrunk = pod(container("app", "1m", "3m"))
    assert changes(targets("100m", owner=owner), shrunk)["app.limits.cpu"] == "333m"


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
