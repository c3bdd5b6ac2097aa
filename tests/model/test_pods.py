"""Pods are read as the API server sends them, whole or not at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.model.errors import BadObject, BadQuantity
from app.model.kinds import ObjectKey
from app.model.pods import (
    BOOST_KEY_PREFIX,
    NO_RESOURCES,
    Resources,
    Termination,
    boost_annotation_value,
    original_resources,
    read_containers,
    read_pod,
    read_pod_without_sidecars,
    updates_annotation,
    vpa_at_creation,
)
from tests import make

FULL = make.running_json(
    make.pod_json(
        make.container_json(
            cpu="100m",
            memory="200Mi",
            cpu_limit="1",
            resize={"cpu": "NotRequired", "memory": "RestartContainer"},
        ),
        make.container_json("side", resources={"claims": [{"name": "gpu"}]}),
        init=[
            make.container_json("setup", cpu="3"),
            make.container_json("proxy", cpu="10m", restartPolicy="Always"),
        ],
        annotations={"vpaUpdates": "x"},
        spec={"resources": {"limits": {"cpu": "2"}}},
        metadata={"deletionTimestamp": "2026-01-05T10:00:00Z"},
    ),
    observedGeneration=3,
)
ENDED = {"reason": "OOMKilled", "finishedAt": "2026-01-05T09:00:00Z"}


def test_a_full_pod() -> None:
    """Everything that is looked at is read."""
    pod = read_pod(FULL)
    assert (pod.namespace, pod.name) == ("default", "web-0")
    assert (pod.uid, pod.resource_version, pod.generation) == ("uid-web-0", "1", 1)
    assert (pod.node, pod.phase, pod.observed_generation) == ("node-1", "Running", 3)
    assert pod.created == pod.started == make.NOW - timedelta(days=1)
    assert pod.deleted == make.NOW
    assert pod.labels == {"app": "web"}
    assert pod.controller is not None
    assert pod.controller.key == ObjectKey("", "StatefulSet", "web")
    assert pod.pod_resources == Resources(limits=make.quantities(cpu="2"))
    app, side, proxy = pod.containers
    assert app.resources.request("memory") == make.quantity("200Mi")
    assert app.resources.limit("cpu") == make.quantity("1")
    assert app.resources.limit("memory") is None
    assert app.resize_policy == (("cpu", "NotRequired"), ("memory", "RestartContainer"))
    assert side.resources == Resources(has_other=True)
    assert (app.place, side.place) == (("containers", 0), ("containers", 1))
    assert (proxy.resources.request("cpu"), proxy.place) == (
        make.quantity("10m"),
        ("initContainers", 1),
    )
    assert [one.is_sidecar for one in pod.containers] == [False, False, True]
    assert [(one.name, one.is_sidecar) for one in pod.init_containers] == [("setup", False)]
    assert [one.name for one in pod.statuses] == ["app", "side", "proxy"]


def test_an_empty_pod() -> None:
    """Nothing at all is a pod without anything."""
    pod = read_pod({})
    assert (pod.name, pod.containers, pod.statuses, pod.conditions) == ("", (), (), ())
    assert pod.annotations is None
    assert pod.pod_resources is None
    assert pod.controller is None
    assert pod.generation == 0
    assert not pod.is_boosted


def test_a_given_namespace_outranks_the_pods_own() -> None:
    """Whoever asks knows better where the pod will live."""
    assert read_pod(FULL, "other").namespace == "other"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (None, NO_RESOURCES),
        ({}, NO_RESOURCES),
        ({"requests": {}}, Resources(requests={})),
        ({"requests": None, "limits": {"cpu": "1"}}, Resources(limits=make.quantities(cpu="1"))),
        ({"claims": []}, Resources(has_other=True)),
    ],
)
def test_missing_differs_from_empty(resources: object, expected: Resources) -> None:
    """A map that is not there is None; one without entries is empty."""
    pod = make.pod(make.container_json(resources=resources))
    assert pod.containers[0].resources == expected
    assert expected.request("memory") is None


@pytest.mark.parametrize(
    ("annotations", "value", "boosted"),
    [
        (None, None, False),
        ({}, None, False),
        ({"vpaUpdates": "x"}, "x", False),
        ({"vpaCpuStartupBoost/app": "{}"}, None, True),
    ],
)
def test_annotations(annotations: dict[str, str] | None, value: str | None, boosted: bool) -> None:
    """An annotation that is not there is None; a boost shows by the name of one."""
    pod = make.pod(annotations=annotations)
    assert pod.annotations == annotations
    assert pod.annotation("vpaUpdates") == value
    assert pod.is_boosted is boosted


@pytest.mark.parametrize(
    ("text", "vpa"),
    [
        (None, ""),
        ("", ""),
        ("x", ""),
        (updates_annotation("web", []), "web"),
        (updates_annotation("web.a-b", ["container 0: cpu request", "container 1: x"]), "web.a-b"),
    ],
)
def test_the_vpa_that_sized_a_new_pod(text: str | None, vpa: str) -> None:
    """It is read from what the webhook wrote; other words name none."""
    pod = make.pod(annotations=None if text is None else {"vpaUpdates": text})
    assert vpa_at_creation(pod) == vpa


def test_status_of_a_container() -> None:
    """What the kubelet says of a container is found by the container's name."""
    status = {
        "name": "app",
        "restartCount": 2,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ENDED},
    }
    pod = make.pod(status={"containerStatuses": [status]})
    found = pod.status("app")
    assert found is not None
    assert found.restart_count == 2
    assert not found.is_running
    assert found.terminated is None
    ended = Termination("OOMKilled", None, datetime(2026, 1, 5, 9, tzinfo=UTC))
    assert found.last_terminated == ended
    assert found.resources is None
    assert pod.status("other") is None


