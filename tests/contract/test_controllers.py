"""The controllers of pods: what they make, replace and take away."""

from __future__ import annotations

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
    Cluster,
    Json,
    PatchKind,
    Ref,
    Resource,
)
from tests.contract.building import add, container, pod, workload
from tests.contract.crowds import Pods, idle
from tests.contract.waiting import Eventually

MERGE = PatchKind.MERGE


@pytest.fixture
def pods(cluster: Cluster, namespace: str, eventually: Eventually) -> Pods:
    """The pods of the case."""
    return Pods(cluster, namespace, eventually)


def body_of(resource: Resource, replicas: int) -> Json:
    """A controller of idle pods."""
    found = workload(replicas=replicas, template=idle())
    if resource == REPLICATION_CONTROLLERS:
        found["spec"]["selector"] = {"app": "contract"}
    return found


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
def test_pods_are_made_and_replaced(cluster: Cluster, pods: Pods, resource: Resource) -> None:
    """There are as many pods as asked for, and one that goes is replaced by another."""
    cluster.create(Ref(resource, pods.namespace), body_of(resource, 3))
    status = pods.await_status(resource, "web", readyReplicas=3)
    before = {item["metadata"]["uid"] for item in pods.all()}
    cluster.delete(Ref(PODS, pods.namespace, pods.names()[0]))
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


def test_a_pod_on_each_node(cluster: Cluster, pods: Pods) -> None:
    """A DaemonSet has a pod for each node that takes any, and replaces one that goes."""
    nodes = [found["metadata"]["name"] for found in cluster.list(NODES).items if _is_open(found)]
    body = workload(template=idle())
    del body["spec"]["replicas"]
    cluster.create(Ref(DAEMON_SETS, pods.namespace), body)
    before = {item["metadata"]["uid"] for item in pods.await_count(len(nodes))}
    for name in pods.names()[:1]:
        cluster.delete(Ref(PODS, pods.namespace, name))
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
def test_replicas_go_up_and_down(cluster: Cluster, pods: Pods, resource: Resource) -> None:
    """Pods follow the number that is asked for."""
    cluster.create(Ref(resource, pods.namespace), body_of(resource, 1))
    for replicas in (3, 1, 0):
        patch = {"spec": {"replicas": replicas}}
        cluster.patch(Ref(resource, pods.namespace, "web", subresource="scale"), patch, kind=MERGE)
        pods.await_running(replicas)

    assert pods.names() == []


def test_owners_take_their_own_with_them(cluster: Cluster, pods: Pods) -> None:
    """What an owner owned goes after it."""
    cluster.create(Ref(DEPLOYMENTS, pods.namespace), body_of(DEPLOYMENTS, 2))
    pods.await_count(2)
    cluster.delete(Ref(DEPLOYMENTS, pods.namespace, "web"))
    pods.await_count(0)

    assert pods.eventually(lambda: not cluster.list(REPLICA_SETS, pods.namespace).items)


def test_objects_of_owners_that_never_were(cluster: Cluster, pods: Pods) -> None:
    """An object whose owner does not exist is collected."""
    body = pod()
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "no", "uid": "no-such-uid"}
    ]
    cluster.create(Ref(PODS, pods.namespace), body)

    pods.await_count(0)


@pytest.mark.parametrize(
    "resource", [REPLICATION_CONTROLLERS, JOBS], ids=lambda resource: resource.plural
)
def test_owners_that_leave_theirs_behind(cluster: Cluster, pods: Pods, resource: Resource) -> None:
    """Two old kinds let their pods live on, without an owner."""
    body = body_of(resource, 1)
    if resource == JOBS:
        body = {"metadata": {"name": "web"}, "spec": {"template": idle(restartPolicy="Never")}}
    cluster.create(Ref(resource, pods.namespace), body)
    pods.await_count(1)
    cluster.delete(Ref(resource, pods.namespace, "web"))
    pods.eventually(lambda: all(not item["metadata"].get("ownerReferences") for item in pods.all()))

    assert len(pods.all()) == 1


