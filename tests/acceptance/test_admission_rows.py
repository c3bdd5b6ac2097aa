"""What pods get at their creation: the table by which autoscalers of this kind are compared.

Each row starts a Deployment under a VPA with a recommendation and looks at the pods that the
controllers make. Rows of two steps have a test of their own below the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from app.ports import PODS
from tests.acceptance.space import SMALL, Box, Space, annotation, boxes_of, canonical
from tests.acceptance.specs import boost, extremes, mode, policy
from tests.acceptance.webhook import Webhook
from tests.cluster.api import Json, Refusal
from tests.cluster.programs import eventually

FLAGS = ("--feature-gates=CPUStartupBoost=true,PerVPAConfig=true",)

MEDIUM = {"hamster": "250m/200Mi"}


@dataclass(frozen=True, slots=True)
class Row:
    """What is there before the pods, and what they get."""

    boxes: tuple[Box, ...]
    expected: tuple[Box, ...]
    recommended: Mapping[str, str] = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    limits: Json = field(default_factory=dict)  # a LimitRange item


THREE = ("hamster", "hamster2", "hamster3")
EQUAL_THREE = tuple(Box(name, "1m/100Mi", "1m/100Mi") for name in THREE)
RISING = {"hamster": "4m/100Mi", "hamster2": "21m/100Mi", "hamster3": "90m/100Mi"}
RATIOS = Box(requests="100m/100Mi", limits="150m/200Mi")

ROWS = {
    "AC-01": Row((SMALL,), (Box(requests="250m/200Mi"),), MEDIUM, mode("InPlaceOrRecreate")),
    "AC-02": Row((SMALL,), (Box(requests="250m/200Mi"),), MEDIUM),
    "AC-03": Row((SMALL,), (Box(requests="250m/200Mi"),), {"removed": "500m/500Mi", **MEDIUM}),
    "AC-04": Row((SMALL,), (SMALL,), {"removed": "500m/500Mi"}),
    "AC-05": Row(
        (SMALL, Box("hamster2", "100m/100Mi")),
        (Box(requests="250m/200Mi"), Box("hamster2", "100m/100Mi")),
        MEDIUM,
    ),
    "AC-06": Row(
        (SMALL,),
        (Box(requests="100m/100Mi", limits="300m/1Gi"),),
        {"hamster": "500m/500Mi", "hamster2": "500m/500Mi"},
        limits=extremes("Container", max="300m/1Gi"),
    ),
    "AC-07": Row(
        (SMALL,),
        (Box(requests="100m/100Mi", limits="300m/1Gi"),),
        MEDIUM,
        limits=extremes("Container", max="300m/1Gi"),
    ),
    "AC-08": Row(
        (Box("hamster", "100m/100Mi", "100m/100Mi"), Box("hamster2", "400m/600Mi", "400m/600Mi")),
        (Box("hamster", "200m/512Mi", "200m/512Mi"), Box("hamster2", "200m/512Mi", "200m/512Mi")),
        {"hamster": "400m/600Mi"},
        limits=extremes("Pod", max="400m/1Gi"),
    ),
    "AC-10": Row(
        (Box(requests="100m/100Mi", limits="100m/100Mi"),),
        (Box(requests="250m/200Mi", limits="250m/200Mi"),),
        MEDIUM,
    ),
    "AC-11": Row((RATIOS,), (Box(requests="250m/200Mi", limits="375m/400Mi"),), MEDIUM),
    "AC-12": Row(
        (Box(requests="100m/100Mi", limits="500m/500Mi"),),
        (Box(requests="250m/200Mi", limits="500m/500Mi"),),
        MEDIUM,
        policy(controlledValues="RequestsOnly"),
    ),
    "AC-13": Row(
        (RATIOS,),
        (Box(requests="200m/200Mi", limits="300m/400Mi"),),
        MEDIUM,
        limits=extremes("Container", max="300m/1Gi"),
    ),
    "AC-14": Row(
        (Box(requests="100m/200Mi", limits="150m/400Mi"),),
        (Box(requests="250m/250Mi", limits="375m/500Mi"),),
        {"hamster": "250m/100Mi"},
        limits=extremes("Container", min="50m/250Mi"),
    ),
    "AC-15": Row(
        (RATIOS, Box("hamster2", "100m/100Mi", "150m/200Mi")),
        (
            Box(requests="200m/200Mi", limits="300m/400Mi"),
            Box("hamster2", "200m/200Mi", "300m/400Mi"),
        ),
        {**MEDIUM, "hamster2": "250m/200Mi"},
        limits=extremes("Pod", max="600m/1Gi"),
    ),
    "AC-16": Row(
        EQUAL_THREE,
        (
            Box("hamster", "6m/100Mi", "6m/100Mi"),
            Box("hamster2", "28m/100Mi", "28m/100Mi"),
            Box("hamster3", "118m/100Mi", "118m/100Mi"),
        ),
        RISING,
        limits=extremes("Pod", min="150m/"),
    ),
    "AC-17": Row(
        EQUAL_THREE,
        (
            Box("hamster", "2m/100Mi", "2m/100Mi"),
            Box("hamster2", "14m/100Mi", "14m/100Mi"),
            Box("hamster3", "62m/100Mi", "62m/100Mi"),
        ),
        RISING,
        limits=extremes("Pod", max="80m/"),
    ),
    "AC-18": Row(
        (
            Box("hamster", "100m/200Mi", "150m/400Mi"),
            Box("hamster2", "100m/200Mi", "150m/400Mi"),
        ),
        (
            Box("hamster", "120m/250Mi", "180m/500Mi"),
            Box("hamster2", "120m/250Mi", "180m/500Mi"),
        ),
        {"hamster": "120m/100Mi", "hamster2": "120m/100Mi"},
        limits=extremes("Pod", min="100m/500Mi"),
    ),
    "AC-19": Row(
        (SMALL,),
        (Box(requests="233m/150Mi"),),
        MEDIUM,
        policy(maxAllowed={"cpu": "233m", "memory": "150Mi"}),
    ),
    "AC-20": Row(
        (SMALL,),
        (Box(requests="90m/80Mi"),),
        {"hamster": "50m/60Mi"},
        policy(minAllowed={"cpu": "90m", "memory": "80Mi"}),
    ),
    "AC-21": Row((SMALL,), (SMALL,)),
    "AC-22": Row((Box(),), (Box(),)),
    "AC-26": Row(
        (SMALL,),
        (Box(requests="200m/100Mi"),),
        {"hamster": "100m/100Mi"},
        boost(type="Factor", factor=2, durationSeconds=15),
    ),
    "AC-27": Row(
        (SMALL,),
        (Box(requests="600m/100Mi"),),
        {"hamster": "100m/100Mi"},
        boost(type="Quantity", quantity="500m", durationSeconds=15),
    ),
    "AC-28": Row(
        (SMALL,),
        (Box(requests="200m/100Mi"),),
        spec=mode("Off") | boost(type="Factor", factor=2, durationSeconds=15),
    ),
    # The boost outranks the policy's mode: it is about starting, not about what to scale.
    "AC-29": Row(
        (SMALL,),
        (Box(requests="200m/100Mi"),),
        {"hamster": "100m/100Mi"},
        boost(type="Factor", factor=2, durationSeconds=15) | policy(mode="Off"),
    ),
}
REPLICAS = 3


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize("name", ROWS)
def test_row(space: Space, name: str) -> None:
    """Every pod that a controller makes has the sizes of the row."""
    row = ROWS[name]
    space.vpa(**row.spec)
    if row.recommended:
        space.recommend(row.recommended)
    if row.limits:
        space.limit_range(**row.limits)
    space.deployment(*row.boxes, replicas=REPLICAS)
    expected = [tuple(map(canonical, row.expected))] * REPLICAS
    pods = space.pods(REPLICAS)

    def look() -> bool:
        """A pod may have come before the webhook knew all; those after it must be right."""
        nonlocal pods
        found = [boxes_of(pod) for pod in pods]
        seen = all(annotation(pod, "vpaObservedContainers") for pod in pods)
        if not seen or found != expected:
            pods = space.replaced_pods(REPLICAS)
        assert found == expected
        return seen

    eventually(look, f"pods as {name} wants them", seconds=20, every=0.5)


@pytest.mark.usefixtures("webhook")
def test_ac_09_a_pod_with_former_sizes_can_be_changed(space: Space) -> None:
    """AC-09: a new recommendation stands in no one's way who changes an old pod."""
    space.vpa()
    space.recommend(MEDIUM)
    space.deployment(SMALL, replicas=1)
    wanted = (canonical(Box(requests="250m/200Mi")),)
    eventually(
        lambda: boxes_of(space.pods(1)[0]) == wanted or not space.replaced_pods(1), "a sized pod"
    )
    space.recommend({"hamster": "100m/100Mi"})
    name = space.pods(1)[0]["metadata"]["name"]
    changed = space.admin.merge(
        PODS, space.name, name, {"metadata": {"annotations": {"a": "b"}}}
    ).body

    assert annotation(changed, "a") == "b"
    assert boxes_of(changed) == wanted


