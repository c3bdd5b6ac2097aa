"""Pods of every kind of controller, as the controllers of a real cluster make them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from app.model.fields import Json
from app.ports import JOBS, LIMIT_RANGES, REPLICA_SETS
from tests.acceptance.gadgets import GADGETS, gadget, install
from tests.acceptance.load import owned_pod, reference
from tests.acceptance.space import (
    APP,
    SMALL,
    Box,
    Space,
    annotation,
    bare_pod,
    boost,
    boxes_of,
    canonical,
    mode,
    selecting,
    workload,
)
from tests.acceptance.webhook import MUTATING_NAME, Webhook
from tests.cluster.api import Api, Refusal
from tests.cluster.control_plane import ControlPlane
from tests.cluster.programs import eventually

IGNORED = "test-ignored"
FLAGS = (
    "--feature-gates=CPUStartupBoost=true",
    f"--ignored-vpa-object-namespaces={IGNORED}",
)
FAILED_OPEN = "vpa_admission_controller_failed_open_pods_total"

MEDIUM = canonical(Box(requests="250m/200Mi"))


@pytest.fixture(autouse=True)
def nothing_failed(webhook: Webhook) -> Iterator[None]:
    """Whatever a test does, no pod passes for want of knowledge."""
    before = webhook.number(FAILED_OPEN)
    yield
    assert webhook.number(FAILED_OPEN) == before


def sized(space: Space, kind: str = "Deployment", target: str = APP, name: str = "vpa") -> None:
    """Have a VPA with a recommendation."""
    space.vpa(name, kind=kind, target=target)
    space.recommend({"hamster": "250m/200Mi"}, name)


def tried(space: Space, owner: Json, box: Box = SMALL) -> Json:
    """Return a pod of a controller as it would be stored."""
    return space.create(owned_pod(owner, box), dry_run=True)


def until_sized(space: Space, owner: Json) -> Json:
    """Return a pod of a controller as soon as the webhook knows what is there."""

    def look() -> Json:
        found = tried(space, owner)
        return found if annotation(found, "vpaUpdates") else {}

    return eventually(look, "a pod is sized")


@pytest.mark.parametrize(
    "kind", ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"]
)
def test_controllers_of_the_cluster(space: Space, kind: str) -> None:
    """The pods that a controller makes are sized, each of them."""
    sized(space, kind)
    until_known(space)
    space.create(workload(kind, [SMALL], replicas=2))
    count = 1 if kind == "StatefulSet" else 2  # which makes one after another

    assert [boxes_of(pod) for pod in space.pods(count)] == [(MEDIUM,)] * count


def until_known(space: Space) -> None:
    """Return when the webhook knows the VPAs written so far: it hears of them in their order."""
    item = workload("DaemonSet", [SMALL], name="probe")
    item["spec"]["template"]["spec"]["nodeSelector"] = {"tests.plumbline.dev/for": "nobody"}
    owner = space.create(item)
    sized(space, "DaemonSet", "probe", "probe")
    until_sized(space, owner)


def test_cron_job(space: Space) -> None:
    """Pods of a CronJob's Jobs are the CronJob's."""
    sized(space, "CronJob")
    cron_job = space.create(workload("CronJob", [SMALL]))
    job = workload("Job", [SMALL])
    job["metadata"]["ownerReferences"] = [reference(cron_job)]
    job["spec"]["suspend"] = True
    made = space.create(job)
    until_sized(space, made)
    space.admin.merge(JOBS, space.name, APP, {"spec": {"suspend": False}})

    assert boxes_of(space.pods(1)[0]) == (MEDIUM,)


def test_daemon_set(space: Space) -> None:
    """Pods of a DaemonSet are sized; one is tried, for there may be no node."""
    sized(space, "DaemonSet")
    owner = space.create(workload("DaemonSet", [SMALL]))

    assert boxes_of(until_sized(space, owner)) == (MEDIUM,)


def test_owner_that_no_watch_has_told_of_yet(space: Space) -> None:
    """A pod that follows its Deployment and ReplicaSet at once is sized, every time."""
    names = [f"late-{number}" for number in range(10)]
    for name in names:
        sized(space, name=name, target=name)
    until_known(space)
    pods = []
    for name in names:
        deployment = space.create(workload("Deployment", [SMALL], replicas=0, name=name))
        item = workload("ReplicaSet", [SMALL], replicas=0, name=name)
        item["metadata"]["ownerReferences"] = [reference(deployment)]
        pods.append(tried(space, space.create(item)))

    assert [boxes_of(pod) for pod in pods] == [(MEDIUM,)] * len(names)


@pytest.fixture(scope="module")
def gadgets(admin: Api) -> None:
    """A kind of controller that is not the cluster's own."""
    install(admin)


@pytest.mark.usefixtures("gadgets")
@pytest.mark.parametrize("is_above", [False, True], ids=["owns pods", "owns a Deployment"])
def test_custom_controller(space: Space, is_above: bool) -> None:
    """A kind with a scale subresource is found, also above a Deployment."""
    sized(space, "Gadget")
    until_known(space)
    made = space.create(gadget())
    selector = {"status": {"replicas": 1, "selector": f"app={APP}"}}
    space.admin.merge(GADGETS, space.name, APP, selector, "status")
    owner = made
    if is_above:
        item = workload("Deployment", [SMALL])
        item["metadata"]["ownerReferences"] = [reference(made)]
        space.create(item)
        assert boxes_of(space.pods(1)[0]) == (MEDIUM,)
        (owner,) = space.admin.list(REPLICA_SETS, space.name)

    assert boxes_of(tried(space, owner)) == (MEDIUM,)