def test_strays_are_taken_in_and_let_go(cluster: Cluster, pods: Pods) -> None:
    """Labels decide whose a pod is: one that matches is adopted, one that ceases to is let go."""
    cluster.create(Ref(PODS, pods.namespace), pod("stray"))
    cluster.create(Ref(REPLICA_SETS, pods.namespace), body_of(REPLICA_SETS, 1))
    pods.eventually(
        lambda: cluster.get(Ref(PODS, pods.namespace, "stray"))["metadata"].get("ownerReferences")
    )
    assert pods.names() == ["stray"]

    patch = {"metadata": {"labels": {"app": "other"}}}
    cluster.patch(Ref(PODS, pods.namespace, "stray"), patch, kind=MERGE)
    pods.await_count(2)
    stray = cluster.get(Ref(PODS, pods.namespace, "stray"))

    assert not stray["metadata"].get("ownerReferences")


def test_pods_of_a_deployment(cluster: Cluster, pods: Pods) -> None:
    """A Deployment keeps one ReplicaSet for each template, told apart by a label."""
    created = cluster.create(Ref(DEPLOYMENTS, pods.namespace), body_of(DEPLOYMENTS, 1))
    (found,) = pods.await_count(1)
    (replica_set,) = cluster.list(REPLICA_SETS, pods.namespace).items
    label = found["metadata"]["labels"]["pod-template-hash"]

    assert owner_of(replica_set)["uid"] == created["metadata"]["uid"]
    assert replica_set["metadata"]["name"] == f"web-{label}"
    assert replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"] == label
    assert found["metadata"]["generateName"] == f"web-{label}-"


