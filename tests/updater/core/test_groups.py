"""Owners: how many pods they want, who of them is up, what is being rolled out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.model.kinds import ObjectKey
from app.model.workloads import Workload, scaled_workload
from app.updater.core.owners import (
    OngoingRollout,
    budget_of,
    configured_size,
    is_broken,
    is_live,
    is_unready,
    ongoing_rollout,
    required_replicas,
    went_down,
)
from tests import make
from tests.updater.core.scenes import (
    NOW,
    OURS,
    named,
    pending,
    read,
    running,
    several,
    unscheduled,
)

Json = make.Json


def key(text: str) -> ObjectKey:
    """Return the key of `Kind/name`; an unknown kind is of the group example.com."""
    kind, _, name = text.partition("/")
    return ObjectKey("" if kind in make.API_VERSIONS else "example.com", kind, name)


def scaled(replicas: int | None) -> Workload:
    """Return a custom owner."""
    spec = {} if replicas is None else {"replicas": replicas}
    scale = {"metadata": {"name": "x"}, "spec": spec, "status": {"selector": "app=web"}}
    return scaled_workload("default", "example.com/v1", "Rollout", scale)


@pytest.mark.parametrize(
    ("owner", "workload", "live", "expected"),
    [
        ("ReplicaSet/web", make.workload("ReplicaSet/web", replicas=5), 3, 5),
        ("StatefulSet/web", make.workload("StatefulSet/web", replicas=5), 3, 5),
        ("ReplicationController/web", make.workload("ReplicationController/web"), 1, 3),
        ("ReplicaSet/web", make.workload("ReplicaSet/web", replicas=0), 3, None),
        ("ReplicaSet/web", make.workload("ReplicaSet/web", replicas=None), 3, None),
        ("ReplicaSet/web", None, 3, None),
        pytest.param(
            "DaemonSet/web",
            make.workload("DaemonSet/web", status={"desiredNumberScheduled": 10}),
            3,
            10,
            id="a DaemonSet by its status",
        ),
        ("DaemonSet/web", make.workload("DaemonSet/web"), 3, None),
        ("Job/web", make.workload("Job/web"), 5, 5),
        ("Job/web", None, 5, 5),
        pytest.param("Rollout/x", scaled(7), 5, 7, id="another kind by its scale"),
        ("Rollout/x", scaled(None), 5, 5),
        ("Rollout/x", scaled(0), 5, None),
        ("Rollout/x", None, 5, 5),
    ],
)
def test_configured_size(
    owner: str, workload: Workload | None, live: int, expected: int | None
) -> None:
    """Whoever owns pods says how many there should be; only jobs go by what there is."""
    found = configured_size(key(owner), workload, live)
    assert found.configured == expected
    assert bool(found.problem) == (expected is None)


@pytest.mark.parametrize(("said", "expected"), [(None, 2), (5, 5), (0, 0)])
def test_required_replicas(said: int | None, expected: int) -> None:
    """A VPA's own number comes before the flag."""
    assert required_replicas(make.vpa(min_replicas=said), OURS) == expected


POD = running()
GONE = POD | {"metadata": POD["metadata"] | {"deletionTimestamp": make.time(timedelta())}}
OVER = POD | {"status": {"phase": "Succeeded"}}
UNREADY = running(ready=False, age=timedelta(minutes=5))


def terminating(pod: Json) -> Json:
    """Return a pod on its way out."""
    return pod | {"metadata": pod["metadata"] | {"deletionTimestamp": make.time(timedelta())}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [(POD, True), (pending(POD), True), (GONE, False), (OVER, False), (unscheduled(POD), True)],
)
def test_is_live(pod: Json, expected: bool) -> None:
    """Pods that end or ended do not count; those without a node do."""
    assert is_live(read(pod)) is expected


def test_who_is_up() -> None:
    """Running is by phase, alive by readiness; a pod that says nothing of it is alive."""
    silent = read(running() | {"status": {"phase": "Running"}})
    pods = [*map(read, several(POD, 3)), read(UNREADY), read(pending(POD)), silent]
    found = budget_of(pods, 6, 0.5)
    assert (found.running, found.alive) == (5, 4)
    assert is_unready(read(UNREADY))
    assert not is_unready(silent)


def test_own_actions_count_before_they_are_seen() -> None:
    """Pods that we evicted or restart are not up, whatever the watch still shows."""
    pods = [read(pod) for pod in several(POD, 4)]
    found = budget_of(pods, 4, 0.5, gone={"uid-web-0"}, disturbed={"uid-web-0", "uid-web-1"})
    assert (found.running, found.alive) == (3, 2)


