"""A pod as it would be created again."""

from __future__ import annotations

from app.diagnosis.core.members import created_again, creation_request
from app.model.pods import read_pod
from app.model.workloads import read_workload
from tests import make

TEMPLATE = [make.container_json("app", cpu="100m", memory_limit="1Gi")]


def test_a_template_outranks_the_running_pod() -> None:
    """Resources come from the template, where it knows the container; marks of a VPA are gone."""
    marks = {"vpaUpdates": "told", "vpaCpuStartupBoost/app": "{}", "mine": "stays"}
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
