"""Caps of one container come in a fixed order; those of a pod are shared by its containers."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from app.model.fields import Json
from app.model.limits import Limits
from app.model.quantity import ZERO, Quantity
from app.sizing.capping import request_at
from app.sizing.sizing import capped
from tests import make
from tests.cases import cases
from tests.sizing.shorthand import admit, advice, box, sidecar, two, vpa_json

MIN, MAX = "capped to fit Min in container LimitRange", "capped to fit Max in container LimitRange"
RATIO = "capped to fit maxLimitRequestRatio in container LimitRange"
BOTH = "cpu request, memory request, cpu limit, memory limit"
CPU_ALONE = "memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit"
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


@cases(
    "limits has target policy expected notes",
    {
        "the request at which the limit meets Max": (
            limit_range(most="300m/1Gi"),
            "100m/100Mi 150m/200Mi",
            "250m/200Mi",
            {},
            "200m/200Mi 300m/400Mi",
            f"cpu {MAX}, {BOTH}",
        ),
        "Min holds for requests too": (
            limit_range(least="50m/250Mi"),
            "100m/200Mi 150m/400Mi",
            "250m/100Mi",
            {},
            "250m/250Mi 375m/500Mi",
            f"memory {MIN}, {BOTH}",
        ),
        "the limit wins over Min": (
            limit_range(least="/500M"),
            "1/50M 1/100M",
            "1/200M",
            ONLY,
            "1/100M 1/100M",
            f"memory {MIN}, memory capped to container limit, cpu request, memory request",
        ),
        "a limit that stays": (
            limit_range(most="300m"),
            "100m 200m",
            "180m",
            ONLY,
            "180m 200m",
            "cpu request",
        ),
        "the request has to fit": (
            limit_range(most="150m"),
            "100m 200m",
            "180m",
            ONLY,
            "150m 200m",
            f"cpu {MAX}, cpu request",
        ),
        "what is equal is written as the request is": (
            limit_range(least="/0.25Gi", most="500m"),
            "1e0/1G 1e0/1G",
            "2/1",
            ONLY,
            "500e-3/268435456 1e0/1G",
            f"cpu {MAX}, memory {MIN}, cpu request, memory request",
        ),
        "the policy wins": (
            limit_range(most="300m"),
            "100m 200m",
            "180m",
            {"min_allowed": two("400m")},
            "400m 800m",
            f"cpu {MAX}, cpu capped to minAllowed, {CPU_ALONE}",
        ),
        "the policy's maximum wins over Min": (
            limit_range(least="200m"),
            "100m 100m",
            "50m",
            {"max_allowed": two("150m")},
            "150m 150m",
            f"cpu {MIN}, cpu capped to maxAllowed, {CPU_ALONE}",
        ),
        "the default is the limit": (
            limit_range(default="2/100Mi"),
            "2/100Mi",
            "2/200Mi",
            {},
            "2/200Mi 2/200Mi",
            BOTH,
        ),
        "the default grows": (limit_range(default="2"), "1", "10", {}, "10 20", CPU_ALONE),
        "no limit": (limit_range(most="300m"), "100m", "1", {}, "1 -", "cpu request"),
        "no request: Max itself": (
            limit_range(most="300m"),
            "- 200m",
            "1",
            {},
            "300m 300m",
            f"cpu {MAX}, {CPU_ALONE}",
        ),
        "of equal floors the one of the ratio, in the request's format": (
            limit_range(least="/0.25Gi"),
            "/100M /100M",
            "/1",
            {},
            "/268435456 /268435456",
            f"memory {MIN}, "
            "cpu: limit NOT set since originalLimit is nil or 0, memory request, memory limit",
        ),
    },
)
def test_limit_range(
    limits: Json, has: str, target: str, policy: Json, expected: str, notes: str
) -> None:
    """Bounds hold for requests and limits alike, and the policy outranks them."""
    vpa = vpa_json(advice("app", target), policies=[make.policy_json(**policy)])
    found = admit(make.pod_json(box("app", *has.split())), vpa, limits)
    assert found.containers == [expected]
    assert found.told == f"container 0: {notes}"


@cases(
    "limits has policy expected is_told",
    {
        "holds": (limit_range(ratio="4/4"), "1/1Gi 2/2Gi", ONLY, "500m/512Mi 2/2Gi", True),
        "up": (limit_range(ratio="3/3"), "1/1G 1/1G", ONLY, "334m/333333334 1/1G", True),
        "is far": (limit_range(ratio="99"), "1/1Gi 2/2Gi", ONLY, "100m/1Mi 2/2Gi", False),
        "no limit": (limit_range(ratio="4/4"), "1/1Gi", ONLY, "100m/1Mi -", False),
        "the usual": (limit_range(ratio="4", default="2"), "1", ONLY, "500m/1Mi -", True),
        "both": (limit_range(ratio="4/4"), "1/1Gi 2/2Gi", {}, "100m/1Mi 200m/2Mi", False),
        "the policy wins": (
            limit_range(ratio="4/4"),
            "1/1Gi 2/2Gi",
            ONLY | {"max_allowed": two("200m/1Mi")},
            "200m/1Mi 2/2Gi",
            True,
        ),
    },
)
def test_ratio(limits: Json, has: str, policy: Json, expected: str, is_told: bool) -> None:
    """A request does not fall so far below a limit that stays that the pod would be refused."""
    vpa = vpa_json(advice("app", "100m/1Mi"), policies=[make.policy_json(**policy)])
    found = admit(make.pod_json(box("app", *has.split())), vpa, limits)
    assert found.containers == [expected]
    assert (RATIO in found.told) is is_told


def test_several_limit_ranges() -> None:
    """The lowest maximum and the highest minimum hold; of equals the last one's spelling."""
    ranges = [
        limit_range(least="1", most="1500m", ratio="4", name="a"),
        limit_range(least="500m", most="2", ratio="3", default="5", name="b"),
        limit_range(least="1e0", most="1.5", default="6", name="c"),
    ]
    view = make.snapshot(*ranges).of("default")
    assert view.limits.pod is None
    found = view.limits.container
    assert found is not None
    named = (
        found.least("cpu"),
        found.most("cpu"),
        found.usual("cpu"),
        found.max_limit_request_ratio("cpu"),
    )
    assert [str(amount) for amount in named] == ["1e0", "1500m", "6", "3"]


