"""What can be copied is exact, and fits the workload."""

from __future__ import annotations

from dataclasses import replace

from app.model.fields import Json
from app.model.scalers import read_hpa
from app.page.core.copied_texts import copied_texts
from app.page.core.creation_lines import CreationLine
from tests import make
from tests.cases import cases

WRITTEN = make.vpa_json(cpu="200m", memory="300Mi")
RESOURCES = {"requests": {"cpu": "200m", "memory": "300Mi"}}
CONTAINERS = {"template": {"spec": {"containers": [{"name": "app", "resources": RESOURCES}]}}}


def test_a_vpa_is_copied_without_its_status() -> None:
    """What its author wrote can be applied elsewhere."""
    first, *_ = copied_texts(make.vpa(cpu="200m"), WRITTEN, None)
    assert first.content["spec"] == WRITTEN["spec"]
    assert "status" not in first.content
    assert copied_texts(make.vpa(), None, None) == []  # nobody knows what was written


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
    _, kustomize, merge = copied_texts(vpa, WRITTEN, None)
    assert kustomize.content["spec"] == spec
    assert kustomize.content["metadata"] == {"name": "web", "namespace": "default"}
    assert merge.content == {"spec": spec}


@cases(
    "target cpu",
    {
        "no recommendation": ("StatefulSet/web", None),
        "a custom kind": ("example.com/v1/Shop/web", "1"),
        "no target": (None, "1"),
    },
)
def test_without_a_known_template_there_is_no_patch(target: str | None, cpu: str | None) -> None:
    """Only the VPA can be copied then."""
    assert len(copied_texts(make.vpa(target=target, cpu=cpu), WRITTEN, None)) == 1


def test_a_patch_has_what_a_new_pod_gets() -> None:
    """Capped, and with its limits, or the API server would refuse it."""
    line = CreationLine(
        "app", "cpu", had={"limit": "150m"}, gets={"request": "120m", "limit": "180m"}
    )
    boosted = CreationLine("app", "memory", gets={"request": "1Gi"}, boost="100Mi to 1Gi")
    _, _, merge = copied_texts(make.vpa(cpu="200m", memory="300Mi"), WRITTEN, None, [line, boosted])
    (container,) = merge.content["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "120m", "memory": "300Mi"},
        "limits": {"cpu": "180m"},
    }


def test_what_replicas_are_scaled_by_is_left_out() -> None:
    """A patch of it would move the point at which an HPA scales; the text says what lacks."""
    metrics = read_hpa(make.hpa_json(make.metric_json("cpu", 80))).metrics
    vpa = replace(make.vpa(cpu="200m", memory="300Mi"), scaled_by=tuple(metrics))
    _, kustomize, _ = copied_texts(vpa, WRITTEN, None)
    (container,) = kustomize.content["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"memory": "300Mi"}}
    assert "without cpu of app" in kustomize.about
    alone = replace(make.vpa(cpu="200m"), scaled_by=tuple(metrics))
    assert len(copied_texts(alone, WRITTEN, None)) == 1


def test_a_role_has_no_patch() -> None:
    """Its workload has pods of other roles, for which its numbers are not."""
    found = copied_texts(make.vpa(cpu="200m"), WRITTEN, None, is_role=True)
    assert [one.name for one in found] == ["vpa"]


def test_a_containers_without_targets_is_left_out() -> None:
    """A patch holds what is recommended, and nothing else."""
    several = [make.recommendation_json("app", cpu="1"), make.recommendation_json("other")]
    _, kustomize, _ = copied_texts(make.vpa(recommendations=several), WRITTEN, None)
    (container,) = kustomize.content["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "app"


def test_a_workload_without_a_vpa_is_offered_one() -> None:
    """It is in mode Off, so that applying it changes nothing."""
    (offered,) = copied_texts(None, None, WRITTEN)
    assert offered.content is WRITTEN
    assert copied_texts(None, None, None) == ()
