"""A boost raises CPU while a container starts, marks what was, and never lowers anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings

from app.model.fields import Json
from app.model.quantity import Quantity
from app.sizing.boost import Boosted, BoostRefusal, Ceiling, unprobed_boosts
from tests import make
from tests.admission.core.worlds import World, worlds
from tests.cases import cases
from tests.sizing.shorthand import Admitted, admit, advice, box, sidecar, two, vpa_json

NOTHING: dict[str, Json] = {"requests": {}, "limits": {}}
ONLY = "RequestsOnly"
OFF: Json = {"mode": "Off"}
REQUEST = "cpu request"


def factor(count: int | None) -> Json:
    """Return a boost by a factor."""
    return make.boost_json(factor=count)


def more(amount: str | None) -> Json:
    """Return a boost by an amount."""
    return make.boost_json(quantity=amount, kind="Quantity")


def container_range(most: str, default: str = "") -> Json:
    """Return a LimitRange for containers."""
    return make.limit_range_json(most=two(most), default=two(default))


def pod_range(most: str) -> Json:
    """Return a LimitRange for pods."""
    return make.limit_range_json(make.limits_json("Pod", most=two(most)))


def marks(found: Admitted) -> dict[str, str]:
    """Return what the marks say each container had, in short."""
    return {
        name: " ".join(
            "/".join(json[word].get(resource, "") for resource in ("cpu", "memory")).rstrip("/")
            or "-"
            for word in ("requests", "limits")
        )
        for name, text in found.boosts.items()
        if (json := orjson.loads(text))
    }


@cases(
    "has target boost expected",
    {
        "a factor of what is recommended": ("1m 1m", "100m", factor(2), "200m 200m"),
        "more than is recommended": ("1m 1m", "100m", more("500m"), "600m 600m"),
        "the limit keeps its ratio": ("100m 300m", "150m", factor(2), "300m 900m"),
        "no limit, none written": ("100m -", "150m", factor(2), "300m -"),
        "a factor of the request": ("100m 100m", "", factor(2), "200m 200m"),
        "memory stays": ("100m/64Mi 300m/64Mi", "", more("2"), "2100m/64Mi 6300m/64Mi"),
        "no type is a factor": ("100m 200m", "1", {"cpu": {"factor": 2}}, "2 4"),
        "no request, a recommendation": ("- -", "100m", more("500m"), "600m -"),
        "in its format": ("100m 1e0", "", factor(2), "200m 2"),
    },
)
def test_boost(has: str, target: str, boost: Json, expected: str) -> None:
    """The boost builds on the recommendation, else on the spec, and marks what was there."""
    vpa = vpa_json(*([advice("c1", target)] if target else []), boost=boost)
    found = admit(make.pod_json(box("c1", *has.split())), vpa)
    assert found.containers == [expected]
    assert marks(found) == {"c1": has}


@pytest.mark.parametrize(
    ("has", "target", "boost", "expected"),
    [
        pytest.param("- -", "", factor(2), "- -", id="nothing to multiply"),
        pytest.param("- -", "", more("0"), "- -", id="nothing to add"),
        pytest.param("- -", "", more("500m"), "- -", id="nothing to add to, nor to go back to"),
        pytest.param("- 2", "", more("500m"), "- 2", id="a limit is no request"),
        pytest.param("187500u", "", factor(1), "187500u -", id="rounding is no rise"),
        *(
            pytest.param("100m 200m", "1", boost, "1 2", id=name)
            for name, boost in {
                "factor 0": factor(0),
                "factor 1 opts out": factor(1),
                "no factor": factor(None),
                "no amount": more(None),
                "less than nothing": more("-500m"),
                "an unknown type": make.boost_json(factor=2, kind="Invalid"),
                "an empty boost": {},
                "no cpu": {"cpu": None},
            }.items()
        ),
    ],
)
def test_no_rise(has: str, target: str, boost: Json, expected: str) -> None:
    """Where nothing would rise, nothing is boosted or marked."""
    vpa = vpa_json(*([advice("c1", target)] if target else []), boost=boost)
    found = admit(make.pod_json(box("c1", *has.split())), vpa)
    assert found.containers == [expected]
    assert not found.boosts


@cases(
    "has target boost most expected",
    {
        "the flag caps a boost": ("1m 1m", "20m", factor(3), "40m", "40m 40m"),
        "the flag never lowers": ("100m 200m", "1", factor(2), "500m", "1 2"),
        "a flag of zero is none": ("1m 1m", "20m", factor(3), "0", "60m 60m"),
        "the flag, canonical": ("1m", "20m", factor(3), "0.050", "50m -"),
    },
)
def test_flag(has: str, target: str, boost: Json, most: str, expected: str) -> None:
    """The flag caps a boost, and never lowers what is recommended."""
    vpa = vpa_json(advice("c1", target), boost=boost)
    assert admit(make.pod_json(box("c1", *has.split())), vpa, most=most).containers == [expected]


@cases(
    "has target boost limits most expected",
    {
        "request and limit": ("200m 400m", "50m", factor(2), None, None, "200m 400m"),
        "an amount": ("200m", "50m", more("10m"), None, None, "200m -"),
        "more than its own": ("200m 400m", "150m", factor(2), None, None, "300m 600m"),
        "above the flag": ("200m 400m", "50m", factor(9), None, "100m", "200m 400m"),
        "the flag is above it": ("200m 400m", "50m", factor(9), None, "250m", "250m 500m"),
        "not above what else is refused": (
            "200m 400m",
            "50m",
            factor(9),
            "300m",
            None,
            "150m 300m",
        ),
        "a factor of 1 opts out": ("200m 400m", "50m", factor(1), None, None, "50m 100m"),
        "in whole millicores": ("187500u", "50m", factor(2), None, None, "188m -"),
    },
)
def test_its_own_request(
    has: str, target: str, boost: Json, limits: str | None, most: str | None, expected: str
) -> None:
    """A boosted container never has less than its author asked for, unless that is refused."""
    ranges = [] if limits is None else [container_range(limits)]
    vpa = vpa_json(advice("c1", target), boost=boost)
    found = admit(make.pod_json(box("c1", *has.split())), vpa, *ranges, most=most)
    assert found.containers == [expected]
    assert bool(found.boosts) is (boost != factor(1))


@cases(
    "limits resources expected",
    {
        "room for all": (pod_range("9"), None, ["200m 400m", "1 2"]),
        "its own first, then the others": (pod_range("1600m"), None, ["200m 400m", "600m 1200m"]),
        "room for its own alone": (pod_range("800m"), None, ["200m 400m", "200m 400m"]),
        "not even that": (pod_range("650m"), None, ["125m 250m", "200m 400m"]),
        "no room": (pod_range("500m"), None, ["50m 100m", "200m 400m"]),
        "pod's request": (None, {"requests": two("700m")}, ["200m 400m", "500m 1"]),
    },
)
def test_its_own_request_is_shared_first(
    limits: Json | None, resources: Json | None, expected: list[str]
) -> None:
    """Where a pod has not room for all, boosts give up first what authors did not ask for."""
    boxes = (box("a", "200m", "400m"), box("b", "200m", "400m"))
    pod = make.pod_json(*boxes, spec={} if resources is None else {"resources": resources})
    vpa = vpa_json(
        advice("a", "50m"),
        advice("b", "200m"),
        policies=[
            make.policy_json("a", boost=factor(2)),
            make.policy_json("b", boost=factor(5)),
        ],
    )
    assert admit(pod, vpa, *([limits] if limits else [])).containers == expected


def test_order_of_operations() -> None:
    """The mark stands right before what it explains."""
    pod = make.pod_json(box("c1", "1m", "1m"), annotations={})
    found = admit(pod, vpa_json(advice("c1", "100m"), boost=factor(2)))
    assert found.changes == [
        "/metadata/annotations/vpaCpuStartupBoost~1c1 "
        '{"requests":{"cpu":"1m"},"limits":{"cpu":"1m"}}',
        "/spec/containers/0/resources/requests/cpu 200m",
        "/spec/containers/0/resources/limits/cpu 200m",
        "/metadata/annotations/vpaUpdates Pod resources updated by v: container 0: "
        "memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit",
        "/metadata/annotations/vpaObservedContainers c1",
    ]


@cases(
    "has target boost expected",
    {
        "room below the limit": ("100m 300m", "100m", factor(2), "200m 300m"),
        "one millicore below": ("100m 150m", "100m", factor(2), "149m 150m"),
        "request and limit equal": ("1m 1m", "", factor(2), None),
        "just the limit": ("100m 200m", "100m", factor(2), "200m 200m"),
        "no limit": ("100m", "100m", factor(2), "200m -"),
        "a limit of zero": ("100m 0", "100m", factor(2), "0 0"),
        "no room at all": ("100m 1500u", "", factor(2), None),
        "odd limit": ("1m 150500u", "", more("1"), "149500u 150500u"),
    },
)
def test_requests_only(has: str, target: str, boost: Json, expected: str | None) -> None:
    """A limit that stays keeps the boost one millicore away, so that the pod stays Burstable."""
    vpa = vpa_json(
        *([advice("c1", target)] if target else []),
        boost=boost,
        policies=[make.policy_json(values=ONLY)],
    )
    found = admit(make.pod_json(box("c1", *has.split())), vpa)
    assert found.containers == [expected or has]
    assert bool(found.boosts) is (expected not in (None, "0 0"))


def test_flag_beside_a_limit_that_stays() -> None:
    """Of flag and limit the lower one caps."""
    vpa = vpa_json(boost=factor(9), policies=[make.policy_json(values=ONLY)])
    found = admit(make.pod_json(box("c1", "100m", "300m")), vpa, most="250m")
    assert found.containers == ["250m 300m"]


@cases(
    "policy top has target expected told",
    {
        "its own comes first": ({"boost": factor(3)}, factor(2), "1m", "100m", "300m -", REQUEST),
        "an empty one opts out": ({"boost": {}}, factor(2), "1m", "100m", "100m -", REQUEST),
        "a policy in mode Off still boosts": (OFF, factor(2), "100m", "1", "200m -", REQUEST),
        "a policy in mode Off with a boost of its own": (
            OFF | {"boost": more("2")},
            None,
            "500m/64Mi 1/64Mi",
            "",
            "2500m/64Mi 5/64Mi",
            "cpu request, cpu limit",
        ),
        "bounds of the policy do not cap the boost": (
            {
                "min_allowed": two("250m/100Mi"),
                "max_allowed": two("500m/600Mi"),
                "boost": more("4"),
            },
            None,
            "200m/128Mi",
            "800m/300Mi",
            "4500m/300Mi -",
            "cpu capped to maxAllowed, cpu request, memory request",
        ),
        "a resource that is not controlled is boosted": (
            {"resources": ["memory"], "boost": factor(3)},
            None,
            "200m/128Mi 400m/256Mi",
            "/96Mi",
            "600m/96Mi 1200m/192Mi",
            "cpu: limit NOT set since recommendedRequest is nil or 0, "
            "cpu request, memory request, cpu limit, memory limit",
        ),
        "unknown": ({"values": "Other"}, factor(2), "1m 2m", "100m", "200m 2m", REQUEST),
    },
)
def test_policy(
    policy: Json, top: Json | None, has: str, target: str, expected: str, told: str
) -> None:
    """The boost outranks every field of a policy but which values it controls."""
    vpa = vpa_json(
        *([advice("c1", target)] if target else []),
        boost=top,
        policies=[make.policy_json(**policy)],
    )
    found = admit(make.pod_json(box("c1", *has.split())), vpa)
    assert found.containers == [expected]
    assert found.told == f"container 0: {told}"


def test_off_vpa_only_boosts() -> None:
    """A VPA in mode Off changes nothing but the cpu of what it boosts."""
    pod = make.pod_json(box("c1", "100m/100Mi", "300m/200Mi"))
    found = admit(pod, vpa_json(advice("c1", "500m/500Mi"), mode="Off", boost=factor(3)))
    assert found.containers == ["300m/100Mi 900m/200Mi"]
    assert found.told == "container 0: cpu request, cpu limit"
    assert marks(found) == {"c1": "100m/100Mi 300m/200Mi"}


@cases(
    "mode expected reason",
    {"the recommendation alone": (None, "100m -", "Sized"), "nothing": ("Off", "1m -", "ModeOff")},
)
def test_gate_off(mode: str | None, expected: str, reason: str) -> None:
    """With the gate off there are no boosts."""
    vpa = vpa_json(advice("c1", "100m"), mode=mode, boost=factor(2))
    found = admit(make.pod_json(box("c1", "1m")), vpa, gate=False)
    assert found.containers == [expected]
    assert found.verdict.reason == reason
    assert not found.boosts


def test_containers_for_themselves() -> None:
    """A container can opt out, and an impossible boost of one is no harm to another."""
    pod = make.pod_json(box("a", "100m/64Mi", "200m/128Mi"), box("b", "50m"), box("c", "50m"))
    vpa = vpa_json(
        advice("a", "300m/128Mi"),
        advice("b", "80m/32Mi"),
        boost=factor(2),
        policies=[
            make.policy_json("b", boost=factor(1)),
            make.policy_json("c", boost=make.boost_json(factor=2, kind="Invalid")),
        ],
    )
    found = admit(pod, vpa)
    assert found.containers == ["600m/128Mi 1200m/256Mi", "80m/32Mi -", "50m -"]
    assert list(found.boosts) == ["a"]
    refusals = [verdict.boost_outcome for verdict in found.verdict.containers[1:]]
    assert refusals == [BoostRefusal.NO_RISE, BoostRefusal.UNKNOWN_TYPE]


# --- ceilings


@cases(
    "limits has target count values expected",
    {
        "the limit meets Max": (container_range("1"), "200m 400m", "300m", 3, None, "500m 1"),
        "room": (container_range("4"), "200m 400m", "300m", 3, None, "900m 1800m"),
        "no room": (container_range("1"), "500m 1", "500m", 3, None, "500m 1"),
        "apart": (container_range("1"), "200m 400m", "300m", 3, "Other", "900m 400m"),
        "equal": (container_range("1"), "400m 400m", "400m", 3, None, "1 1"),
        "no limit": (container_range("1"), "400m", "400m", 3, None, "1 -"),
        "a usual limit stays": (container_range("2", "500m"), "100m", "150m", 4, None, "600m 750m"),
        "or grows to Max": (container_range("2", "500m"), "100m", "150m", 9, None, "750m 750m"),
        "or in proportion": (container_range("9", "500m"), "100m", "150m", 6, None, "900m 4500m"),
        "without Max": (container_range("", "500m"), "100m", "150m", 9, None, "1350m 6750m"),
    },
)
def test_container_limit_range(
    limits: Json, has: str, target: str, count: int, values: str | None, expected: str
) -> None:
    """Neither the boosted request nor the limit that follows goes beyond Max."""
    policies = [make.policy_json(values=values)]
    vpa = vpa_json(advice("c1", target), boost=factor(count), policies=policies)
    assert admit(make.pod_json(box("c1", *has.split())), vpa, limits).containers == [expected]


@cases(
    "limits resources has init expected boosted",
    {
        "room for all": (pod_range("8"), None, ["1 1", "1 1"], [], ["3 3", "3 3"], "ab"),
        "half of the rise": (pod_range("4"), None, ["1 1", "1 1"], [], ["2 2", "2 2"], "ab"),
        "limits alone count": (pod_range("5"), None, ["2 2", "1"], [], ["5 5", "2500m -"], "ab"),
        "all give way": (pod_range("3"), None, ["2 2", "1"], [], ["3 3", "1500m -"], "ab"),
        "one asks for no cpu": (pod_range("2"), None, ["1 1", "-"], [], ["2 2", "- -"], "a"),
        "no room": (pod_range("2"), None, ["1 1", "1 1"], [], ["1 1", "1 1"], ""),
        "beyond already": (pod_range("1"), None, ["1 1", "1 1"], [], ["1 1", "1 1"], ""),
        "a sidecar takes its share": (
            pod_range("4"),
            None,
            ["1 1", "1 1"],
            [sidecar("s", "1", "1")],
            ["1500m 1500m", "1500m 1500m"],
            "ab",
        ),
        "pod's limit": (None, {"limits": two("2")}, ["1 1", "1 1"], [], ["2 2", "2 2"], "ab"),
        "pod's request": (
            None,
            {"requests": two("4")},
            ["1 1", "1 1"],
            [sidecar("s", "1"), box("i", "9")],
            ["1500m 1500m", "1500m 1500m"],
            "ab",
        ),
        "all is taken": (None, {"requests": two("2")}, ["1 1", "1 1"], [], ["1 1", "1 1"], ""),
        "memory alone": (pod_range("/1Gi"), None, ["1 1", "1"], [], ["3 3", "3 -"], "ab"),
        "no limits to count": (pod_range("1"), None, ["1", "1"], [], ["3 -", "3 -"], "ab"),
    },
)
def test_pod_ceilings(
    limits: Json | None,
    resources: Json | None,
    has: list[str],
    init: list[Json],
    expected: list[str],
    boosted: str,
) -> None:
    """What a pod as a whole may have is shared: each boost gives up the same part."""
    boxes = [box(name, *text.split()) for name, text in zip("ab", has, strict=True)]
    spec = {} if resources is None else {"resources": resources}
    pod = make.pod_json(*boxes, init=init, spec=spec)
    ranges = [] if limits is None else [limits]
    vpa = vpa_json(mode="Off", boost=factor(3))
    found = admit(pod, vpa, *ranges, native_sidecars=False)
    assert found.containers == expected
    assert "".join(found.boosts) == boosted


@cases(
    "limits resources init expected sidecars",
    {
        "as the others": (None, None, [sidecar("s", "1", "2")], ["3 3"], ["3 6"]),
        "ordinary ones never": (None, None, [box("i", "1", "2")], ["3 3"], ["1 2"]),
        "a share of the room": (
            pod_range("4"),
            None,
            [sidecar("s", "1", "1")],
            ["2 2"],
            ["2 2"],
        ),
        "beside one that starts later": (
            pod_range("8"),
            None,
            [sidecar("s", "1", "1"), box("i", "6", "6")],
            ["2 2"],
            ["2 2", "6 6"],
        ),
        "beside one that is done by then": (
            pod_range("8"),
            None,
            [box("i", "6", "6"), sidecar("s", "1", "1")],
            ["3 3"],
            ["6 6", "3 3"],
        ),
        "within the pod's own": (
            None,
            {"requests": two("8")},
            [sidecar("s", "1", "1"), box("i", "6", "6")],
            ["2 2"],
            ["2 2", "6 6"],
        ),
    },
)
def test_sidecars(
    limits: Json | None,
    resources: Json | None,
    init: list[Json],
    expected: list[str],
    sidecars: list[str],
) -> None:
    """Sidecars are boosted as containers are, and fit beside what starts behind them."""
    spec = {} if resources is None else {"resources": resources}
    pod = make.pod_json(box("a", "1", "1"), init=init, spec=spec)
    found = admit(pod, vpa_json(mode="Off", boost=factor(3)), *([limits] if limits else []))
    assert (found.containers, found.sidecars) == (expected, sidecars)
    assert ("s" in found.boosts) is any(one["name"] == "s" for one in init)


@cases(
    "limits resources values most ceiling is_boosted",
    {
        "flag": (None, None, None, "150m", Ceiling.FLAG, True),
        "flag below": (None, None, None, "50m", Ceiling.FLAG, False),
        "limit": (None, None, ONLY, None, Ceiling.OWN_LIMIT, True),
        "range": (container_range("220m"), None, None, None, Ceiling.CONTAINER_LIMIT_RANGE, True),
        "no": (container_range("200m"), None, None, "150m", Ceiling.CONTAINER_LIMIT_RANGE, False),
        "sum": (pod_range("220m"), None, None, None, Ceiling.POD_LIMIT_RANGE, True),
        "sum taken": (pod_range("200m"), None, None, None, Ceiling.POD_LIMIT_RANGE, False),
        "pod limit": (None, {"limits": two("220m")}, None, None, Ceiling.POD_RESOURCES, True),
        "pod": (None, {"requests": two("150m")}, None, None, Ceiling.POD_RESOURCES, True),
        "none": (container_range("9"), None, None, None, None, True),
    },
)
def test_ceiling_is_named(
    limits: Json | None,
    resources: Json | None,
    values: str | None,
    most: str | None,
    ceiling: Ceiling | None,
    is_boosted: bool,
) -> None:
    """What holds a boost down is told, be it that some or that nothing is left of it."""
    spec = {} if resources is None else {"resources": resources}
    pod = make.pod_json(box("c1", "100m", "200m"), spec=spec)
    vpa = vpa_json(mode="Off", boost=factor(9), policies=[make.policy_json(values=values)])
    (found,) = admit(pod, vpa, *([limits] if limits else []), most=most).verdict.containers
    assert (found.boost.ceiling if found.boost else found.boost_outcome) == ceiling
    assert isinstance(found.boost, Boosted) is is_boosted
    assert found.boost is None or str(found.boost.wanted) == "900m"


HARD = frozenset(Ceiling) - {Ceiling.FLAG}


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_never_below_its_own(world: World) -> None:
    """A boosted container has less than its own spec asks for only where that is not possible."""
    boosted = Admitted.of(world.pod, world.with_gate(is_on=True).admit())
    pairs = zip(boosted.pod["spec"]["containers"], world.pod["spec"]["containers"], strict=True)
    held = {one.container: one.boost.ceiling for one in boosted.verdict.containers if one.boost}
    for after, before in pairs:
        if after["name"] in boosted.boosts and held[after["name"]] not in HARD:
            assert cpu(after, "requests") >= cpu(before, "requests")
            if cpu(before, "requests").nano:
                assert cpu(after, "limits") >= cpu(before, "limits")


def cpu(container: Json, word: str) -> Quantity:
    """Return the cpu of a container."""
    return Quantity.read(((container.get("resources") or {}).get(word) or {}).get("cpu"))


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(odd=True))
def test_never_lowers(world: World) -> None:
    """Whatever the boost, no container gets less cpu than without it, and all else is equal."""
    boosted = Admitted.of(world.pod, world.with_gate(is_on=True).admit())
    plain = Admitted.of(world.pod, world.with_gate(is_on=False).admit())
    pairs = zip(boosted.pod["spec"]["containers"], plain.pod["spec"]["containers"], strict=True)
    for after, before in pairs:
        for word in ("requests", "limits"):
            assert cpu(after, word) >= cpu(before, word)
        is_marked = after["name"] in boosted.boosts
        assert is_marked == (cpu(after, "requests") > cpu(before, "requests"))


PROBE: Json = {"httpGet": {"port": 80}}
TWO_UNPROBED = [box("a"), box("b"), box("c") | {"readinessProbe": PROBE}]


@cases(
    "vpa owner expected",
    {
        "all": ({"boost": factor(2)}, "StatefulSet/web", ("a", "b")),
        "none": ({}, "StatefulSet/web", ()),
        "an amount": ({"boost": more("1")}, "StatefulSet/web", ("a", "b")),
        "one opts out": (
            {"boost": factor(2), "policies": [make.policy_json("a", boost=factor(1))]},
            "StatefulSet/web",
            ("b",),
        ),
        "one asks for it": (
            {"policies": [make.policy_json("a", boost=factor(2))]},
            "StatefulSet/web",
            ("a",),
        ),
        "of an unknown type": (
            {"boost": make.boost_json(factor=2, kind="Odd")},
            "StatefulSet/web",
            (),
        ),
        "of another": ({"boost": factor(2)}, "StatefulSet/other", ()),
        "of a custom one's own": (
            {"boost": factor(2), "target": "example.com/v1/Gadget/web"},
            "ReplicaSet/web-1",
            ("a", "b"),
        ),
        "without a target": ({"boost": factor(2), "target": None}, "StatefulSet/web", ()),
    },
)
def test_unprobed_boosts(vpa: Mapping[str, Any], owner: str, expected: tuple[str, ...]) -> None:
    """Boosted containers that no probe finds ready are known by their workload."""
    gadget = "example.com/v1/Gadget/web" if owner.startswith("ReplicaSet") else None
    workload = make.workload_json(owner, containers=TWO_UNPROBED, owner=gadget)
    view = make.snapshot(workload).of("default")
    assert unprobed_boosts(make.vpa(**vpa), view) == expected
