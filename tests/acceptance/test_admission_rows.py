"""What pods get at their creation: the table by which autoscalers of this kind are compared.

Each row starts a Deployment under a VPA with a recommendation and looks at the pods that the
controllers make. Rows of two steps have a test of their own below the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from app.model.fields import Json
from app.ports import PODS
from tests.acceptance.space import (
    SMALL,
    Box,
    Space,
    annotation,
    boost,
    boxes_of,
    canonical,
    extremes,
    mode,
    policy,
)
from tests.acceptance.webhook import Webhook
from tests.cluster.api import Refusal
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


def boxes(*sizes: str) -> tuple[Box, ...]:
    """Return containers: of each the requests, and its limits if it has any."""
    return tuple(Box(name, *text.split()) for name, text in zip(NAMES, sizes, strict=False))


NAMES = ("hamster", "hamster2", "hamster3")
ONE = boxes("100m/100Mi")
SIZED = boxes("250m/200Mi")
RATIOS = "100m/100Mi 150m/200Mi"
EQUAL_THREE = boxes(*["1m/100Mi 1m/100Mi"] * 3)
RISING = {"hamster": "4m/100Mi", "hamster2": "21m/100Mi", "hamster3": "90m/100Mi"}
AS_BEFORE = {"hamster": "100m/100Mi"}
TWICE = boost(type="Factor", factor=2, durationSeconds=15)
UP_TO_300M = extremes("Container", max="300m/1Gi")

ROWS = {
    "AC-01": Row(ONE, SIZED, MEDIUM, mode("InPlaceOrRecreate")),
    "AC-02": Row(ONE, SIZED, MEDIUM),
    "AC-03": Row(ONE, SIZED, {"removed": "500m/500Mi", **MEDIUM}),
    "AC-04": Row(ONE, ONE, {"removed": "500m/500Mi"}),
    "AC-05": Row(boxes("100m/100Mi", "100m/100Mi"), boxes("250m/200Mi", "100m/100Mi"), MEDIUM),
    "AC-06": Row(
        ONE,
        boxes("100m/100Mi 300m/1Gi"),
        {"hamster": "500m/500Mi", "hamster2": "500m/500Mi"},
        limits=UP_TO_300M,
    ),
    "AC-07": Row(ONE, boxes("100m/100Mi 300m/1Gi"), MEDIUM, limits=UP_TO_300M),
    "AC-08": Row(
        boxes("100m/100Mi 100m/100Mi", "400m/600Mi 400m/600Mi"),
        boxes("200m/512Mi 200m/512Mi", "200m/512Mi 200m/512Mi"),
        {"hamster": "400m/600Mi"},
        limits=extremes("Pod", max="400m/1Gi"),
    ),
    "AC-10": Row(boxes("100m/100Mi 100m/100Mi"), boxes("250m/200Mi 250m/200Mi"), MEDIUM),
    "AC-11": Row(boxes(RATIOS), boxes("250m/200Mi 375m/400Mi"), MEDIUM),
    "AC-12": Row(
        boxes("100m/100Mi 500m/500Mi"),
        boxes("250m/200Mi 500m/500Mi"),
        MEDIUM,
        policy(controlledValues="RequestsOnly"),
    ),
    "AC-13": Row(boxes(RATIOS), boxes("200m/200Mi 300m/400Mi"), MEDIUM, limits=UP_TO_300M),
    "AC-14": Row(
        boxes("100m/200Mi 150m/400Mi"),
        boxes("250m/250Mi 375m/500Mi"),
        {"hamster": "250m/100Mi"},
        limits=extremes("Container", min="50m/250Mi"),
    ),
    "AC-15": Row(
        boxes(RATIOS, RATIOS),
        boxes("200m/200Mi 300m/400Mi", "200m/200Mi 300m/400Mi"),
        {**MEDIUM, "hamster2": "250m/200Mi"},
        limits=extremes("Pod", max="600m/1Gi"),
    ),
    "AC-16": Row(
        EQUAL_THREE,
        boxes("6m/100Mi 6m/100Mi", "28m/100Mi 28m/100Mi", "118m/100Mi 118m/100Mi"),
        RISING,
        limits=extremes("Pod", min="150m/"),
    ),
    "AC-17": Row(
        EQUAL_THREE,
        boxes("2m/100Mi 2m/100Mi", "14m/100Mi 14m/100Mi", "62m/100Mi 62m/100Mi"),
        RISING,
        limits=extremes("Pod", max="80m/"),
    ),
    "AC-18": Row(
        boxes("100m/200Mi 150m/400Mi", "100m/200Mi 150m/400Mi"),
        boxes("120m/250Mi 180m/500Mi", "120m/250Mi 180m/500Mi"),
        {"hamster": "120m/100Mi", "hamster2": "120m/100Mi"},
        limits=extremes("Pod", min="100m/500Mi"),
    ),
    "AC-19": Row(
        ONE, boxes("233m/150Mi"), MEDIUM, policy(maxAllowed={"cpu": "233m", "memory": "150Mi"})
    ),
    "AC-20": Row(
        ONE,
        boxes("90m/80Mi"),
        {"hamster": "50m/60Mi"},
        policy(minAllowed={"cpu": "90m", "memory": "80Mi"}),
    ),
    "AC-21": Row(ONE, ONE),
    "AC-22": Row(boxes(""), boxes("")),
    "AC-26": Row(ONE, boxes("200m/100Mi"), AS_BEFORE, TWICE),
    "AC-27": Row(
        ONE,
        boxes("600m/100Mi"),
        AS_BEFORE,
        boost(type="Quantity", quantity="500m", durationSeconds=15),
    ),
    "AC-28": Row(ONE, boxes("200m/100Mi"), spec=mode("Off") | TWICE),
    # The boost outranks the policy's mode: it is about starting, not about what to scale.
    "AC-29": Row(ONE, boxes("200m/100Mi"), AS_BEFORE, TWICE | policy(mode="Off")),
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
