"""Which pods a VPA is for, and a pod as it would be created again."""

from __future__ import annotations

from app.diagnosis.core.members import created_again, creation_request, members
from app.model.kinds import ObjectKey
from app.model.pods import read_pod
from app.model.snapshot import Snapshot
from app.model.workloads import Absent, read_workload
from tests import make


def names(snapshot: Snapshot) -> dict[tuple[str, str], list[str]]:
    """Return the names of the pods by VPA."""
    found, _ = members(snapshot, {})
    return {key: [pod.name for pod in pods] for key, pods in found.items()}


def test_pods_of_vpas_in_every_mode() -> None:
    """Also a VPA that only recommends has pods; those that ended or go are not counted."""
    ended = make.pod_json(name="web-1", status={"phase": "Succeeded"})
    going = make.pod_json(name="web-2", metadata={"deletionTimestamp": make.time(make.NOW)})
    other = make.pod_json(name="db-0", owner="StatefulSet/db", labels={"app": "db"})
    pods = [make.pod_json(name="web-0"), ended, going, other]
    items = [make.vpa_json(mode="Off"), make.workload_json(), make.workload_json("StatefulSet/db")]
    assert names(make.snapshot(*items, *pods)) == {("default", "web"): ["web-0"]}


def test_selectors_part_the_pods() -> None:
    """Two VPAs on one workload have the pods that their selectors choose."""
    pods = [
        make.pod_json(name=f"web-{index}", labels={"app": "web", "role": role})
        for index, role in enumerate(["leader", "follower", "follower"])
    ]
    vpas = [
        make.vpa_json(role, selector={"matchLabels": {"role": role}})
        for role in ("leader", "follower")
    ]
    found = names(make.snapshot(*vpas, make.workload_json(), *pods))
    assert found == {("default", "leader"): ["web-0"], ("default", "follower"): ["web-1", "web-2"]}


def test_unknown_owners_are_asked_for_once() -> None:
    """Owners that are not known are named, and what was found of them is used."""
    pods = [make.pod_json(name=f"web-{index}", owner="Gadget/web") for index in range(2)]
    snapshot = make.snapshot(make.vpa_json(), *pods)
    _, (lookup,) = members(snapshot, {})
    assert lookup.key == ObjectKey("example.com", "Gadget", "web")
    assert members(snapshot, {"default": {lookup.key: Absent()}}) == ({}, ())


def test_namespaces_without_vpas_are_left_alone() -> None:
    """The owners of pods that no VPA can be for are not looked up."""
    snapshot = make.snapshot(make.pod_json(owner="Gadget/web"))
    assert members(snapshot, {}) == ({}, ())


TEMPLATE = [make.container_json("app", cpu="100m", memory_limit="1Gi")]


def test_a_template_outranks_the_running_pod() -> None:
    """Resources come from the template, where it knows the container; marks of a VPA are gone."""
    marks = {"vpaUpdates": "told", "vpaCpuStartupBoost/app": "{}", "mine": "stays"}
    marks |= {"vpaCpuUnboostPending/app": "2026-01-05T10:00:00Z"}
    running = make.pod_json(
        make.container_json("app", cpu="2"),
        make.container_json("added", cpu="3"),
        annotations=marks,
    )
    template = read_workload(make.workload_json(containers=TEMPLATE)).template
    pod = read_pod(created_again(running, template))
    app, added = (container.resources for container in pod.containers)
    assert app.requests == make.quantities(cpu="100m")
    assert app.limits == make.quantities(memory="1Gi")
    assert added.requests == make.quantities(cpu="3")
    assert pod.annotations == {"mine": "stays"}
    assert pod.labels == make.LABELS


def test_a_template_outranks_running_sidecars() -> None:
    """Sidecars are as in the template again; other init containers stay as they are."""
    proxy = make.container_json("proxy", cpu="20m") | {"restartPolicy": "Always"}
    written = make.workload_json(containers=[make.container_json("app", cpu="100m")])
    written["spec"]["template"]["spec"]["initContainers"] = [proxy]
    running = make.pod_json(
        make.container_json("app", cpu="2"),
        init=[
            make.container_json("setup", cpu="7"),
            make.container_json("proxy", cpu="3") | {"restartPolicy": "Always"},
        ],
    )
    found = created_again(running, read_workload(written).template)
    setup, again = found["spec"]["initContainers"]
    assert setup["resources"] == {"requests": {"cpu": "7"}}
    assert again == proxy


def test_without_a_template_it_stays_as_it_is() -> None:
    """What no template says is taken from the pod."""
    pod = read_pod(created_again(make.pod_json(cpu="2"), ()))
    assert pod.containers[0].resources.requests == make.quantities(cpu="2")


def test_its_creation_is_only_asked_about() -> None:
    """The request is that of an API server for a dry run."""
    pod = make.pod_json(name="web-0")
    request = creation_request(pod)
    assert (request.operation, request.resource.word, request.dry_run) == ("CREATE", "pods", True)
    assert (request.namespace, request.name) == ("default", "web-0")
    assert request.new is pod
