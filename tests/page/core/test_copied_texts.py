"""What can be copied is exact, fits the workload, and says nothing that the webhook would not."""

from __future__ import annotations

from collections.abc import Sequence

from app.model.fields import Json
from app.model.limits import NamespaceLimits
from app.model.vpa import Vpa
from app.page.core.copied_texts import CopiedText, PatchedTemplate, copied_texts
from tests import make
from tests.cases import cases

WRITTEN = make.vpa_json(cpu="200m", memory="300Mi")
RESOURCES = {"requests": {"cpu": "200m", "memory": "300Mi"}}
CONTAINERS = {"template": {"spec": {"containers": [{"name": "app", "resources": RESOURCES}]}}}
UNKNOWN = PatchedTemplate(None, NamespaceLimits())


def template(*containers: Json, rivals: Sequence[str] = (), **spec: object) -> PatchedTemplate:
    """Return what a workload's pods are made from."""
    pod = make.pod(*(containers or [make.container_json("app")]), spec=spec)
    return PatchedTemplate(pod, NamespaceLimits(), rivals)


def texts(vpa: Vpa, patched: PatchedTemplate) -> dict[str, CopiedText]:
    """Return what can be copied, by name."""
    return {one.name: one for one in copied_texts(vpa, WRITTEN, None, patched)}


def patched_containers(found: dict[str, CopiedText]) -> Json:
    """Return the containers of the patch, by list."""
    content = found["merge"].content
    assert content is not None
    spec: Json = content["spec"]["template"]["spec"]
    return spec


def test_a_vpa_is_copied_without_its_status() -> None:
    """What its author wrote can be applied elsewhere."""
    first, *_ = copied_texts(make.vpa(cpu="200m"), WRITTEN, None, UNKNOWN)
    assert first.content is not None
    assert first.content["spec"] == WRITTEN["spec"]
    assert "status" not in first.content
    assert copied_texts(make.vpa(), None, None, UNKNOWN) == []  # nobody knows what was written


@cases(
    "target spec",
    {
        "a StatefulSet": ("StatefulSet/web", CONTAINERS),
        "a CronJob": ("CronJob/web", {"jobTemplate": {"spec": CONTAINERS}}),
    },
)
def test_targets_are_patches_of_the_workload(target: str, spec: Json) -> None:
    """Kustomize takes the whole object, kubectl its spec."""
    vpa = make.vpa(target=target, cpu="200m", memory="300Mi")
    found = texts(vpa, template())
    kustomize = found["kustomize"].content
    assert kustomize is not None
    assert kustomize["spec"] == spec
    assert kustomize["metadata"] == {"name": "web", "namespace": "default"}
    assert found["merge"].content == {"spec": spec}


@cases(
    "target cpu",
    {
        "no recommendation": ("StatefulSet/web", None),
        "a custom kind": ("example.com/v1/Shop/web", "1"),
        "no target": (None, "1"),
    },
)
def test_without_a_known_kind_there_is_no_patch(target: str | None, cpu: str | None) -> None:
    """Only the VPA can be copied then."""
    assert list(texts(make.vpa(target=target, cpu=cpu), template())) == ["vpa"]


def test_a_container_without_targets_is_left_out() -> None:
    """A patch holds what is recommended, and nothing else."""
    several = [make.recommendation_json("app", cpu="1"), make.recommendation_json("other")]
    both = template(make.container_json("app"), make.container_json("other"))
    (container,) = patched_containers(texts(make.vpa(recommendations=several), both))["containers"]
    assert container["name"] == "app"


def test_a_sidecar_is_patched_where_it_stands() -> None:
    """A native sidecar is among the init containers."""
    vpa = make.vpa(recommendations=[make.recommendation_json("proxy", cpu="1")])
    sidecar = make.container_json("proxy") | {"restartPolicy": "Always"}
    found = patched_containers(texts(vpa, template(initContainers=[sidecar])))
    assert list(found) == ["initContainers"]


CPU_OF_HPA = make.hpa_json(make.metric_json("cpu", 80))


def held(cpu: str, memory: str | None = None) -> Vpa:
    """Return a VPA of a workload that an HPA scales by its cpu."""
    objects = (make.workload_json(), make.vpa_json(cpu=cpu, memory=memory), CPU_OF_HPA)
    return make.snapshot(*objects).of("default").vpas["web"]


def test_what_an_hpa_holds_is_left_out() -> None:
    """A patch that wrote it would change the request by which replicas are scaled."""
    found = texts(held(cpu="200m", memory="300Mi"), template())
    told = ["left out of app: cpu held: HorizontalPodAutoscaler/web scales by it"]

    (container,) = patched_containers(found)["containers"]
    assert container["resources"] == {"requests": {"memory": "300Mi"}}
    assert [list(one.comments) for one in found.values()] == [[], told, told]


@cases(
    "vpa patched why",
    {
        "all held": (
            held(cpu="200m"),
            template(),
            "left out of app: cpu held: HorizontalPodAutoscaler/web scales by it",
        ),
        "a selector": (
            make.vpa(cpu="1", selector={"matchLabels": {"role": "leader"}}),
            template(rivals=["followers"]),
            "some pods of it, others are of VPA followers, but all share one template",
        ),
        "rivals": (make.vpa(cpu="1"), template(rivals=["other"]), "VPA other"),
        "no template": (make.vpa(cpu="1"), UNKNOWN, "its template is not known"),
    },
)
def test_there_is_no_patch_that_would_be_wrong(
    vpa: Vpa, patched: PatchedTemplate, why: str
) -> None:
    """It says why instead, so that nobody writes one by hand."""
    found = texts(vpa, patched)
    assert list(found) == ["vpa", "patch"]
    assert found["patch"].content is None
    assert why in found["patch"].about


@cases(
    "policy resources",
    {
        "the limit follows": (
            {},
            {"requests": {"cpu": "200m"}, "limits": {"cpu": "400m"}},
        ),
        "the limit caps": (
            {"controlledValues": "RequestsOnly"},
            {"requests": {"cpu": "100m"}},
        ),
        "the policy caps": (
            {"maxAllowed": {"cpu": "150m"}},
            {"requests": {"cpu": "150m"}, "limits": {"cpu": "300m"}},
        ),
    },
)
def test_numbers_are_those_of_a_new_pod(policy: Json, resources: Json) -> None:
    """Caps count and limits go along, so that an API server takes it; in mode Off as well."""
    vpa = make.vpa(cpu="200m", mode="Off", policies=[{"containerName": "app"} | policy])
    limited = template(make.container_json("app", cpu="50m", cpu_limit="100m"))
    (container,) = patched_containers(texts(vpa, limited))["containers"]
    assert container["resources"] == resources


def test_a_workload_without_a_vpa_is_offered_one() -> None:
    """It is in mode Off, so that applying it changes nothing."""
    (offered,) = copied_texts(None, None, WRITTEN, UNKNOWN)
    assert offered.content is WRITTEN
    assert copied_texts(None, None, None, UNKNOWN) == ()
