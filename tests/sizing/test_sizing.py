"""Recommendations pass all caps in order, and limits follow."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, reject, settings

from app.model.fields import Json
from app.model.limits import NO_LIMITS
from app.model.pods import Pod, read_pod
from app.model.quantity import Quantity
from app.model.vpa import Vpa, read_vpa
from app.sizing.sizing import CappedRecommendation, capped, sizes
from tests import make
from tests.admission.core.oracle import Upstream, UpstreamFails
from tests.admission.core.worlds import World, worlds
from tests.cases import cases
from tests.sizing.shorthand import admit, advice, box, two, vpa_json

NO_MEMORY_LIMIT = "memory: limit NOT set since originalLimit is nil or 0"
NO_MEMORY_TARGET = "memory: limit NOT set since recommendedRequest is nil or 0"
CUT = "failed to keep limit to request ratio; capping limit to int64"
REQUESTS, BOTH = (
    "cpu request, memory request",
    "cpu request, memory request, cpu limit, memory limit",
)


@cases(
    "has target expected notes",
    {
        "in proportion": ("100m/100Mi 150m/200Mi", "250m/200Mi", "250m/200Mi 375m/400Mi", BOTH),
        "no request, as if equal": ("- 2/200Mi", "2/200Mi", "2/200Mi 2/200Mi", BOTH),
        "no memory limit": (
            "100m/100Mi 300m",
            "250m/200Mi",
            "250m/200Mi 750m",
            f"{NO_MEMORY_LIMIT}, {REQUESTS}, cpu limit",
        ),
        "no memory recommended": (
            "200m/128Mi 400m/256Mi",
            "500m",
            "500m/128Mi 1/256Mi",
            f"{NO_MEMORY_TARGET}, cpu request, cpu limit",
        ),
        "no limits": ("100m/100Mi", "250m/200Mi", "250m/200Mi -", REQUESTS),
        "cut off at int64": (
            "1/100Mi 10/1000Mi",
            "1Ei/1Ei",
            "1Ei/1Ei 9223372036854775807m/9223372036854775807",
            f"cpu: {CUT}, memory: {CUT}, {BOTH}",
        ),
        "a limit of zero is left alone": ("100m 0", "250m", "250m 0", "cpu request"),
        "zero is recommended": ("100m/100Mi 200m/200Mi", "0/0", "0/0 200m/200Mi", REQUESTS),
        "odd spellings": ("+100m/0100Mi", "0250m/1024Mi", "0250m/1Gi -", REQUESTS),
    },
)
def test_limits_in_proportion(has: str, target: str, expected: str, notes: str) -> None:
    """The recommendation becomes the request and the limit keeps its ratio."""
    found = admit(make.pod_json(box("app", *has.split())), vpa_json(advice("app", target)))
    assert found.containers == [expected]
    assert found.told == f"container 0: {notes}"


def bounds(least: str, most: str) -> Json:
    """Return the bounds of a policy."""
    return {"min_allowed": two(least), "max_allowed": two(most)}


def capped_to(bound: str) -> str:
    """Return what is told of cpu and memory that were capped."""
    return f"cpu capped to {bound}, memory capped to {bound}, {REQUESTS}"


ONLY: Json = {"values": "RequestsOnly"}
BOUNDS = bounds("4/300Mi", "5/1Gi")


@cases(
    "has target policy expected notes",
    {
        "a limit that stays": ("1/100Mi 2/200Mi", "2/200Mi", ONLY, "2/200Mi 2/200Mi", REQUESTS),
        "and holds the request": (
            "1/100Mi 2/200Mi",
            "3/500Mi",
            ONLY,
            "2/200Mi 2/200Mi",
            capped_to("container limit"),
        ),
        "below minAllowed": ("1/100Mi", "3/150Mi", BOUNDS, "4/300Mi -", capped_to("minAllowed")),
        "above maxAllowed": ("1/100Mi", "7/2Gi", BOUNDS, "5/1Gi -", capped_to("maxAllowed")),
        "the maximum wins": (
            "100m",
            "50m",
            bounds("2", "1"),
            "1 -",
            "cpu capped to minAllowed, cpu capped to maxAllowed, cpu request",
        ),
        "bounds of zero are none": ("100m", "50m", bounds("0", "0"), "50m -", "cpu request"),
        "equal is not capped": ("100m", "0.05", bounds("50m", "5e-2"), "50m -", "cpu request"),
        "negative": ("100m", "50m", bounds("", "-1"), "50m -", "cpu request"),
        "a zero limit": (
            "1 0",
            "50m",
            ONLY,
            "0 0",
            "cpu capped to container limit, cpu request",
        ),
        "unknown": ("1/1Gi 2/2Gi", "3/3Gi", {"values": "Other"}, "3/3Gi 2/2Gi", REQUESTS),
        "beyond int64": ("/1Gi /1Pi", "/8Ei", ONLY, "/9223372036854775807 /1Pi", "memory request"),
    },
)
def test_policy(has: str, target: str, policy: Json, expected: str, notes: str) -> None:
    """The policy bounds requests, and RequestsOnly keeps them below the limit."""
    vpa = vpa_json(advice("app", target), policies=[make.policy_json(**policy)])
    found = admit(make.pod_json(box("app", *has.split())), vpa)
    assert found.containers == [expected]
    assert found.told == f"container 0: {notes}"


def test_other_resources() -> None:
    """What is recommended beside cpu and memory is capped and written too, but has no limit."""
    vpa = vpa_json(
        {"containerName": "app", "target": {"z": "3", "example.com/gpu": "3", "": "1"}},
        policies=[make.policy_json(max_allowed={"z": "2"}, values="RequestsOnly")],
    )
    pod = make.pod_json(make.container_json("app", resources={"limits": {"example.com/gpu": "1"}}))
    found = admit(pod, vpa)
    assert found.pod["spec"]["containers"][0]["resources"] == {
        "requests": {"example.com/gpu": "1", "z": "2"},
        "limits": {"example.com/gpu": "1"},
    }
    assert found.told == (
        "container 0: z capped to maxAllowed, example.com/gpu capped to container limit, "
        "example.com/gpu request, z request"
    )


# --- as the updater sees it


def limited(pod: Pod, vpa: Vpa, *ranges: Json) -> dict[str, CappedRecommendation]:
    """Return the recommendations after caps, from what the spec says."""
    limits = make.snapshot(*ranges).of("default").limits
    current = {container.name: container.resources for container in pod.containers}
    return capped(pod, vpa, limits, current)


def words(found: CappedRecommendation) -> list[str]:
    """Return lower bound, target and upper bound of the cpu."""
    lists = (found.lower_bound, found.target, found.upper_bound)
    return [str(amounts.get("cpu", "-")) for amounts in lists]


def test_bounds_in_order() -> None:
    """Bounds that lie on the wrong side of the target are pulled to it."""
    advice_ = make.recommendation_json(cpu="200m", lower=two("300m"), upper=two("100m"))
    vpa = make.vpa(recommendations=[advice_])
    assert words(limited(make.pod(cpu="1"), vpa)["app"]) == ["200m", "200m", "200m"]


def test_bounds_are_capped_alike() -> None:
    """Bounds pass the same caps as the target, but only the target's are told of."""
    advice_ = make.recommendation_json(cpu="200m", lower=two("100m/1"), upper=two("300m"))
    policy = make.policy_json(min_allowed=two("150m"), max_allowed=two("250m"))
    vpa = make.vpa(recommendations=[advice_], policies=[policy])
    found = limited(make.pod(cpu="1"), vpa)["app"]
    assert words(found) == ["150m", "200m", "250m"]
    assert found.notes == ()
    assert found.lower_bound["memory"] == make.quantity("1")