@pytest.mark.parametrize(
    ("before", "after", "stopped", "unready"),
    [
        pytest.param(POD, POD, 0, 0, id="as it was"),
        pytest.param(POD, named(POD, "other"), 1, 1, id="gone"),
        pytest.param(POD, POD | {"metadata": POD["metadata"] | {"uid": "x"}}, 1, 1, id="replaced"),
        pytest.param(POD, terminating(POD), 1, 1, id="on its way out"),
        pytest.param(POD, pending(POD), 1, 1, id="not running"),
        pytest.param(POD, UNREADY, 0, 1, id="not ready"),
        pytest.param(UNREADY, POD, 0, 0, id="up again"),
        pytest.param(UNREADY, terminating(UNREADY), 1, 0, id="unready before"),
    ],
)
def test_went_down(before: Json, after: Json, stopped: int, unready: int) -> None:
    """What fell since a plan was made is missing from its budget."""
    now = {after["metadata"]["name"]: read(after)}
    same = read(named(POD, "same"))
    assert went_down([read(before), same], now | {"same": same}) == (stopped, unready)


@pytest.mark.parametrize(
    ("ready", "since", "quick_oom", "expected"),
    [
        (True, 60, True, False),
        (False, 5, False, False),
        (False, 5, True, True),
        (False, 10, False, True),
    ],
)
def test_is_broken(ready: bool, since: int, quick_oom: bool, expected: bool) -> None:
    """A pod is broken if it is unready for long, or for want of memory."""
    pod = read(running(ready=ready, age=timedelta(minutes=since)))
    assert is_broken(pod, OURS, NOW, quick_oom=quick_oom) is expected


def test_an_undated_unready_pod_is_not_broken() -> None:
    """Without a time nobody knows how long."""
    pod = running(status={"conditions": [{"type": "Ready", "status": "False"}]})
    assert not is_broken(read(pod), OURS, NOW, quick_oom=False)


def deployment(**status: int) -> Json:
    """Return a Deployment of three at generation 2."""
    return make.workload_json(
        "Deployment/web", metadata={"generation": 2}, status={"observedGeneration": 2} | status
    )


def stateful(partition: int = 0, **status: object) -> Json:
    """Return a StatefulSet of three in the middle of an update."""
    return make.workload_json(
        spec={"updateStrategy": {"rollingUpdate": {"partition": partition}}},
        status={"observedGeneration": 1, "currentRevision": "a", "updateRevision": "b"} | status,
    )


SET = make.workload_json("ReplicaSet/web", owner="Deployment/web")


@pytest.mark.parametrize(
    ("owner", "parent", "told"),
    [
        (SET, deployment(updatedReplicas=3, replicas=3), ""),
        (SET, deployment(updatedReplicas=2, replicas=3), "2 of 3 pods are of the latest template"),
        (
            SET,
            deployment(updatedReplicas=3, replicas=5),
            "2 pods of an older template are still there",
        ),
        (SET, deployment(observedGeneration=1), "its latest change was not seen yet"),
        (SET, make.workload_json("Deployment/web"), ""),
        (SET, None, ""),
        (stateful(updatedReplicas=1), None, "1 of 3 pods are of the latest template"),
        (stateful(updatedReplicas=3), None, ""),
        (stateful(partition=2, updatedReplicas=1), None, ""),
        (stateful(updatedReplicas=0, updateRevision="a"), None, ""),
        (make.workload_json("DaemonSet/web", status={"observedGeneration": 1}), None, ""),
    ],
)
def test_rolling(owner: Json, parent: Json | None, told: str) -> None:
    """A rollout goes on until all pods are of the latest template and the others are gone."""
    items = [owner] if parent is None else [owner, parent]
    view = make.snapshot(*items).of("default")
    found = ongoing_rollout(view.workloads[key(f"{owner['kind']}/web")], view)
    assert (found.message.partition(": ")[2] if found else "") == told


def test_what_has_no_owner_is_not_rolled_out() -> None:
    """Nor what has one that tells nothing; a replica count that is not said is one."""
    view = make.snapshot(SET).of("default")
    assert ongoing_rollout(None, view) is None
    assert ongoing_rollout(scaled(3), view) is None
    alone = make.workload(
        "Deployment/web", replicas=None, status={"observedGeneration": 1, "updatedReplicas": 0}
    )
    assert ongoing_rollout(alone, view) == OngoingRollout(
        "Deployment/web@1/0", "Deployment/web: 0 of 1 pods are of the latest template"
    )