@pytest.mark.usefixtures("gadgets")
def test_kind_without_scale(space: Space) -> None:
    """Pods of a kind that cannot be scaled are left alone, and that is no failure."""
    sized(space)
    owner = space.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": APP}})

    assert boxes_of(tried(space, owner)) == (canonical(SMALL),)


def is_tried_as(space: Space, owner: Json, box: Box, wanted: Box) -> bool:
    """Say whether a pod of a controller would get these sizes."""
    try:
        return boxes_of(tried(space, owner, box)) == (wanted,)
    except Refusal:  # a LimitRange that the webhook has not heard of yet
        return False


def test_limit_range_changes(space: Space) -> None:
    """New pods follow the LimitRange as it is now."""
    owner = space.sized_owner()
    both = Box(requests="100m/100Mi", limits="100m/100Mi")
    for most, expected in (("150m", "150m/200Mi"), ("200m", "200m/200Mi"), ("", "250m/200Mi")):
        space.admin.delete(LIMIT_RANGES, space.name, "limits")
        if most:
            space.limit_range(type="Container", max={"cpu": most})
        wanted = canonical(Box(requests=expected, limits=expected))
        eventually(partial(is_tried_as, space, owner, both, wanted), f"{wanted} under {most}")


def test_pods_shared_by_selectors(space: Space) -> None:
    """Each VPA takes the pods with its labels; pods that none takes are left alone."""
    for role, sizes in (("leader", "300m/300Mi"), ("follower", "200m/200Mi")):
        space.vpa(role, kind="StatefulSet", **selecting(role=role))
        space.recommend({"hamster": sizes}, role)
    until_known(space)
    owner = space.create(workload("StatefulSet", [SMALL], replicas=0))
    found = []
    for role in ("leader", "follower", "observer"):
        pod = owned_pod(owner)
        pod["metadata"]["labels"]["role"] = role
        found.append(boxes_of(space.create(pod, dry_run=True)))

    assert found == [
        (canonical(Box(requests=sizes)),) for sizes in ("300m/300Mi", "200m/200Mi", "100m/100Mi")
    ]


def test_boost_notes_what_was_before(space: Space) -> None:
    """A boosted pod carries its former sizes, for the end of the boost."""
    space.vpa(**mode("Initial"), **boost(type="Factor", factor=3))
    space.recommend({"hamster": "200m/200Mi"})
    until_known(space)
    space.deployment(SMALL, replicas=1)
    (pod,) = space.pods(1)

    assert boxes_of(pod) == (canonical(Box(requests="600m/200Mi")),)
    assert annotation(pod, "vpaCpuStartupBoost/hamster") == (
        '{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{}}'
    )


def test_ignored_namespace(admin: Api, webhook: Webhook) -> None:
    """Where VPAs are to be ignored, pods and VPAs are not even reviewed."""
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": IGNORED}})
    ignored = Space(admin, IGNORED)
    counted = "vpa_admission_controller_admission_pods_total"
    pod = bare_pod(SMALL, name=APP)
    pod["spec"] |= {"automountServiceAccountToken": False}

    def look() -> bool:
        """Controllers may still make pods for other tests."""
        before = webhook.settled(counted)
        ignored.create(pod, dry_run=True)
        return webhook.settled(counted) == before

    eventually(look, "a pod that is not counted")
    assert "updatePolicy" not in ignored.vpa()["spec"]


def test_pods_of_nobody(space: Space, webhook: Webhook) -> None:
    """Pods without a VPA are stored as they came, and counted by reason."""
    skipped = "vpa_admission_controller_skipped_pods_total"
    before = webhook.number(skipped)
    made = space.create(bare_pod(SMALL, name=APP), dry_run=True)

    assert boxes_of(made) == (canonical(SMALL),)
    assert "annotations" not in made["metadata"]
    eventually(lambda: webhook.number(skipped) > before, "one more pod is counted")


def until_audited(plane: ControlPlane, space: Space, **wanted: str) -> None:
    """Return when the audit log tells this of our review of the last pod of a namespace."""

    def look() -> bool:
        lines = plane.audit_log.read_text("utf-8").splitlines()
        last = [json.loads(line) for line in lines if f'"{space.name}"' in line][-1:]
        told = last[0]["annotations"] if last else {}
        ours = {name: text for name, text in told.items() if name.startswith(f"{MUTATING_NAME}/")}
        return ours == {f"{MUTATING_NAME}/{name}": text for name, text in wanted.items()}

    eventually(look, f"the audit log tells {wanted}")


def test_audit_log(plane: ControlPlane, space: Space) -> None:
    """The API server's audit log says which VPA sized a pod, or why it was left alone."""
    until_sized(space, space.sized_owner())
    until_audited(plane, space, reason="Sized", vpa="vpa")
    tried(space, space.create(workload("StatefulSet", [SMALL], replicas=0, name="other")))
    until_audited(plane, space, reason="NoVPAForOwner")