def test_a_rollout_keeps_to_its_bounds(cluster: Cluster, pods: Pods) -> None:
    """New pods come before old ones go, never more than allowed, never fewer available."""
    body = body_of(DEPLOYMENTS, 4)
    body["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    cluster.create(Ref(DEPLOYMENTS, pods.namespace), body)
    pods.await_status(DEPLOYMENTS, "web", readyReplicas=4)
    old = set(pods.names())
    image = [add("/spec/template/spec/containers/0/image", "other:2")]
    cluster.patch(Ref(DEPLOYMENTS, pods.namespace, "web"), image)
    pods.await_count(5)
    waiting = set(pods.names())
    pods.await_status(DEPLOYMENTS, "web", updatedReplicas=4, replicas=4, availableReplicas=4)
    pods.await_count(4)

    assert old < waiting
    assert not old & set(pods.names())
    images = {item["spec"]["containers"][0]["image"] for item in pods.all()}
    assert images == {"other:2"}


def test_a_rollout_by_recreation(cluster: Cluster, pods: Pods) -> None:
    """All old pods go before a new one comes."""
    body = body_of(DEPLOYMENTS, 2)
    body["spec"]["strategy"] = {"type": "Recreate"}
    cluster.create(Ref(DEPLOYMENTS, pods.namespace), body)
    pods.await_status(DEPLOYMENTS, "web", readyReplicas=2)
    old = set(pods.names())
    image = [add("/spec/template/spec/containers/0/image", "other:2")]
    cluster.patch(Ref(DEPLOYMENTS, pods.namespace, "web"), image)
    pods.eventually(lambda: not old & set(pods.names()))
    pods.await_count(2)

    assert {item["spec"]["containers"][0]["image"] for item in pods.all()} == {"other:2"}


def test_pods_of_a_stateful_set_come_in_order(cluster: Cluster, pods: Pods) -> None:
    """A pod is made only when the one before it is Ready, and bears its place as a name."""
    created = cluster.create(Ref(STATEFUL_SETS, pods.namespace), body_of(STATEFUL_SETS, 2))
    (first,) = pods.await_count(1)
    status = pods.await_status(STATEFUL_SETS, "web", readyReplicas=2, updatedReplicas=2)
    labels = first["metadata"]["labels"]

    assert pods.names() == ["web-0", "web-1"]
    assert owner_of(first)["uid"] == created["metadata"]["uid"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert labels["controller-revision-hash"] == status["updateRevision"]
    assert status["currentRevision"] == status["updateRevision"]


def test_a_stateful_set_rolls_from_the_end(cluster: Cluster, pods: Pods) -> None:
    """Old pods are replaced one by one, the last first, down to the partition."""
    body = body_of(STATEFUL_SETS, 3)
    body["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 1}}
    cluster.create(Ref(STATEFUL_SETS, pods.namespace), body)
    pods.await_status(STATEFUL_SETS, "web", readyReplicas=3)
    image = [add("/spec/template/spec/containers/0/image", "other:2")]
    cluster.patch(Ref(STATEFUL_SETS, pods.namespace, "web"), image)
    status = pods.await_status(STATEFUL_SETS, "web", updatedReplicas=2, readyReplicas=3)
    images = [item["spec"]["containers"][0]["image"] for item in pods.all()]

    assert [image == "other:2" for image in images] == [False, True, True]
    assert status["currentRevision"] != status["updateRevision"]


def test_stateful_pods_below_the_partition_keep_their_template(
    cluster: Cluster, pods: Pods
) -> None:
    """A pod that is not to be updated yet comes back as it was."""
    body = body_of(STATEFUL_SETS, 2)
    body["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 1}}
    cluster.create(Ref(STATEFUL_SETS, pods.namespace), body)
    pods.await_status(STATEFUL_SETS, "web", readyReplicas=2)
    image = [add("/spec/template/spec/containers/0/image", "other:2")]
    cluster.patch(Ref(STATEFUL_SETS, pods.namespace, "web"), image)
    pods.await_status(STATEFUL_SETS, "web", updatedReplicas=1, readyReplicas=2)
    before = cluster.get(Ref(PODS, pods.namespace, "web-0"))
    cluster.delete(Ref(PODS, pods.namespace, "web-0"))

    def successor() -> Json | None:
        found = cluster.get(Ref(PODS, pods.namespace, "web-0"))
        return found if found["metadata"]["uid"] != before["metadata"]["uid"] else None

    after = pods.eventually(successor)
    assert after["spec"]["containers"][0]["image"] == container()["image"]


def test_stateful_pods_side_by_side(cluster: Cluster, pods: Pods) -> None:
    """With a parallel policy no pod waits for another."""
    body = body_of(STATEFUL_SETS, 3)
    body["spec"]["podManagementPolicy"] = "Parallel"
    cluster.create(Ref(STATEFUL_SETS, pods.namespace), body)
    pods.await_count(3)
    cluster.patch(Ref(STATEFUL_SETS, pods.namespace, "web"), {"spec": {"replicas": 1}}, kind=MERGE)
    pods.await_count(1)

    assert pods.names() == ["web-0"]


def test_failed_pods_are_replaced(cluster: Cluster, pods: Pods) -> None:
    """A pod that failed for good, as one that its node evicted, counts no longer."""
    cluster.create(Ref(DEPLOYMENTS, pods.namespace), body_of(DEPLOYMENTS, 1))
    (first,) = pods.await_count(1)
    pods.say(first["metadata"]["name"], {"phase": "Failed", "reason": "Evicted"})
    pods.await_count(2)

    assert first["metadata"]["name"] in pods.names()


def job(name: str = "work", **spec: object) -> Json:
    """A Job of idle pods."""
    return {"metadata": {"name": name}, "spec": {"template": idle(restartPolicy="Never"), **spec}}


def has_condition(cluster: Cluster, namespace: str, kind: str) -> bool:
    """Whether the Job of a case has a condition."""
    conditions = cluster.get(Ref(JOBS, namespace, "work"))["status"].get("conditions") or ()
    return any(found["type"] == kind and found["status"] == "True" for found in conditions)


def test_jobs_end(cluster: Cluster, pods: Pods) -> None:
    """A Job makes pods until enough of them have succeeded."""
    created = cluster.create(Ref(JOBS, pods.namespace), job(completions=2, parallelism=1))
    uid = created["metadata"]["uid"]
    for number in (1, 2):
        pods.await_count(number)
        for name in pods.names():
            pods.say(name, {"phase": "Succeeded"})
    pods.eventually(lambda: has_condition(cluster, pods.namespace, "Complete"))
    status = cluster.get(Ref(JOBS, pods.namespace, "work"))["status"]

    assert created["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert {item["metadata"]["labels"]["job-name"] for item in pods.all()} == {"work"}
    assert status["succeeded"] == 2
    assert status["completionTime"]


def test_jobs_give_up(cluster: Cluster, pods: Pods) -> None:
    """More failures than the limit end a Job."""
    cluster.create(Ref(JOBS, pods.namespace), job(backoffLimit=0))
    (found,) = pods.await_count(1)
    pods.say(found["metadata"]["name"], {"phase": "Failed"})

    assert pods.eventually(lambda: has_condition(cluster, pods.namespace, "Failed"))


def test_jobs_are_suspended(cluster: Cluster, pods: Pods) -> None:
    """A Job that is suspended has no pods; it goes on when it is not any more."""
    cluster.create(Ref(JOBS, pods.namespace), job(suspend=True))
    pods.eventually(lambda: has_condition(cluster, pods.namespace, "Suspended"))
    assert pods.all() == []
    cluster.patch(Ref(JOBS, pods.namespace, "work"), {"spec": {"suspend": False}}, kind=MERGE)
    pods.await_count(1)
    cluster.patch(Ref(JOBS, pods.namespace, "work"), {"spec": {"suspend": True}}, kind=MERGE)
    pods.await_count(0)


def test_jobs_go_after_a_while(cluster: Cluster, pods: Pods) -> None:
    """A finished Job with a time to live takes its pods with it."""
    cluster.create(Ref(JOBS, pods.namespace), job(ttlSecondsAfterFinished=1))
    (found,) = pods.await_count(1)
    pods.say(found["metadata"]["name"], {"phase": "Succeeded"})
    pods.await_count(0)

    pods.eventually(lambda: not cluster.list(JOBS, pods.namespace).items)


def test_job_pods_are_replaced(cluster: Cluster, pods: Pods) -> None:
    """A pod of a Job that goes before it is done counts as failed, and another one comes."""
    cluster.create(Ref(JOBS, pods.namespace), job())
    (found,) = pods.await_count(1)
    cluster.delete(Ref(PODS, pods.namespace, found["metadata"]["name"]))
    pods.eventually(lambda: pods.names() not in ([], [found["metadata"]["name"]]))
    status = cluster.get(Ref(JOBS, pods.namespace, "work"))["status"]

    assert status["failed"] == 1


def test_cron_jobs(cluster: Cluster, pods: Pods) -> None:
    """A CronJob makes a Job when it is time."""
    body = {
        "metadata": {"name": "often"},
        "spec": {
            "schedule": "* * * * *",
            "timeZone": "Asia/Tokyo",
            "jobTemplate": {"spec": job()["spec"]},
        },
    }
    cluster.create(Ref(CRON_JOBS, pods.namespace), body)
    pods.eventually(lambda: pods.all(), seconds=90)
    found = cluster.list(JOBS, pods.namespace).items[0]
    status = cluster.get(Ref(CRON_JOBS, pods.namespace, "often"))["status"]

    assert owner_of(found)["kind"] == "CronJob"
    assert found["metadata"]["name"].startswith("often-")
    assert [entry["name"] for entry in status["active"]] == [found["metadata"]["name"]]
    assert status["lastScheduleTime"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("schedule", "* * * *"), ("timeZone", "Mars/Base"), ("timeZone", "")],
)
def test_cron_jobs_that_never_come(cluster: Cluster, pods: Pods, field: str, value: str) -> None:
    """A time or a zone that is none is refused, and named."""
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}, field: value}

    with pytest.raises(Invalid, match=f"spec.{field}"):
        cluster.create(
            Ref(CRON_JOBS, pods.namespace), {"metadata": {"name": "never"}, "spec": spec}
        )


def test_refused_pods_are_told_as_events(
    cluster: Cluster, pods: Pods, eventually: Eventually
) -> None:
    """What a controller cannot make, its events tell, and it tries again."""
    body = body_of(REPLICA_SETS, 1)
    asked = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    body["spec"]["template"]["spec"]["containers"] = [container(resources=asked)]
    item = {"type": "Container", "max": {"cpu": "500m"}}
    cluster.create(
        Ref(LIMIT_RANGES, pods.namespace), {"metadata": {"name": "l"}, "spec": {"limits": [item]}}
    )
    cluster.create(Ref(REPLICA_SETS, pods.namespace), body)
    (event,) = eventually(
        lambda: cluster.list(EVENTS, pods.namespace, field_selector="reason=FailedCreate").items
    )[:1]
    cluster.delete(Ref(LIMIT_RANGES, pods.namespace, "l"))

    assert "maximum cpu usage per Container is 500m" in event["message"]
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "web")
    assert pods.eventually(lambda: pods.all(), seconds=120)
