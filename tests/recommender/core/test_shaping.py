"""From estimates to recommendations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.model.quantity import Quantity
from app.recommender.core.rules import (
    CPU,
    MEMORY,
    Cap,
    CapRules,
    FormatRules,
    RecommenderRules,
)
from app.recommender.core.shaping import (
    Bound,
    Caps,
    Shaped,
    humanized,
    quantity,
    shape,
)
from app.recommender.core.tables import LOWER, TARGET, UNCAPPED, UPPER
from tests import make
from tests.cases import cases
from tests.recommender.core.scene import AT_ONCE, EAGER, GI, MI, Scene


def cap(least: str = "", most: str = "") -> Cap:
    """Return a cap from texts."""
    return Cap(Quantity.parse(least) if least else None, Quantity.parse(most) if most else None)


def shaped(
    resource: str,
    amount: int,
    *,
    rules: FormatRules | None = None,
    whole: bool = False,
    within: Cap | None = None,
) -> Shaped:
    """Shape one row whose three estimates are equal."""
    caps = Caps.of([within or Cap()])
    return shape(resource, np.full((1, 3), amount), rules or FormatRules(), np.array([whole]), caps)


def text(resource: str, shaped: Shaped, column: int = TARGET, within: Cap | None = None) -> str:
    """Return the text of one amount."""
    amount, bound = shaped.amounts[0, column], shaped.bounds[0, column]
    return str(quantity(resource, int(amount), int(bound), within or Cap()))


@pytest.mark.parametrize(
    ("resource", "amount", "expected"),
    [
        (CPU, 0, "0"),
        (CPU, 1, "1m"),
        (CPU, 1000, "1"),
        (CPU, 1500, "1500m"),
        (CPU, 100_000, "100"),
        (CPU, 10**14, "100G"),
        (MEMORY, 0, "0"),
        (MEMORY, 1000, "1k"),
        (MEMORY, 1024, "1Ki"),
        (MEMORY, 262_144_000, "250Mi"),
        (MEMORY, 380_258_472, "380258472"),
        (MEMORY, GI + GI // 2, "1536Mi"),
        (MEMORY, 10**14, "97656250000Ki"),
    ],
)
def test_text(resource: str, amount: int, expected: str) -> None:
    """Millicores are decimal, bytes are binary where they can."""
    assert text(resource, shaped(resource, amount)) == expected


@pytest.mark.parametrize(
    ("resource", "amount", "step", "expected"),
    [
        (CPU, 79, 50, "100m"),
        (CPU, 34, 50, "50m"),
        (CPU, 100, 7, "105m"),
        (CPU, 1_231_241, 13, "1231243m"),
        (CPU, 0, 5, "0"),
        (CPU, 100, -5, "100m"),
        (CPU, 100, 0, "100m"),
        (MEMORY, 200 * MI, 128 * MI, "256Mi"),
        (MEMORY, 80 * MI, 128 * MI, "128Mi"),
        (MEMORY, 839_500_000, 128 * MI, "896Mi"),
    ],
)
def test_steps(resource: str, amount: int, step: int, expected: str) -> None:
    """Amounts are rounded up to whole steps; no step, no rounding."""
    rules = FormatRules(round_cpu_millicores=step, round_memory_bytes=step)
    found = shaped(resource, amount, rules=rules)

    assert {text(resource, found, column) for column in range(4)} == {expected}


@pytest.mark.parametrize(
    ("count", "readable", "expected"),
    [
        (1537, "1.50Ki", "1536"),
        (1_050_000, "1.00Mi", "1Mi"),
        (262_144_000, "250.00Mi", "250Mi"),
        (839_500_000, "800.61Mi", "839500431360m"),
        (1023, "1023", "1023"),
        (2 * GI, "2.00Gi", "2Gi"),
    ],
)
def test_humanize(count: int, readable: str, expected: str) -> None:
    """Two decimals, read again as a quantity."""
    assert humanized(count) == readable
    rules = FormatRules(humanize_memory=True)
    assert text(MEMORY, shaped(MEMORY, count, rules=rules)) == expected


@pytest.mark.parametrize(
    ("millicores", "expected"), [(8100, "9"), (8900, "9"), (8000, "8"), (25, "1")]
)
def test_whole_cores(millicores: int, expected: str) -> None:
    """Whole cores on demand, in the uncapped target too; other rows stay."""
    caps, cores = Caps.of([Cap(), Cap()]), np.array([True, False])
    found = shape(CPU, np.full((2, 3), millicores), FormatRules(), cores, caps)

    assert {text(CPU, found, column) for column in range(4)} == {expected}
    assert found.amounts[1].tolist() == [millicores] * 4


@cases(
    "target within expected bound",
    {
        "the most wins": (100, cap("500m", "300m"), "300m", Bound.MOST),
        "raised": (100, cap("500m"), "500m", Bound.LEAST),
        "lowered": (100, cap("", "50m"), "50m", Bound.MOST),
        "just right": (100, cap("100m", "100m"), "100m", Bound.NOTHING),
        "a finer least": (100, cap("0.1000005"), "100000500n", Bound.LEAST),
        "a finer most": (100, cap("", "0.0999995"), "99999500n", Bound.MOST),
        "within a finer most": (100, cap("", "100000500n"), "100m", Bound.NOTHING),
        "an absurd least": (100, cap("1E"), "1E", Bound.LEAST),
    },
)
def test_caps(target: int, within: Cap, expected: str, bound: Bound) -> None:
    """Amounts are raised, then lowered; caps are published as they were written."""
    found = shaped(CPU, target, within=within)

    texts = [text(CPU, found, column, within) for column in (TARGET, LOWER, UPPER)]
    assert texts == [expected] * 3
    assert found.bounds[0].tolist() == [bound, bound, bound, Bound.NOTHING]
    assert found.amounts[0, UNCAPPED] == target


def test_caps_come_after_whole_cores() -> None:
    """A cap undoes whole cores, but not in the uncapped target."""
    within = cap("", "1500m")
    found = shaped(CPU, 1100, whole=True, within=within)

    assert (text(CPU, found, TARGET, within), text(CPU, found, UNCAPPED)) == ("1500m", "2")


def test_memory_keeps_the_spelling_of_its_cap() -> None:
    """A cap in another family of suffixes stays what it is."""
    within = cap("", "1G")

    assert text(MEMORY, shaped(MEMORY, 2 * GI, within=within), TARGET, within) == "1G"


def published(
    *policies: dict[str, Any],
    rules: RecommenderRules | None = None,
    annotations: dict[str, str] | None = None,
) -> dict[str, str]:
    """Return what is published of a container that uses a core and 2Gi."""
    scene = Scene(rules or EAGER)
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


@cases(
    "policy expected",
    {
        "raised to what was written": ({"min_allowed": {"cpu": "2", "memory": "5G"}}, "2 5G"),
        "cut": ({"max_allowed": {"cpu": "0.5", "memory": "1.5Gi"}}, "500m 1536Mi"),
        "one resource": ({"resources": ["cpu"]}, "1168m -"),
    },
)
def test_policies(policy: dict[str, Any], expected: str) -> None:
    """Policies cap and choose; the uncapped target stays."""
    found = published(make.policy_json("app", **policy))

    assert found["target"] == expected
    assert found["uncapped"].startswith("1168m")


def test_rounding_and_flags() -> None:
    """Steps, whole cores and the caps of the flags apply in their order."""
    rules = RecommenderRules(
        publish=AT_ONCE,
        format=FormatRules(round_cpu_millicores=50, round_memory_bytes=128 * MI),
        caps=CapRules(integer_cpu=True, max_allowed_memory=Quantity.parse("1Gi")),
    )
    annotations = {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}

    assert published(rules=rules)["target"] == "1200m 1Gi"
    assert published(rules=rules, annotations=annotations)["target"] == "2 1Gi"
