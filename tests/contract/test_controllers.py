"""The controllers of pods: what they make, replace and take away."""

from __future__ import annotations

import re

import pytest

from app.model.errors import Invalid
from app.ports import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LIMIT_RANGES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Json,
    Resource,
)
from tests.contract.building import add, container, pod, workload
from tests.contract.crowds import Pods, cron_job, idle, job
from tests.contract.space import Space

OTHER_IMAGE = [add("/spec/template/spec/containers/0/image", "other:2")]
PARTITION = {"rollingUpdate": {"partition": 1}}


def body_of(resource: Resource, replicas: int, **spec: object) -> Json:
    """A controller of idle pods."""
    found = workload(replicas=replicas, template=idle())
    found["spec"] |= spec
    if resource == REPLICATION_CONTROLLERS:
        found["spec"]["selector"] = {"app": "contract"}
    return found


def images(pods: Pods) -> list[str]:
    """What the pods run."""
    return [item["spec"]["containers"][0]["image"] for item in pods.all()]


def owner_of(item: Json) -> Json:
    """The controlling owner."""
    (found,) = (owner for owner in item["metadata"]["ownerReferences"] if owner["controller"])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "resource",
    [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS],
    ids=lambda resource: resource.plural,
)
def test_pods_are_made_and_replaced(pods: Pods, resource: Resource) -> None:
    """There are as many pods as asked for, and one that goes is replaced by another."""
    pods.create(resource, body_of(resource, 3))
    status = pods.await_status(resource, "web", readyReplicas=3)
    before = {item["metadata"]["uid"] for item in pods.all()}
    pods.delete(PODS, pods.names()[0])
    pods.eventually(
        lambda: (
            len({item["metadata"]["uid"] for item in pods.all()} - before) == 1
            and len(pods.all()) == 3
        )
    )

    assert (status["replicas"], status["observedGeneration"]) == (3, 1)
    for item in pods.all():
        assert item["metadata"]["labels"]["app"] == "contract"
        expected = "ReplicaSet" if resource == DEPLOYMENTS else resource.kind
        assert owner_of(item)["kind"] == expected


def test_a_pod_on_each_node(pods: Pods) -> None:
    """A DaemonSet has a pod for each node that takes any, and replaces one that goes."""
    nodes = [node["metadata"]["name"] for node in pods.cluster.list(NODES).items if _is_open(node)]
    body = workload(template=idle())
    del body["spec"]["replicas"]
    pods.create(DAEMON_SETS, body)
    before = {item["metadata"]["uid"] for item in pods.await_count(len(nodes))}
    for name in pods.names()[:1]:
        pods.delete(PODS, name)
    pods.eventually(
        lambda: (
            len({item["metadata"]["uid"] for item in pods.all()} - before) == bool(nodes)
            and sorted(map(_node_wanted, pods.all())) == sorted(nodes)
        )
    )
    pods.await_status(DAEMON_SETS, "web", desiredNumberScheduled=len(nodes))

    assert {owner_of(item)["kind"] for item in pods.all()} <= {"DaemonSet"}


def _is_open(node: Json) -> bool:
    return not node["spec"].get("unschedulable") and not node["spec"].get("taints")


def _node_wanted(item: Json) -> str:
    """The only node that a pod of a DaemonSet may come to."""
    affinity = item["spec"]["affinity"]["nodeAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    (name,) = required["nodeSelectorTerms"][0]["matchFields"][0]["values"]
    assert isinstance(name, str)
    return name


@pytest.mark.parametrize(
    "resource", [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS], ids=lambda resource: resource.plural
)
def test_replicas_go_up_and_down(pods: Pods, resource: Resource) -> None:
    """Pods follow the number that is asked for."""
    pods.create(resource, body_of(resource, 1))
    for replicas in (3, 1, 0):
        pods.merge(resource, "web", {"spec": {"replicas": replicas}}, "scale")
        pods.await_running(replicas)

    assert pods.names() == []


def test_owners_take_their_own_with_them(pods: Pods) -> None:
    """What an owner owned goes after it."""
    pods.create(DEPLOYMENTS, body_of(DEPLOYMENTS, 2))
    pods.await_count(2)
    pods.delete(DEPLOYMENTS, "web")
    pods.await_count(0)

    assert pods.eventually(lambda: not pods.items(REPLICA_SETS))


def test_objects_of_owners_that_never_were(pods: Pods) -> None:
    """An object whose owner does not exist is collected."""
    body = pod()
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "no", "uid": "no-such-uid"}
    ]
    pods.create(PODS, body)

    pods.await_count(0)


@pytest.mark.parametrize(
    "resource", [REPLICATION_CONTROLLERS, JOBS], ids=lambda resource: resource.plural
)
def test_owners_that_leave_theirs_behind(pods: Pods, resource: Resource) -> None:
    """Two old kinds let their pods live on, without an owner."""
    pods.create(resource, job("web") if resource == JOBS else body_of(resource, 1))
    pods.await_count(1)
    pods.delete(resource, "web")
    pods.eventually(lambda: all(not item["metadata"].get("ownerReferences") for item in pods.all()))

    assert len(pods.all()) == 1


