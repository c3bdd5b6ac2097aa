"""Containers of one pod share what a LimitRange, or the pod itself, allows them together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.core.sizing import capped
from app.model.quantity import Quantity
from tests import make
from tests.core.shorthand import admit, advice, box, two, vpa_json

Json = dict[str, Any]

OFF = make.policy_json("off", mode="Off")


def pod_range(least: str = "", most: str = "", default: str = "") -> Json:
    """Return a LimitRange for pods."""
    entry = make.limits_json("Pod", least=two(least), most=two(most), default=two(default))
    return make.limit_range_json(entry)


def boxes(*texts: str) -> list[Json]:
    """Return containers a, b, c of `requests limits`."""
    return [box(name, *text.split()) for name, text in zip("abc", texts, strict=False)]


def advices(*targets: str) -> list[Json]:
    """Return recommendations for a, b, c; an empty one is none."""
    named = zip("abc", targets, strict=False)
    return [advice(name, target) for name, target in named if target]


@pytest.mark.parametrize(
    ("limits", "has", "targets", "expected"),
    [
        pytest.param(
            pod_range(most="1"), ["1 1", "1 1"], ["1", "1"], ["500m 500m"] * 2, id="R11 halves"
        ),
        pytest.param(
            pod_range(most="400m/1Gi"),
            ["100m/100Mi 100m/100Mi", "400m/600Mi 400m/600Mi"],
            ["400m/600Mi", ""],
            ["200m/512Mi 200m/512Mi"] * 2,
            id="R12 what is not recommended makes room",
        ),
        pytest.param(
            pod_range(least="150m"),
            ["1m 1m"] * 3,
            ["4m", "21m", "90m"],
            ["6m 6m", "28m 28m", "118m 118m"],
            id="R13 rounded up",
        ),
        pytest.param(
            pod_range(most="80m"),
            ["1m 1m"] * 3,
            ["4m", "21m", "90m"],
            ["2m 2m", "14m 14m", "62m 62m"],
            id="R14 rounded down",
        ),
        pytest.param(
            pod_range(least="150m"),
            ["1m 1m"] * 2,
            ["15m", "100m"],
            ["20m 20m", "131m 131m"],
            id="R15 Min",
        ),
        pytest.param(
            pod_range(most="90m"),
            ["1m 1m"] * 2,
            ["15m", "100m"],
            ["11m 11m", "78m 78m"],
            id="R15 Max",
        ),
        pytest.param(
            pod_range(most="600m/1Gi"),
            ["100m/100Mi 150m/200Mi"] * 2,
            ["250m/200Mi"] * 2,
            ["200m/200Mi 300m/400Mi"] * 2,
            id="R16 limits meet Max",
        ),
        pytest.param(
            pod_range(least="100m/500Mi"),
            ["100m/200Mi 150m/400Mi"] * 2,
            ["120m/100Mi"] * 2,
            ["120m/250Mi 180m/500Mi"] * 2,
            id="R17 requests meet Min",
        ),
        pytest.param(
            pod_range(most="/1Gi"),
            ["/50M /50M"] * 2,
            ["/1Gi", "/2Gi"],
            ["/357913941 /357913941", "/715827882 /715827882"],
            id="R18 memory down",
        ),
        pytest.param(
            pod_range(least="/4Gi"),
            ["/50M /50M"] * 2,
            ["/1Gi", "/2Gi"],
            ["/1431655765 /1431655765", "/2863311530 /2863311530"],
            id="R19 memory up",
        ),
        pytest.param(
            pod_range(least="/500M"),
            ["1/50M 1/100M", "1/50M 1/100M"],
            ["1/200M", ""],
            ["1/400M 1/800M", "1/100M 1/200M"],
            id="R20 what is not recommended grows too",
        ),
        pytest.param(
            pod_range(least="/4G"),
            ["/1G /1G", "/1G /1G"],
            ["/1G", ""],
            ["/2G /2G", "/2G /2G"],
            id="R21 the sum is met",
        ),
        pytest.param(
            pod_range(most="500m"),
            ["100m 200m", "100m 200m"],
            ["400m", "/1Gi"],
            ["250m 500m", "100m/1Gi 200m"],
            id="R22 nothing is made zero",
        ),
        pytest.param(
            pod_range(least="1", most="2"),
            ["1m 2m"] * 2,
            ["500m", "500m"],
            ["500m 1"] * 2,
            id="within",
        ),
        pytest.param(
            pod_range(least="100m", most="2"), ["1m", "1m"], ["2", "2"], ["2 -"] * 2, id="no limits"
        ),
        pytest.param(
            pod_range(least="3", most="2"),
            ["1 2"] * 2,
            ["1", "1"],
            ["1500m 3"] * 2,
            id="Min of requests comes first",
        ),
        pytest.param(
            pod_range(least="300m"),
            ["100m 50m"] * 2,
            ["200m"] * 2,
            ["300m 150m"] * 2,
            id="limits below requests meet Min",
        ),
        pytest.param(
            pod_range(most="1", default="1"),
            ["500m", "500m"],
            ["1", "1"],
            ["250m -"] * 2,
            id="a usual limit counts",
        ),
        pytest.param(
            pod_range(most="1"),
            ["1 1", "- 1"],
            ["800m", ""],
            ["800m 800m", "- 1"],
            id="nothing requested, nothing counted",
        ),
        pytest.param(
            pod_range(most="1"),
            ["1 1", "-", "- 1"],
            ["2", "", ""],
            ["1 1", "- -", "- 1"],
            id="what asks for nothing breaks nothing",
        ),
        pytest.param(
            pod_range(most="1"),
            ["1 1", "400m 400m"],
            ["500m", ""],
            ["500m 500m", "400m 400m"],
            id="room enough",
        ),
    ],
)
def test_pod_range(limits: Json, has: list[str], targets: list[str], expected: list[str]) -> None:
    """What does not fit is scaled by one factor, and limits follow."""
    pod = make.pod_json(*boxes(*has))
    assert admit(pod, vpa_json(*advices(*targets)), limits).containers == expected


def test_sums_are_not_told() -> None:
    """The annotation tells nothing of sums, as in upstream, but the amounts know."""
    pod = make.pod_json(box("a", "1", "1"), box("b", "1", "1"))
    found = admit(pod, vpa_json(*advices("1", "1")), pod_range(most="1"))
    assert "scaled" not in found.told
    amounts = found.verdict.containers[0].amounts
    assert amounts is not None
    assert [(cap.resource, cap.by, str(cap.amount)) for cap in amounts.caps] == [
        ("cpu", "scaled to fit the LimitRange for pods", "500m")
    ]


@pytest.mark.parametrize(
    ("pod", "limits", "expected"),
    [
        pytest.param(
            make.pod_json(box("a", "1", "1"), box("off", "1", "1")),
            pod_range(most="3"),
            ["2 2", "1 1"],
            id="room beside it",
        ),
        pytest.param(
            make.pod_json(box("a", "1", "1"), box("off", "1", "1")),
            pod_range(most="1500m"),
            ["500m 500m", "1 1"],
            id="takes its share",
        ),
        pytest.param(
            make.pod_json(box("a", "1", "1"), box("off", "1", "1")),
            pod_range(most="1"),
            ["2 2", "1 1"],
            id="leaves no room: nothing can be done",
        ),
        pytest.param(
            make.pod_json(box("a", "1", "1"), box("off", "1", "1")),
            pod_range(least="5"),
            ["4 4", "1 1"],
            id="counts for Min",
        ),
        pytest.param(
            make.pod_json(box("a", "1", "1"), box("off")),
            pod_range(most="1"),
            ["1 1", "- -"],
            id="asks for nothing",
        ),
    ],
)
def test_off_container(pod: Json, limits: Json, expected: list[str]) -> None:
    """A container in mode Off is never resized, and others fit beside it."""
    vpa = vpa_json(advice("a", "2"), advice("off", "9"), policies=[OFF])
    assert admit(pod, vpa, limits).containers == expected


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        pytest.param([box("s", "1", "1") | {"restartPolicy": "Always"}], "500m 500m", id="sidecar"),
        pytest.param(
            [box("s") | {"restartPolicy": "Always"}], "1500m 1500m", id="asks for nothing"
        ),
        pytest.param([box("s", "1", "1")], "1500m 1500m", id="gone before the others start"),
    ],
)
def test_sidecars(init: list[Json], expected: str) -> None:
    """Sidecars among the init containers take their share, and are left alone."""
    pod = make.pod_json(box("a", "1", "1"), init=init)
    found = admit(pod, vpa_json(advice("a", "2"), advice("s", "9")), pod_range(most="1500m"))
    assert found.containers == [expected]
    assert found.pod["spec"]["initContainers"] == init


@pytest.mark.parametrize(
    ("limits", "has", "expected"),
    [
        pytest.param(pod_range(most="2"), "100m 1", "400m 1", id="its limit does not grow"),
        pytest.param(pod_range(most="1500m"), "100m 1", "400m 1", id="others give way"),
        pytest.param(pod_range(least="1"), "100m 1", "500m 1", id="its request meets Min"),
        pytest.param(pod_range(most="2"), "100m", "400m -", id="it has no limit"),
        pytest.param(pod_range(most="400m"), "100m", "200m -", id="its request gives way then"),
    ],
)
def test_requests_only(limits: Json, has: str, expected: str) -> None:
    """A limit that stays is judged as it stays."""
    policies = [make.policy_json("a", values="RequestsOnly")]
    pod = make.pod_json(*boxes(has, "100m 200m"))
    vpa = vpa_json(*advices("400m", "400m"), policies=policies)
    assert admit(pod, vpa, limits).containers[0] == expected


def test_bounds_beside_others() -> None:
    """A container that makes room has no bounds, but the others' bounds count it."""
    pod = make.pod(*boxes("1 1", "1 1"))
    vpa = make.vpa(
        recommendations=[{"containerName": "a", "target": two("1"), "upperBound": two("1")}]
    )
    limits = make.snapshot(pod_range(most="1")).of("default").limits
    current = {container.name: container.resources for container in pod.containers}
    found = capped(pod, vpa, limits, current)
    assert [str(found[name].upper_bound.get("cpu", "-")) for name in "ab"] == ["500m", "-"]