def test_what_pods_have_in_common_is_kept_once() -> None:
    """Two pods of one owner share words, owners and resources, and each keeps its own name."""
    one, other = (make.pod(cpu="1", name=name, owner="Job/web") for name in ("a", "b"))
    assert one.containers[0].resources is other.containers[0].resources
    assert one.owners is other.owners
    assert one.namespace is other.namespace
    assert (one.name, other.name) == ("a", "b")


def test_resources_are_shared_only_if_written_alike() -> None:
    """The same amount in other words stays as it was written; nor does the table grow for ever."""
    spellings = [str(make.pod(cpu=text).containers[0].resources.request("cpu")) for text in "12"]
    same = make.pod(cpu="1000m").containers[0].resources
    assert same == make.pod(cpu="1").containers[0].resources
    assert same is not make.pod(cpu="1").containers[0].resources
    assert spellings == ["1", "2"]
    for millicores in range(20_000):
        make.pod(cpu=f"{millicores}m")
    assert make.pod(cpu="1000m").containers[0].resources == same


def test_resources_in_force_are_the_kubelets() -> None:
    """What the kubelet reports outranks the spec; without a report the spec counts."""
    spec = make.pod_json(make.container_json(cpu="1"), make.container_json("side", cpu="2"))
    running = make.running_json(spec)
    running["status"]["containerStatuses"][0]["resources"] = {"requests": {"cpu": "3"}}
    del running["status"]["containerStatuses"][1]["resources"]
    pod = read_pod(running)
    in_force = [str(each.request("cpu")) for each in pod.current_resources.values()]
    assert in_force == ["3", "2"]
    assert str(read_pod(spec).current_resources["app"].request("cpu")) == "1"


def test_conditions_are_found_by_type() -> None:
    """A condition is asked for by its type, None if it is not there."""
    pod = make.running(make.pod_json(), ready_since=timedelta(minutes=5))
    ready = pod.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.last_transition) == ("True", make.NOW - timedelta(minutes=5))
    assert pod.condition("PodResizePending") is None


@pytest.mark.parametrize("field", ["reason", "startedAt", "finishedAt"])
def test_wrong_terminations(field: str) -> None:
    """How a container ended is read with the same care."""
    status = {"lastState": {"terminated": {**ENDED, field: []}}}
    with pytest.raises(BadObject) as caught:
        make.pod(status={"containerStatuses": [status]})
    assert caught.value.path == f"status.containerStatuses[0].lastState.terminated.{field}"


def test_a_wrong_quantity_tells_what_an_api_server_would() -> None:
    """The message about a quantity is the API server's."""
    with pytest.raises(BadQuantity) as caught:
        make.pod(cpu="lots")
    assert caught.value.message.startswith("quantities must match the regular expression")


def test_ten_thousand_containers() -> None:
    """Many containers are many containers."""
    pod = make.pod(*[make.container_json(f"c{index}", cpu="1m") for index in range(10_000)])
    assert len(pod.containers) == 10_000


def test_no_containers() -> None:
    """A list that is not there is an empty one."""
    assert read_containers({"containers": None}, "containers", "spec") == ()


def test_long_resources_are_not_kept() -> None:
    """Equal resources are one object, unless their text is long."""
    short = {"requests": {"cpu": "1"}}
    long = {"requests": {f"example.com/{index}": "1" for index in range(50)}}
    for resources, is_kept in ((short, True), (long, False)):
        item = make.pod_json({"name": "app", "resources": resources})
        first, second = (read_pod(item).containers[0].resources for _ in range(2))
        assert first == second
        assert (first is second) is is_kept


def test_boost_annotation() -> None:
    """What an author asked for is kept as JSON, cpu and memory alone, as they are printed."""
    container = make.container(
        resources={"requests": {"memory": "1024Mi", "x/y": "1", "cpu": "0.1"}, "limits": None}
    )
    assert (
        boost_annotation_value(container)
        == '{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{}}'
    )
    assert boost_annotation_value(make.container()) == '{"requests":{},"limits":{}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"1"}}',
            Resources(make.quantities(cpu="100m", memory="1Gi"), make.quantities(cpu="1")),
        ),
        ('{"requests":{}}', Resources({}, None)),
        (None, None),
        ("", None),
        ("{}", None),
        ("null", None),
        ("[]", None),
        ("{nonsense", None),
        ('{"requests":{"cpu":"many"}}', None),
        ('{"requests":7}', None),
    ],
)
def test_original_resources(text: str | None, expected: Resources | None) -> None:
    """An annotation that cannot be read tells nothing."""
    annotations = None if text is None else {f"{BOOST_KEY_PREFIX}app": text}
    assert original_resources(make.pod(annotations=annotations), "app") == expected


def test_without_sidecars() -> None:
    """A pod whose sidecars are left alone has them among the containers that are not changed."""
    pod = read_pod(FULL).without_sidecars()
    assert [one.name for one in pod.containers] == ["app", "side"]
    assert [(one.name, one.is_sidecar) for one in pod.init_containers] == [
        ("setup", False),
        ("proxy", True),
    ]
    assert [one.name for one in pod.statuses] == ["app", "side"]
    assert pod.without_sidecars() is pod
    assert read_pod_without_sidecars(FULL) == pod


@pytest.mark.parametrize(("index", "expected"), [(0, "container 0"), (2, "init container 1")])
def test_a_place_as_text(index: int, expected: str) -> None:
    """A container is called after where it stands."""
    assert str(read_pod(FULL).containers[index].place) == expected