def test_strays_are_taken_in_and_let_go(pods: Pods) -> None:
    """Labels decide whose a pod is: one that matches is adopted, one that ceases to is let go."""
    pods.create(PODS, pod("stray"))
    pods.create(REPLICA_SETS, body_of(REPLICA_SETS, 1))
    pods.eventually(lambda: pods.get(PODS, "stray")["metadata"].get("ownerReferences"))
    assert pods.names() == ["stray"]

    pods.merge(PODS, "stray", {"metadata": {"labels": {"app": "other"}}})
    pods.await_count(2)

    assert not pods.get(PODS, "stray")["metadata"].get("ownerReferences")


def test_pods_of_a_deployment(pods: Pods) -> None:
    """A Deployment keeps one ReplicaSet for each template, told apart by a label."""
    created = pods.create(DEPLOYMENTS, body_of(DEPLOYMENTS, 1))
    (found,) = pods.await_count(1)
    (replica_set,) = pods.items(REPLICA_SETS)
    label = found["metadata"]["labels"]["pod-template-hash"]

    assert owner_of(replica_set)["uid"] == created["metadata"]["uid"]
    assert replica_set["metadata"]["name"] == f"web-{label}"
    assert replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"] == label
    assert found["metadata"]["generateName"] == f"web-{label}-"


def test_a_rollout_keeps_to_its_bounds(pods: Pods) -> None:
    """New pods come before old ones go, never more than allowed, never fewer available."""
    bounds = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    pods.create(DEPLOYMENTS, body_of(DEPLOYMENTS, 4, strategy=bounds))
    pods.await_status(DEPLOYMENTS, "web", readyReplicas=4)
    old = set(pods.names())
    pods.patch(DEPLOYMENTS, "web", OTHER_IMAGE)
    pods.await_count(5)
    waiting = set(pods.names())
    pods.await_status(DEPLOYMENTS, "web", updatedReplicas=4, replicas=4, availableReplicas=4)
    pods.await_count(4)

    assert old < waiting
    assert not old & set(pods.names())
    assert set(images(pods)) == {"other:2"}


def test_a_rollout_by_recreation(pods: Pods) -> None:
    """All old pods go before a new one comes."""
    pods.create(DEPLOYMENTS, body_of(DEPLOYMENTS, 2, strategy={"type": "Recreate"}))
    pods.await_status(DEPLOYMENTS, "web", readyReplicas=2)
    old = set(pods.names())
    pods.patch(DEPLOYMENTS, "web", OTHER_IMAGE)
    pods.eventually(lambda: not old & set(pods.names()))
    pods.await_count(2)

    assert set(images(pods)) == {"other:2"}


def test_pods_of_a_stateful_set_come_in_order(pods: Pods) -> None:
    """A pod is made only when the one before it is Ready, and bears its place as a name."""
    created = pods.create(STATEFUL_SETS, body_of(STATEFUL_SETS, 2))
    (first,) = pods.await_count(1)
    status = pods.await_status(STATEFUL_SETS, "web", readyReplicas=2, updatedReplicas=2)
    labels = first["metadata"]["labels"]

    assert pods.names() == ["web-0", "web-1"]
    assert owner_of(first)["uid"] == created["metadata"]["uid"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert labels["controller-revision-hash"] == status["updateRevision"]
    assert status["currentRevision"] == status["updateRevision"]


def test_a_stateful_set_rolls_from_the_end(pods: Pods) -> None:
    """Old pods are replaced one by one, the last first, down to the partition."""
    pods.create(STATEFUL_SETS, body_of(STATEFUL_SETS, 3, updateStrategy=PARTITION))
    pods.await_status(STATEFUL_SETS, "web", readyReplicas=3)
    pods.patch(STATEFUL_SETS, "web", OTHER_IMAGE)
    status = pods.await_status(STATEFUL_SETS, "web", updatedReplicas=2, readyReplicas=3)

    assert [image == "other:2" for image in images(pods)] == [False, True, True]
    assert status["currentRevision"] != status["updateRevision"]


def test_stateful_pods_below_the_partition_keep_their_template(pods: Pods) -> None:
    """A pod that is not to be updated yet comes back as it was."""
    pods.create(STATEFUL_SETS, body_of(STATEFUL_SETS, 2, updateStrategy=PARTITION))
    pods.await_status(STATEFUL_SETS, "web", readyReplicas=2)
    pods.patch(STATEFUL_SETS, "web", OTHER_IMAGE)
    pods.await_status(STATEFUL_SETS, "web", updatedReplicas=1, readyReplicas=2)
    before = pods.get(PODS, "web-0")
    pods.delete(PODS, "web-0")

    def successor() -> Json | None:
        found = pods.get(PODS, "web-0")
        return found if found["metadata"]["uid"] != before["metadata"]["uid"] else None

    after = pods.eventually(successor)
    assert after["spec"]["containers"][0]["image"] == container()["image"]


def test_stateful_pods_side_by_side(pods: Pods) -> None:
    """With a parallel policy no pod waits for another."""
    pods.create(STATEFUL_SETS, body_of(STATEFUL_SETS, 3, podManagementPolicy="Parallel"))
    pods.await_count(3)
    pods.merge(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})
    pods.await_count(1)

    assert pods.names() == ["web-0"]