def test_bounds_far_above_max() -> None:
    """R12: bounds beyond Max, beside a container without any, are scaled like the target."""
    pod = make.pod(*boxes("100m/100Mi 100m/100Mi", "400m/600Mi 400m/600Mi"))
    found = make.recommendation_json(
        "a", cpu="400m", memory="600Mi", lower=two("100m/100Mi"), upper=two("1200m/2Gi")
    )
    limits = make.snapshot(pod_range(most="400m/1Gi")).of("default").limits
    current = {container.name: container.resources for container in pod.containers}
    amounts = capped(pod, make.vpa(recommendations=[found]), limits, current)
    assert [str(amounts[name].target["cpu"]) for name in "ab"] == ["200m", "200m"]
    assert str(amounts["a"].upper_bound["cpu"]) == "300m"
    assert not amounts["b"].upper_bound


def test_pod_resources_are_told() -> None:
    """What the pod's own resources hold down is told of."""
    pod = make.pod_json(box("a", "1/1Gi"), spec={"resources": {"limits": two("2/4Gi")}})
    told = admit(pod, vpa_json(advice("a", "3/3Gi"))).told
    assert (
        told
        == "container 0: cpu capped to fit the pod's own resources, cpu request, memory request"
    )


@pytest.mark.parametrize(
    ("pod_has", "has", "targets", "policy", "expected"),
    [
        pytest.param("/ 2", ["1 1"], ["3"], {}, ["2 2"], id="no limit above the pod's"),
        pytest.param("/ 2", ["1 4"], ["3"], {}, ["500m 2"], id="in proportion"),
        pytest.param("/ 2", ["1"], ["3"], {}, ["2 -"], id="nor a request"),
        pytest.param(
            "/ 2", ["1 3"], ["3"], {"values": "RequestsOnly"}, ["2 3"], id="a limit that stays"
        ),
        pytest.param("/ 2", ["1 1", "1 1"], ["3", ""], {}, ["2 2", "1 1"], id="each for itself"),
        pytest.param("3 4", ["1", "1"], ["2", "4"], {}, ["1 -", "2 -"], id="requests together"),
        pytest.param("3 4", ["1", "1"], ["2", ""], {}, ["2 -", "1 -"], id="they fit"),
        pytest.param("3 4", ["1", "1"], ["4", ""], {}, ["2 -", "1 -"], id="others stay"),
        pytest.param(
            "/1Gi /1Gi", ["1/1Mi"], ["2/2Gi"], {}, ["2/1Gi -"], id="memory alone is limited"
        ),
        pytest.param("3 4", ["1"], ["/1Gi"], {}, ["1/1Gi -"], id="cpu is not recommended"),
    ],
)
def test_pod_resources(
    pod_has: str, has: list[str], targets: list[str], policy: Json, expected: list[str]
) -> None:
    """What an API server would refuse beside the pod's own resources is not asked for."""
    pod = make.pod_json(*boxes(*has), spec={"resources": box("", *pod_has.split())["resources"]})
    found = admit(pod, vpa_json(*advices(*targets), policies=[make.policy_json(**policy)]))
    assert found.containers == expected
    assert found.pod["spec"]["resources"] == pod["spec"]["resources"]


