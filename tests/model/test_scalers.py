"""Of what scales horizontally, those metrics count that divide usage by the request."""

from __future__ import annotations

import pytest

from app.model.errors import BadObject
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.scalers import ScaledMetric, coupled_metrics, read_hpa, read_scaled_object
from tests import make
from tests.cases import cases

HPA = ObjectKey("autoscaling", "HorizontalPodAutoscaler", "web")
KEDA = ObjectKey("keda.sh", "ScaledObject", "web")
CPU_70 = make.metric_json("cpu", 70)
QUEUE: Json = {"type": "External", "external": {"metric": {"name": "queue"}}}


def trigger(resource: str = "cpu", value: str = "60", **more: object) -> Json:
    """Return a trigger on utilization."""
    return {"type": resource, "metricType": "Utilization", "metadata": {"value": value}} | more


@cases(
    "hpa metrics",
    {
        "a share of the pod's request": (
            make.hpa_json(CPU_70),
            [ScaledMetric(HPA, "cpu", "", 70, 0)],
        ),
        "a share of a container's request": (
            make.hpa_json(make.metric_json("memory", 80, "app")),
            [ScaledMetric(HPA, "memory", "app", 80, 0)],
        ),
        "two, beside others": (
            make.hpa_json(QUEUE, CPU_70, make.metric_json("memory", 90)),
            [ScaledMetric(HPA, "cpu", "", 70, 1), ScaledMetric(HPA, "memory", "", 90, 2)],
        ),
        "no metrics: cpu at 80 percent": (
            make.hpa_json(),
            [ScaledMetric(HPA, "cpu", "", 80, None)],
        ),
        "a share as autoscaling/v1 writes it": (
            make.with_value(make.hpa_json(), "spec.targetCPUUtilizationPercentage", 50),
            [ScaledMetric(HPA, "cpu", "", 50, None)],
        ),
        "least replicas left out: one": (make.hpa_json(CPU_70, least=None, most=1), []),
        "an amount": (make.hpa_json(make.metric_json("cpu", "350m")), []),
        "something else": (make.hpa_json(QUEUE), []),
        "a resource that no VPA sizes": (make.hpa_json(make.metric_json("ephemeral", 70)), []),
        "a fixed number of replicas": (make.hpa_json(CPU_70, least=3, most=3), []),
    },
)
def test_hpas(hpa: Json, metrics: list[ScaledMetric]) -> None:
    """Utilization of cpu or memory is coupled to requests, everything else is not."""
    assert list(read_hpa(hpa).metrics) == metrics


@cases(
    "item metrics",
    {
        "a share": (
            make.scaled_object_json(trigger(), trigger("memory", "75")),
            [ScaledMetric(KEDA, "cpu", "", 60, 0), ScaledMetric(KEDA, "memory", "", 75, 1)],
        ),
        "of one container": (
            make.scaled_object_json(trigger(metadata={"value": "5", "containerName": "app"})),
            [ScaledMetric(KEDA, "cpu", "app", 5, 0)],
        ),
        "as it was written once": (
            make.scaled_object_json(
                {"type": "cpu", "metadata": {"type": "Utilization", "value": "50"}}
            ),
            [ScaledMetric(KEDA, "cpu", "", 50, 0, is_typed_inside=True)],
        ),
        "an amount": (make.scaled_object_json(trigger(metricType="AverageValue")), []),
        "a queue": (make.scaled_object_json({"type": "kafka", "metadata": {"value": "5"}}), []),
        "no number": (make.scaled_object_json(trigger(value="sixty")), []),
        "no share": (make.scaled_object_json(trigger(value="0")), []),
        "paused": (
            make.scaled_object_json(trigger(), annotations={"autoscaling.keda.sh/paused": "true"}),
            [],
        ),
        "paused in a word that is not one of false": (
            make.scaled_object_json(trigger(), annotations={"autoscaling.keda.sh/paused": "yes"}),
            [],
        ),
        "not paused": (
            make.scaled_object_json(trigger(), annotations={"autoscaling.keda.sh/paused": "False"}),
            [ScaledMetric(KEDA, "cpu", "", 60, 0)],
        ),
        "paused at a number": (
            make.scaled_object_json(
                trigger(), annotations={"autoscaling.keda.sh/paused-replicas": "2"}
            ),
            [],
        ),
        "a fixed number of replicas": (
            make.scaled_object_json(trigger(), spec={"minReplicaCount": 2, "maxReplicaCount": 2}),
            [],
        ),
        "on or off": (make.scaled_object_json(trigger(), spec={"maxReplicaCount": 1}), []),
    },
)
def test_scaled_objects(item: Json, metrics: list[ScaledMetric]) -> None:
    """Triggers of KEDA are coupled like metrics of an HPA, unless it is paused."""
    assert list(read_scaled_object(item).metrics) == metrics


def test_the_target_of_a_scaled_object_is_a_deployment_unless_it_says_otherwise() -> None:
    """KEDA scales a Deployment where no kind is named."""
    item = make.scaled_object_json()
    item["spec"]["scaleTargetRef"] = {"name": "web"}
    assert read_scaled_object(item).target == ObjectKey("", "Deployment", "web")


def test_what_keda_made_does_not_count_beside_its_origin() -> None:
    """The HPA of a ScaledObject repeats it, also while that is paused; alone it counts."""
    made = read_hpa(
        make.hpa_json(CPU_70, name="keda-hpa-web", owner="keda.sh/v1alpha1/ScaledObject/web")
    )
    origin = read_scaled_object(make.scaled_object_json(trigger()))
    paused = read_scaled_object(
        make.scaled_object_json(trigger(), annotations={"autoscaling.keda.sh/paused": "true"})
    )
    assert [one.scaler for one in coupled_metrics([made, origin])] == [KEDA]
    assert list(coupled_metrics([made, paused])) == []
    names = [one.by for one in coupled_metrics([made])]
    assert names == ["HorizontalPodAutoscaler/keda-hpa-web"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.maxReplicas", "many"),
        ("spec.metrics", {}),
        ("spec.metrics[0].resource.target.averageUtilization", "70%"),
        ("spec.metrics[0].resource.target.averageUtilization", 0),
        ("spec.metrics[0].resource.target.averageUtilization", -1),
    ],
)
def test_what_cannot_be_read_names_the_field(path: str, value: object) -> None:
    """An object of another shape than the API's is refused with the path."""
    with pytest.raises(BadObject) as caught:
        read_hpa(make.with_value(make.hpa_json(CPU_70), path, value))
    assert caught.value.path == path


def test_a_share_of_nothing_as_autoscaling_v1_writes_it() -> None:
    """What the API server refuses is refused in a file too, and not taken for the default."""
    item = make.with_value(make.hpa_json(), "spec.targetCPUUtilizationPercentage", 0)
    with pytest.raises(BadObject, match=r"Percentage: must be greater than 0$"):
        read_hpa(item)