def test_failed_pods_are_replaced(pods: Pods) -> None:
    """A pod that failed for good, as one that its node evicted, counts no longer."""
    pods.create(DEPLOYMENTS, body_of(DEPLOYMENTS, 1))
    (first,) = pods.await_count(1)
    pods.say(first["metadata"]["name"], {"phase": "Failed", "reason": "Evicted"})
    pods.await_count(2)

    assert first["metadata"]["name"] in pods.names()


def has_condition(pods: Pods, kind: str) -> bool:
    """Whether the Job of a case has a condition."""
    conditions = pods.get(JOBS, "work")["status"].get("conditions") or ()
    return any(found["type"] == kind and found["status"] == "True" for found in conditions)


def test_jobs_end(pods: Pods) -> None:
    """A Job makes pods until enough of them have succeeded."""
    created = pods.create(JOBS, job(completions=2, parallelism=1))
    uid = created["metadata"]["uid"]
    for number in (1, 2):
        pods.await_count(number)
        for name in pods.names():
            pods.say(name, {"phase": "Succeeded"})
    pods.eventually(lambda: has_condition(pods, "Complete"))
    status = pods.get(JOBS, "work")["status"]

    assert created["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert {item["metadata"]["labels"]["job-name"] for item in pods.all()} == {"work"}
    assert status["succeeded"] == 2
    assert status["completionTime"]


def test_jobs_give_up(pods: Pods) -> None:
    """More failures than the limit end a Job."""
    pods.create(JOBS, job(backoffLimit=0))
    (found,) = pods.await_count(1)
    pods.say(found["metadata"]["name"], {"phase": "Failed"})

    assert pods.eventually(lambda: has_condition(pods, "Failed"))


def test_jobs_are_suspended(pods: Pods) -> None:
    """A Job that is suspended has no pods; it goes on when it is not any more."""
    pods.create(JOBS, job(suspend=True))
    pods.eventually(lambda: has_condition(pods, "Suspended"))
    assert pods.all() == []
    pods.merge(JOBS, "work", {"spec": {"suspend": False}})
    pods.await_count(1)
    pods.merge(JOBS, "work", {"spec": {"suspend": True}})
    pods.await_count(0)


def test_jobs_go_after_a_while(pods: Pods) -> None:
    """A finished Job with a time to live takes its pods with it."""
    pods.create(JOBS, job(ttlSecondsAfterFinished=1))
    (found,) = pods.await_count(1)
    pods.say(found["metadata"]["name"], {"phase": "Succeeded"})
    pods.await_count(0)

    pods.eventually(lambda: not pods.items(JOBS))


def test_job_pods_are_replaced(pods: Pods) -> None:
    """A pod of a Job that goes before it is done counts as failed, and another one comes."""
    pods.create(JOBS, job())
    (found,) = pods.await_count(1)
    pods.delete(PODS, found["metadata"]["name"])
    pods.eventually(lambda: pods.names() not in ([], [found["metadata"]["name"]]))
    status = pods.get(JOBS, "work")["status"]

    assert status["failed"] == 1


def test_cron_jobs(pods: Pods) -> None:
    """A CronJob makes a Job when it is time."""
    pods.create(CRON_JOBS, cron_job("often", {"timeZone": "Asia/Tokyo"}))
    pods.eventually(lambda: pods.all(), seconds=90)
    found = pods.items(JOBS)[0]
    status = pods.get(CRON_JOBS, "often")["status"]

    assert owner_of(found)["kind"] == "CronJob"
    assert found["metadata"]["name"].startswith("often-")
    assert [entry["name"] for entry in status["active"]] == [found["metadata"]["name"]]
    assert status["lastScheduleTime"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("schedule", text) for text in ("whenever", "* * * *", "61 * * * *", "* * * * 7")),
        ("schedule", "@every day"),
        ("timeZone", "Mars/Base"),
        ("timeZone", ""),
    ],
)
def test_cron_jobs_that_never_come(space: Space, field: str, value: str) -> None:
    """A time or a zone that is none is refused, and named."""
    with pytest.raises(Invalid, match=f'spec.{field}: Invalid value: "{re.escape(value)}"'):
        space.create(CRON_JOBS, cron_job("never", {field: value}))


def test_refused_pods_are_told_as_events(pods: Pods) -> None:
    """What a controller cannot make, its events tell, and it tries again."""
    body = body_of(REPLICA_SETS, 1)
    asked = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    body["spec"]["template"]["spec"]["containers"] = [container(resources=asked)]
    item = {"type": "Container", "max": {"cpu": "500m"}}
    pods.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    pods.create(REPLICA_SETS, body)
    (event,) = pods.eventually(lambda: pods.items(EVENTS, fields="reason=FailedCreate"))[:1]
    pods.delete(LIMIT_RANGES, "l")

    assert "maximum cpu usage per Container is 500m" in event["message"]
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "web")
    assert pods.eventually(lambda: pods.all(), seconds=120)