@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 10**4), st.integers(1, 10), st.integers(1, 10**4)),
        min_size=1,
        max_size=5,
    ),
    most=st.integers(100, 10**5),
    memory=st.booleans(),
)
def test_sum_meets_max(sizes: list[tuple[int, int, int]], most: int, memory: bool) -> None:
    """However many containers there are, their limits together stay below Max."""
    unit, resource = ("", "memory") if memory else ("m", "cpu")
    side = "/" if memory else ""
    texts = [
        f"{side}{request}{unit} {side}{request * factor}{unit}" for request, factor, _ in sizes
    ]
    named = [(f"c{index}", *text.split()) for index, text in enumerate(texts)]
    targets = [
        advice(f"c{index}", f"{side}{target}{unit}") for index, (*_, target) in enumerate(sizes)
    ]
    pod = make.pod_json(*(box(*one) for one in named))
    found = admit(pod, vpa_json(*targets), pod_range(most=f"{side}{most}{unit}"))
    # A request that falls to zero leaves its limit behind, as in upstream.
    assume(not any(text.strip("/").startswith("0 ") for text in found.containers))
    together = sum(
        Quantity.parse(container["resources"]["limits"][resource]).nano
        for container in found.pod["spec"]["containers"]
    )
    assert together <= Quantity.parse(f"{most}{unit}").nano