@pytest.mark.usefixtures("webhook")
def test_ac_23_wrong_objects_are_refused(space: Space) -> None:
    """AC-23: a valid VPA is taken, one with a field out of its place is refused by the webhook."""
    space.vpa(**policy(minAllowed={"cpu": "50m"}))
    wrong = policy(minAllowed={"requests": {"cpu": "50m"}})
    with pytest.raises(Refusal) as caught:
        space.vpa("wrong", **wrong)

    assert caught.value.message.startswith('admission webhook "vpa.k8s.io" denied the request: ')


@pytest.mark.usefixtures("webhook")
def test_ac_24_wrong_quantities_are_refused_word_for_word(space: Space) -> None:
    """AC-24: who compares the text of the refusal finds it unchanged."""
    with pytest.raises(Refusal) as caught:
        space.vpa("oom-test-vpa", **policy(oomBumpUpRatio="not-a-number"))

    assert caught.value.message == (
        'admission webhook "vpa.k8s.io" denied the request: '
        'VerticalPodAutoscaler.autoscaling.k8s.io "oom-test-vpa" is invalid: .: Internal error: '
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


def test_numbers_and_reasons(webhook: Webhook, space: Space) -> None:
    """What the rows did was counted."""
    space.deployment(SMALL, replicas=1)
    space.pods(1)

    assert webhook.settled("vpa_admission_controller_admission_pods_total", applied="true") > 0
    assert webhook.settled("vpa_admission_controller_skipped_pods_total") > 0
    assert webhook.settled("vpa_admission_controller_failed_open_pods_total") == 0
