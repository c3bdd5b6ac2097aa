"""Numbers become recommendations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from app.model.quantity import Quantity
from app.recommender.core.rules import CapRules, FormatRules, PublishRules, RecommenderRules
from tests import make
from tests.recommender.core.scene import GI, MI, Scene

EVERY = PublishRules(bound_tolerance=0.0, refresh=timedelta(0))


def published(
    *policies: dict[str, Any],
    rules: RecommenderRules | None = None,
    annotations: dict[str, str] | None = None,
) -> dict[str, str]:
    """Return what is published of a container that uses a core and 2Gi."""
    scene = Scene(rules or RecommenderRules(publish=EVERY))
    scene.vpa(policies=list(policies), annotations=annotations)
    scene.pod("web-0", "zeta", "app")
    scene.use(1000, 2 * GI)
    scene.use(1, 1, container="zeta")
    scene.tick()
    assert list(scene.shown()) == ["app", "zeta"]
    return scene.shown()["app"]


def test_plain() -> None:
    """Amounts appear as they were estimated, containers sorted by name."""
    found = published()

    assert found["target"] == found["uncapped"] == "1168m 2539377048"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(
            {"min_allowed": {"cpu": "2", "memory": "5G"}}, "2 5G", id="raised to what was written"
        ),
        pytest.param({"max_allowed": {"cpu": "0.5", "memory": "1.5Gi"}}, "500m 1536Mi", id="cut"),
        pytest.param({"resources": ["cpu"]}, "1168m -", id="one resource"),
    ],
)
def test_policies(policy: dict[str, Any], expected: str) -> None:
    """Policies cap and choose; the uncapped target stays."""
    found = published(make.policy_json("app", **policy))

    assert found["target"] == expected
    assert found["uncapped"].startswith("1168m")


def test_rounding_and_flags() -> None:
    """Steps, whole cores and the caps of the flags apply in their order."""
    rules = RecommenderRules(
        publish=EVERY,
        format=FormatRules(round_cpu_millicores=50, round_memory_bytes=128 * MI),
        caps=CapRules(integer_cpu=True, max_allowed_memory=Quantity.parse("1Gi")),
    )
    annotations = {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}

    assert published(rules=rules)["target"] == "1200m 1Gi"
    assert published(rules=rules, annotations=annotations)["target"] == "2 1Gi"


def test_humanized() -> None:
    """Readable memory is what its text says."""
    rules = RecommenderRules(publish=EVERY, format=FormatRules(humanize_memory=True))

    assert published(rules=rules)["target"] == "1168m 2534030704640m"
