"""A container stays within its LimitRange, and what caps it is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.capping import request_at
from app.model.limits import Limits
from app.model.quantity import ZERO
from tests import make
from tests.core.shorthand import admit, advice, box, two, vpa_json

Json = dict[str, Any]

MIN, MAX = "capped to fit Min in container LimitRange", "capped to fit Max in container LimitRange"
RATIO = "capped to fit maxLimitRequestRatio in container LimitRange"
BOTH = "cpu request, memory request, cpu limit, memory limit"
ONLY: Json = {"values": "RequestsOnly"}


def limit_range(
    least: str = "",
    most: str = "",
    default: str = "",
    ratio: str = "",
    *,
    kind: str = "Container",
    name: str = "limits",
    namespace: str = "default",
) -> Json:
    """Return a LimitRange of one entry."""
    entry = make.limits_json(kind, least=two(least), most=two(most), default=two(default))
    entry["maxLimitRequestRatio"] = two(ratio)
    return make.limit_range_json(entry, name=name, namespace=namespace)


@pytest.mark.parametrize(
    ("limits", "has", "target", "policy", "expected", "notes"),
    [
        pytest.param(
            limit_range(most="300m/1Gi"),
            ("100m/100Mi", "150m/200Mi"),
            "250m/200Mi",
            {},
            "200m/200Mi 300m/400Mi",
            f"cpu {MAX}, {BOTH}",
            id="R1 the request at which the limit meets Max",
        ),
        pytest.param(
            limit_range(least="50m/250Mi"),
            ("100m/200Mi", "150m/400Mi"),
            "250m/100Mi",
            {},
            "250m/250Mi 375m/500Mi",
            f"memory {MIN}, {BOTH}",
            id="R2 Min holds for requests too",
        ),
        pytest.param(
            limit_range(least="/500M", most="1"),
            ("1/1G", "1/1G"),
            "2/200M",
            {},
            "1/500M 1/500M",
            f"cpu {MAX}, memory {MIN}, {BOTH}",
            id="R3 both",
        ),
        pytest.param(
            limit_range(least="/500M"),
            ("1/50M", "1/600M"),
            "1/200M",
            {},
            "1/500M 1/6G",
            f"memory {MIN}, {BOTH}",
            id="R4 Min",
        ),
        pytest.param(
            limit_range(least="/500M"),
            ("1/50M", "1/100M"),
            "1/200M",
            ONLY,
            "1/100M 1/100M",
            f"memory {MIN}, memory capped to container limit, cpu request, memory request",
            id="R5 the limit wins over Min",
        ),
        pytest.param(
            limit_range(most="300m"),
            ("100m", "200m"),
            "180m",
            ONLY,
            "180m 200m",
            "cpu request",
            id="R6 a limit that stays is judged as it is",
        ),
        pytest.param(
            limit_range(most="150m"),
            ("100m", "200m"),
            "180m",
            ONLY,
            "150m 200m",
            f"cpu {MAX}, cpu request",
            id="and the request still has to fit",
        ),
        pytest.param(
            limit_range(least="/0.25Gi", most="500m"),
            ("1e0/1G", "1e0/1G"),
            "2/1",
            ONLY,
            "500e-3/268435456 1e0/1G",
            f"cpu {MAX}, memory {MIN}, cpu request, memory request",
            id="what is equal is written as the request is",
        ),
        pytest.param(
            limit_range(most="300m"),
            ("100m", "200m"),
            "180m",
            {"min_allowed": two("400m")},
            "400m 800m",
            f"cpu {MAX}, cpu capped to minAllowed, "
            "memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit",
            id="R7 the policy wins",
        ),
        pytest.param(
            limit_range(least="200m"),
            ("100m", "100m"),
            "50m",
            {"max_allowed": two("150m")},
            "150m 150m",
            f"cpu {MIN}, cpu capped to maxAllowed, "
            "memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit",
            id="R8 the policy's maximum wins over Min",
        ),
        pytest.param(
            limit_range(default="2/100Mi"),
            ("2/100Mi", ""),
            "2/200Mi",
            {},
            "2/200Mi 2/200Mi",
            BOTH,
            id="R9 the default is the limit",
        ),
        pytest.param(
            limit_range(default="2"),
            ("1", ""),
            "10",
            {},
            "10 20",
            "memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit",
            id="R10 the default grows in proportion",
        ),
        pytest.param(
            limit_range(most="300m"), ("100m", ""), "1", {}, "1 -", "cpu request", id="no limit"
        ),
        pytest.param(
            limit_range(most="300m"),
            ("", "200m"),
            "1",
            {},
            "300m 300m",
            f"cpu {MAX}, "
            "memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit",
            id="no request: Max itself",
        ),
        pytest.param(
            limit_range(least="/0.25Gi"),
            ("/100M", "/100M"),
            "/1",
            {},
            "/268435456 /268435456",
            f"memory {MIN}, "
            "cpu: limit NOT set since originalLimit is nil or 0, memory request, memory limit",
            id="of equal floors the one of the ratio, in the request's format",
        ),
    ],
)
def test_limit_range(
    limits: Json, has: tuple[str, str], target: str, policy: Json, expected: str, notes: str
) -> None:
    """Bounds hold for requests and limits alike, and the policy outranks them."""
    vpa = vpa_json(advice("app", target), policies=[make.policy_json(**policy)])
    found = admit(make.pod_json(box("app", *has)), vpa, limits)
    assert found.containers == [expected]
    assert found.told == f"container 0: {notes}"


@pytest.mark.parametrize(
    ("limits", "has", "policy", "expected", "is_told"),
    [
        pytest.param(
            limit_range(ratio="4/4"), ("1/1Gi", "2/2Gi"), ONLY, "500m/512Mi 2/2Gi", True, id="holds"
        ),
        pytest.param(
            limit_range(ratio="3/3"), ("1/1G", "1/1G"), ONLY, "334m/333333334 1/1G", True, id="up"
        ),
        pytest.param(
            limit_range(ratio="99"), ("1/1Gi", "2/2Gi"), ONLY, "100m/1Mi 2/2Gi", False, id="is far"
        ),
        pytest.param(
            limit_range(ratio="4/4"), ("1/1Gi", ""), ONLY, "100m/1Mi -", False, id="no limit"
        ),
        pytest.param(
            limit_range(ratio="4", default="2"), ("1", ""), ONLY, "500m/1Mi -", True, id="the usual"
        ),
        pytest.param(
            limit_range(ratio="4/4"), ("1/1Gi", "2/2Gi"), {}, "100m/1Mi 200m/2Mi", False, id="both"
        ),
        pytest.param(
            limit_range(ratio="4/4"),
            ("1/1Gi", "2/2Gi"),
            ONLY | {"max_allowed": two("200m/1Mi")},
            "200m/1Mi 2/2Gi",
            True,
            id="the policy wins",
        ),
    ],
)
def test_ratio(
    limits: Json, has: tuple[str, str], policy: Json, expected: str, is_told: bool
) -> None:
    """A request does not fall so far below a limit that stays that the pod would be refused."""
    vpa = vpa_json(advice("app", "100m/1Mi"), policies=[make.policy_json(**policy)])
    found = admit(make.pod_json(box("app", *has)), vpa, limits)
    assert found.containers == [expected]
    assert (RATIO in found.told) is is_told


def test_several_limit_ranges() -> None:
    """R23: the lowest maximum and the highest minimum hold; of equals the last one's spelling."""
    ranges = [
        limit_range(least="1", most="1500m", ratio="4", name="a"),
        limit_range(least="500m", most="2", ratio="3", default="5", name="b"),
        limit_range(least="1e0", most="1.5", default="6", name="c"),
    ]
    view = make.snapshot(*ranges).of("default")
    assert view.limits.pod is None
    found = view.limits.container
    assert found is not None
    named = (found.least("cpu"), found.most("cpu"), found.usual("cpu"), found.most_ratio("cpu"))
    assert [str(amount) for amount in named] == ["1e0", "1500m", "6", "3"]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(limit_range(most="1", namespace="other"), id="another namespace"),
        pytest.param(limit_range(most="1", kind="PersistentVolumeClaim"), id="another type"),
        pytest.param(make.limit_range_json({"type": "Container"}), id="says nothing"),
        pytest.param(
            make.limit_range_json({"type": "Container", "defaultRequest": {"cpu": "1"}}),
            id="requests are not its business",
        ),
    ],
)
def test_other_limit_ranges(limits: Json) -> None:
    """R24: only what speaks of containers or pods of the namespace counts."""
    found = admit(make.pod_json(box("app", "1", "2")), vpa_json(advice("app", "3")), limits)
    assert found.containers == ["3 6"]


@given(
    request_=st.integers(1, 10**4),
    factor=st.integers(1, 10),
    bound=st.integers(1, 10**6),
)
def test_request_at(request_: int, factor: int, bound: int) -> None:
    """The request at which a limit meets a bound is the highest one whose limit does not pass."""
    limit = request_ * factor
    current = make.container(cpu=f"{request_}m", cpu_limit=f"{limit}m").resources
    found = request_at("cpu", current, Limits(), make.quantity(f"{bound}m")).milli
    assert limit * found // request_ <= bound
    assert limit * (found + 1) // request_ > bound


def test_no_limit_no_bound() -> None:
    """Without a limit there is no request at which it would meet anything."""
    assert (
        request_at("cpu", make.container(cpu="1").resources, Limits(), make.quantity("1")) == ZERO
    )
