"""Resizes: their stages, what they restart, which class the pod stays in."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.model.fields import Json
from app.model.pods import NO_RESOURCES, Resources
from app.updater.core.decisions import ContainerChange
from app.updater.core.resize_state import (
    QosClass,
    ResizeStage,
    ResizeState,
    are_same,
    changes_qos,
    differs_from_status,
    is_disruptive,
    is_stuck,
    may_restart,
    qos_class,
    resize_state,
)
from tests import make
from tests.updater.core.scenes import (
    NOW,
    OURS,
    amounts,
    container,
    read,
    resize_condition,
    running,
    sidecar,
    with_metadata,
    with_status,
)

POD = running(container("app", "100m/100Mi"))


@pytest.mark.parametrize(
    ("conditions", "stage"),
    [
        ((), ResizeStage.NONE),
        ((resize_condition("Pending", "Deferred"),), ResizeStage.DEFERRED),
        ((resize_condition("Pending", "Infeasible"),), ResizeStage.INFEASIBLE),
        ((resize_condition("Pending"),), ResizeStage.UNKNOWN),
        ((resize_condition("InProgress"),), ResizeStage.UNDER_WAY),
        ((resize_condition("InProgress", "Error", "no"),), ResizeStage.FAILING),
        ((resize_condition("InProgress", "", "why"),), ResizeStage.UNKNOWN),
        (
            (resize_condition("InProgress"), resize_condition("Pending", "Deferred")),
            ResizeStage.DEFERRED,
        ),
        (
            (
                resize_condition("InProgress") | {"status": "False"},
                resize_condition("Pending", "Deferred"),
            ),
            ResizeStage.DEFERRED,
        ),
        ((resize_condition("InProgress") | {"status": "False"},), ResizeStage.NONE),
    ],
)
def test_resize_state(conditions: tuple[Json, ...], stage: ResizeStage) -> None:
    """Conditions that hold tell the stage; what waits for room comes first."""
    pod = read(running(container("app", "100m/100Mi"), conditions=conditions))
    assert resize_state(pod).stage is stage


@pytest.mark.parametrize(
    ("asked", "reported", "differs"),
    [
        ("100m/100Mi", {"requests": amounts("100m/100Mi")}, False),
        ("100m/100Mi", {"requests": amounts("0.1/102400Ki")}, False),
        ("100m/100Mi", {"requests": amounts("200m/100Mi")}, True),
        ("100m/100Mi", {"requests": amounts("100m")}, False),
        ("100m/100Mi", {}, False),
        ("150500u/100Mi", {"requests": amounts("151m/100Mi")}, False),
    ],
)
def test_a_wish_that_is_not_reported_is_under_way(
    asked: str, reported: Json, differs: bool
) -> None:
    """Without any condition spec and status tell."""
    pod = read(with_status(running(container("app", asked)), "app", resources=reported))
    assert differs_from_status(pod) is differs
    expected = ResizeStage.UNDER_WAY if differs else ResizeStage.NONE
    assert resize_state(pod).stage is expected


@pytest.mark.parametrize(
    ("generation", "observed", "stage"),
    [
        (2, 1, ResizeStage.UNDER_WAY),
        (2, 2, ResizeStage.NONE),
        (2, None, ResizeStage.NONE),
        (2, 0, ResizeStage.NONE),
    ],
)
def test_what_the_kubelet_has_not_seen_is_under_way(
    generation: int, observed: int | None, stage: ResizeStage
) -> None:
    """Spec and status may agree by chance; a kubelet that tells no generation is believed."""
    item = with_metadata(POD, generation=generation)
    pod = read(item | {"status": item["status"] | {"observedGeneration": observed}})
    assert resize_state(pod).stage is stage


def test_statuses_of_others_tell_nothing() -> None:
    """A status without a container, or without resources, is no difference."""
    pod = POD | {
        "status": POD["status"]
        | {"containerStatuses": [{"name": "gone", "resources": {}}, {"name": "app"}]}
    }
    assert not differs_from_status(read(pod))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("1", "1", True), ("1", None, False), (None, None, True), ("100500u", "101m", True)],
)
def test_are_same(one: str | None, other: str | None, expected: bool) -> None:
    """Cpu is kept in millicores."""
    first, second = (None if text is None else make.quantity(text) for text in (one, other))
    assert are_same("cpu", first, second) is expected


def test_memory_is_kept_in_bytes() -> None:
    """A part of a byte is a byte."""
    assert are_same("memory", make.quantity("1500m"), make.quantity("2"))


@pytest.mark.parametrize(
    ("stage", "ago", "expected"),
    [
        (ResizeStage.DEFERRED, timedelta(minutes=5), False),
        (ResizeStage.DEFERRED, timedelta(minutes=5, seconds=1), True),
        (ResizeStage.UNDER_WAY, timedelta(hours=1), False),
        (ResizeStage.UNDER_WAY, timedelta(hours=1, seconds=1), True),
        (ResizeStage.INFEASIBLE, timedelta(), True),
        (ResizeStage.FAILING, timedelta(), True),
        (ResizeStage.UNKNOWN, timedelta(), True),
    ],
)
def test_is_stuck(stage: ResizeStage, ago: timedelta, expected: bool) -> None:
    """What waits or works is given time, to the second; what failed is not."""
    assert is_stuck(ResizeState(stage), NOW - ago, OURS, NOW) is expected


RESTART, NOT = {"memory": "RestartContainer"}, {"cpu": "NotRequired", "memory": "NotRequired"}


def change(index: int = 0, cpu: str | None = None, memory: str | None = None) -> ContainerChange:
    """Return a change of requests."""
    return ContainerChange(index, "app", make.quantities(cpu=cpu, memory=memory), {})


def test_what_restarts() -> None:
    """A resize restarts what its policy says, if that changes."""
    pod = read(running(container("app", "1/1Gi", resize=NOT), container("b", resize=RESTART)))
    calm = read(running(container("app", "1/1Gi", resize=NOT), container("b")))
    assert may_restart(pod)
    assert not may_restart(calm)
    only_cpu, memory = (change(1, cpu="2"),), (change(1, memory="2Gi"),)
    limits = (ContainerChange(1, "b", {}, make.quantities(memory="2Gi")),)
    assert not is_disruptive(pod, only_cpu)
    assert is_disruptive(pod, memory)
    assert is_disruptive(pod, limits)


def has(requests: str, limits: str = "-") -> Resources:
    """Return resources."""
    return Resources(
        {name: make.quantity(text) for name, text in amounts(requests).items()},
        {name: make.quantity(text) for name, text in amounts(limits).items()},
    )


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([], QosClass.BEST_EFFORT),
        ([NO_RESOURCES, NO_RESOURCES], QosClass.BEST_EFFORT),
        ([has("0")], QosClass.BEST_EFFORT),
        ([has("100m")], QosClass.BURSTABLE),
        ([has("-", "1/1Gi")], QosClass.GUARANTEED),
        ([has("1/1Gi", "1/1Gi")], QosClass.GUARANTEED),
        ([has("1/1Gi", "2/1Gi")], QosClass.BURSTABLE),
        ([has("1/1Gi", "1/1Gi"), NO_RESOURCES], QosClass.BURSTABLE),
    ],
)
def test_qos_class(containers: list[Resources], expected: QosClass) -> None:
    """The class follows from requests and limits of all containers."""
    assert qos_class(containers) is expected


def test_changes_qos() -> None:
    """A resize that would change the class is known beforehand, init containers counted in."""
    best_effort, guaranteed = (
        read(running(container("app"))),
        read(
            running(container("app", "1/1Gi", "1/1Gi"), init=[container("first", "1/1Gi", "1/1Gi")])
        ),
    )
    assert changes_qos(best_effort, (change(cpu="1"),))
    assert changes_qos(guaranteed, (change(cpu="2"),))
    both = ContainerChange(0, "app", make.quantities(cpu="2"), make.quantities(cpu="2"))
    assert not changes_qos(guaranteed, (both,))
    assert not changes_qos(read(POD), (change(cpu="2"),))
    whole = running(container("app"), spec={"resources": {"requests": {"cpu": "1"}}})
    assert not changes_qos(read(whole), (change(cpu="1"),))


def test_a_sidecar_that_has_not_what_it_asks_for() -> None:
    """What the kubelet reports of sidecars counts, what it does of other init containers not."""
    pod = running(container("app", "1"), init=[container("setup", "2"), sidecar("proxy", "1")])
    setup, proxy = pod["status"]["initContainerStatuses"]
    setup["resources"] = {"requests": {"cpu": "1"}}
    assert resize_state(read(pod)).stage is ResizeStage.NONE
    proxy["resources"] = {"requests": {"cpu": "2"}}
    assert resize_state(read(pod)).stage is ResizeStage.UNDER_WAY