@cases(
    "limits",
    {
        "another namespace": (limit_range(most="1", namespace="other"),),
        "another type": (limit_range(most="1", kind="PersistentVolumeClaim"),),
        "says nothing": (make.limit_range_json({"type": "Container"}),),
        "requests are not its business": (
            make.limit_range_json({"type": "Container", "defaultRequest": {"cpu": "1"}}),
        ),
    },
)
def test_other_limit_ranges(limits: Json) -> None:
    """Only what speaks of containers or pods of the namespace counts."""
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


@cases(
    "limits has targets expected",
    {
        "halves": (pod_range(most="1"), ["1 1", "1 1"], ["1", "1"], ["500m 500m"] * 2),
        "what is not recommended makes room": (
            pod_range(most="400m/1Gi"),
            ["100m/100Mi 100m/100Mi", "400m/600Mi 400m/600Mi"],
            ["400m/600Mi", ""],
            ["200m/512Mi 200m/512Mi"] * 2,
        ),
        "rounded up": (
            pod_range(least="150m"),
            ["1m 1m"] * 3,
            ["4m", "21m", "90m"],
            ["6m 6m", "28m 28m", "118m 118m"],
        ),
        "rounded down": (
            pod_range(most="80m"),
            ["1m 1m"] * 3,
            ["4m", "21m", "90m"],
            ["2m 2m", "14m 14m", "62m 62m"],
        ),
        "limits meet Max": (
            pod_range(most="600m/1Gi"),
            ["100m/100Mi 150m/200Mi"] * 2,
            ["250m/200Mi"] * 2,
            ["200m/200Mi 300m/400Mi"] * 2,
        ),
        "requests meet Min": (
            pod_range(least="100m/500Mi"),
            ["100m/200Mi 150m/400Mi"] * 2,
            ["120m/100Mi"] * 2,
            ["120m/250Mi 180m/500Mi"] * 2,
        ),
        "memory down": (
            pod_range(most="/1Gi"),
            ["/50M /50M"] * 2,
            ["/1Gi", "/2Gi"],
            ["/357913941 /357913941", "/715827882 /715827882"],
        ),
        "memory up": (
            pod_range(least="/4Gi"),
            ["/50M /50M"] * 2,
            ["/1Gi", "/2Gi"],
            ["/1431655765 /1431655765", "/2863311530 /2863311530"],
        ),
        "what is not recommended grows too": (
            pod_range(least="/500M"),
            ["1/50M 1/100M", "1/50M 1/100M"],
            ["1/200M", ""],
            ["1/400M 1/800M", "1/100M 1/200M"],
        ),
        "nothing is made zero": (
            pod_range(most="500m"),
            ["100m 200m", "100m 200m"],
            ["400m", "/1Gi"],
            ["250m 500m", "100m/1Gi 200m"],
        ),
        "within": (pod_range(least="1", most="2"), ["1m 2m"] * 2, ["500m", "500m"], ["500m 1"] * 2),
        "no limits": (pod_range(least="100m", most="2"), ["1m", "1m"], ["2", "2"], ["2 -"] * 2),
        "Min of requests comes first": (
            pod_range(least="3", most="2"),
            ["1 2"] * 2,
            ["1", "1"],
            ["1500m 3"] * 2,
        ),
        "limits below requests meet Min": (
            pod_range(least="300m"),
            ["100m 50m"] * 2,
            ["200m"] * 2,
            ["300m 150m"] * 2,
        ),
        "a usual limit counts": (
            pod_range(most="1", default="1"),
            ["500m", "500m"],
            ["1", "1"],
            ["250m -"] * 2,
        ),
        "nothing requested, nothing counted": (
            pod_range(most="1"),
            ["1 1", "- 1"],
            ["800m", ""],
            ["800m 800m", "- 1"],
        ),
        "what asks for nothing breaks nothing": (
            pod_range(most="1"),
            ["1 1", "-", "- 1"],
            ["2", "", ""],
            ["1 1", "- -", "- 1"],
        ),
    },
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
    amounts = found.verdict.containers[0].recommendation
    assert amounts is not None
    assert [(cap.resource, cap.by, str(cap.amount)) for cap in amounts.caps] == [
        ("cpu", "scaled to fit the LimitRange for pods", "500m")
    ]


BESIDE_ONE = make.pod_json(box("a", "1", "1"), box("off", "1", "1"))
BESIDE_NOTHING = make.pod_json(box("a", "1", "1"), box("off"))


@cases(
    "pod limits expected",
    {
        "room beside it": (BESIDE_ONE, pod_range(most="3"), ["2 2", "1 1"]),
        "takes its share": (BESIDE_ONE, pod_range(most="1500m"), ["500m 500m", "1 1"]),
        "leaves no room": (BESIDE_ONE, pod_range(most="1"), ["2 2", "1 1"]),
        "counts for Min": (BESIDE_ONE, pod_range(least="5"), ["4 4", "1 1"]),
        "asks for nothing": (BESIDE_NOTHING, pod_range(most="1"), ["1 1", "- -"]),
    },
)
def test_off_container(pod: Json, limits: Json, expected: list[str]) -> None:
    """A container in mode Off is never resized, and others fit beside it."""
    vpa = vpa_json(advice("a", "2"), advice("off", "9"), policies=[OFF])
    assert admit(pod, vpa, limits).containers == expected


@cases(
    "init expected",
    {
        "sidecar": ([sidecar("s", "1", "1")], "500m 500m"),
        "asks for nothing": ([sidecar("s")], "1500m 1500m"),
        "gone before the others start": ([box("s", "1", "1")], "1500m 1500m"),
    },
)
def test_sidecars_that_are_left_alone(init: list[Json], expected: str) -> None:
    """Sidecars take their share, and are left alone where a flag says so."""
    pod = make.pod_json(box("a", "1", "1"), init=init)
    vpa = vpa_json(advice("a", "2"), advice("s", "9"))
    found = admit(pod, vpa, pod_range(most="1500m"), native_sidecars=False)
    assert found.containers == [expected]
    assert found.pod["spec"]["initContainers"] == init


@cases(
    "limits policies expected sidecars",
    {
        "no bounds": (None, (), ["2 2"], ["3 3", "6 6"]),
        "all give way alike": (pod_range(most="4"), (), ["1 1"], ["3 3", "3 3"]),
        "one in mode Off takes its share": (
            pod_range(most="3"),
            (make.policy_json("s", mode="Off"),),
            ["2 2"],
            ["3 3", "1 1"],
        ),
        "its own LimitRange": (make.limit_range_json(most=two("4")), (), ["2 2"], ["3 3", "4 4"]),
        "its own policy": (
            None,
            (make.policy_json("s", max_allowed=two("5")),),
            ["2 2"],
            ["3 3", "5 5"],
        ),
    },
)
def test_sidecars(
    limits: Json | None, policies: Sequence[Json], expected: list[str], sidecars: list[str]
) -> None:
    """Sidecars are sized as containers are, other init containers never."""
    init = [box("i", "3", "3"), sidecar("s", "1", "1")]
    pod = make.pod_json(box("a", "1", "1"), init=init)
    recommended = advice("a", "2"), advice("s", "6"), advice("i", "9")
    vpa = vpa_json(*recommended, policies=policies)
    found = admit(pod, vpa, *([limits] if limits else []))
    assert (found.containers, found.sidecars) == (expected, sidecars)


@cases(
    "limits resources init sidecars",
    {
        "beside a container that starts later": (
            pod_range(most="4"),
            None,
            [sidecar("s", "1", "1"), box("i", "3", "3")],
            ["1 1", "3 3"],
        ),
        "beside one that is done by then": (
            pod_range(most="4"),
            None,
            [box("i", "3", "3"), sidecar("s", "1", "1")],
            ["3 3", "2 2"],
        ),
        "two beside one": (
            pod_range(most="6"),
            None,
            [sidecar("s", "1", "1"), sidecar("t", "1", "1"), box("i", "3", "3")],
            ["1500m 1500m", "1500m 1500m", "3 3"],
        ),
        "no room anyway": (
            pod_range(most="2"),
            None,
            [sidecar("s", "1", "1"), box("i", "3", "3")],
            ["1333m 1333m", "3 3"],
        ),
        "within the pod's own": (
            None,
            {"requests": two("4")},
            [sidecar("s", "1", "1"), box("i", "3", "3")],
            ["1 1", "3 3"],
        ),
    },
)
def test_sidecars_beside_init_containers(
    limits: Json | None, resources: Json | None, init: list[Json], sidecars: list[str]
) -> None:
    """A sidecar runs beside the init containers behind it, and has to fit beside them as well."""
    spec = {} if resources is None else {"resources": resources}
    pod = make.pod_json(box("a", "1", "1"), init=init, spec=spec)
    vpa = vpa_json(advice("a", "1"), advice("s", "2"), advice("t", "2"))
    assert admit(pod, vpa, *([limits] if limits else [])).sidecars == sidecars


@cases(
    "limits has expected",
    {
        "its limit does not grow": (pod_range(most="2"), "100m 1", "400m 1"),
        "others give way": (pod_range(most="1500m"), "100m 1", "400m 1"),
        "its request meets Min": (pod_range(least="1"), "100m 1", "500m 1"),
        "it has no limit": (pod_range(most="2"), "100m", "400m -"),
        "its request gives way then": (pod_range(most="400m"), "100m", "200m -"),
    },
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
    """Bounds beyond Max, beside a container without any, are scaled like the target."""
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


@cases(
    "pod_has has targets policy expected",
    {
        "no limit above the pod's": ("/ 2", ["1 1"], ["3"], {}, ["2 2"]),
        "in proportion": ("/ 2", ["1 4"], ["3"], {}, ["500m 2"]),
        "nor a request": ("/ 2", ["1"], ["3"], {}, ["2 -"]),
        "a limit that stays": ("/ 2", ["1 3"], ["3"], {"values": "RequestsOnly"}, ["2 3"]),
        "each for itself": ("/ 2", ["1 1", "1 1"], ["3", ""], {}, ["2 2", "1 1"]),
        "requests together": ("3 4", ["1", "1"], ["2", "4"], {}, ["1 -", "2 -"]),
        "they fit": ("3 4", ["1", "1"], ["2", ""], {}, ["2 -", "1 -"]),
        "others stay": ("3 4", ["1", "1"], ["4", ""], {}, ["2 -", "1 -"]),
        "memory alone is limited": ("/1Gi /1Gi", ["1/1Mi"], ["2/2Gi"], {}, ["2/1Gi -"]),
        "cpu is not recommended": ("3 4", ["1"], ["/1Gi"], {}, ["1/1Gi -"]),
    },
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