def test_bounds_only_if_wanted() -> None:
    """Admission asks for targets alone."""
    advice_ = make.recommendation_json(cpu="200m", lower=two("100m"), upper=two("300m"))
    pod = make.pod()
    current = {"app": pod.containers[0].resources}
    vpa = make.vpa(recommendations=[advice_])
    found = capped(pod, vpa, NO_LIMITS, current, with_bounds=False)["app"]
    assert words(found) == ["-", "200m", "-"]


def test_nothing_recommended() -> None:
    """Without a recommendation there is nothing to cap, whatever the policy says."""
    vpa = make.vpa(policies=[make.policy_json(min_allowed=two("1"))])
    assert limited(make.pod(cpu="100m"), vpa) == {}


def test_what_was_recommended_is_kept() -> None:
    """The amounts know what they were before the caps, and what changed them."""
    vpa = make.vpa(cpu="3", policies=[make.policy_json(max_allowed=two("2"))])
    found = limited(make.pod(cpu="1"), vpa)["app"]
    assert found.recommended == make.quantities(cpu="3")
    assert found.notes == ("cpu capped to maxAllowed",)
    assert found.is_own


def test_off_container_has_no_recommendation() -> None:
    """A container in mode Off is never sized, though its status may still recommend."""
    vpa = make.vpa(cpu="3", policies=[make.policy_json(mode="Off")])
    assert limited(make.pod(cpu="1"), vpa) == {}


def test_unchanged_room_is_not_written() -> None:
    """A container that only makes room and does not have to is left alone."""
    amounts = CappedRecommendation("app", make.quantities(cpu="1"), {}, {}, {}, (), is_own=False)
    pod = make.pod(cpu="1000m")
    found = sizes(amounts, pod.containers[0].resources, make.vpa(), NO_LIMITS)
    assert not found.requests


def texts(amounts: dict[str, Quantity]) -> dict[str, str]:
    """Return amounts as they are printed."""
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def upstreams_caps(world: World) -> tuple[dict[str, Json], dict[str, list[str]]]:
    """Return upstream's amounts and notes by container, where it shows no fault that we mended."""
    plain = Upstream(world.pod, world.vpa, world.ranges)
    try:
        plain.patch()
    except UpstreamFails:
        reject()
    assume(not plain.mended)
    return {entry["name"]: entry for entry in plain.capped()}, plain.notes


@settings(
    deadline=None,
    max_examples=400,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(worlds(odd=True))
def test_caps_are_upstreams(world: World) -> None:
    """Every cap is upstream's, to the spelling and the note, but bounds keep their order."""
    expected, notes = upstreams_caps(world)
    found = limited(read_pod(world.pod), read_vpa(world.vpa), *world.ranges)
    assert found.keys() == expected.keys()
    for name, amounts in found.items():
        target, lower, upper = (expected[name][w] for w in ("target", "lowerBound", "upperBound"))
        lower |= {key: min(lower[key], target[key]) for key in lower.keys() & target}
        upper |= {key: max(upper[key], target[key]) for key in upper.keys() & target}
        assert texts(dict(amounts.target)) == texts(target)
        assert texts(dict(amounts.lower_bound)) == texts(lower)
        assert texts(dict(amounts.upper_bound)) == texts(upper)
        assert list(amounts.notes) == notes.get(name, [])
