"""A pod in, a patch out: the whole way through matching, sizing, boosting and patching."""

from __future__ import annotations

from base64 import b64decode
from typing import cast

import orjson
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from app.admission.core.mutate import PodAdmission, PodRules, PodVerdict
from app.admission.core.pod_explanation import explain
from app.admission.responses import pod_response
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.patches import apply
from app.model.review import read_review
from app.model.workloads import NOTHING_LOOKED_UP
from app.sizing.matching import LookupNeeded
from tests import make
from tests.admission.core.oracle import Upstream, UpstreamFails
from tests.admission.core.worlds import World, worlds
from tests.cases import cases
from tests.make import ALL_GATES
from tests.sizing.shorthand import admit, advice, box, sidecar, two, vpa_json

HAMSTER = box("hamster", "100m/100Mi")
TOLD = "/metadata/annotations/vpaUpdates Pod resources updated by v: "
TOLD_OF_CPU = (
    f"{TOLD}container 0: memory: limit NOT set since originalLimit is nil or 0, "
    "cpu request, cpu limit"
)
OBSERVED = "/metadata/annotations/vpaObservedContainers"
EMPTY = make.pod_json(spec={"containers": None}, annotations={})
FIRST = "/spec/containers/0/resources"
NO_ANNOTATIONS = "/metadata/annotations {}"


def annotated(*containers: Json) -> Json:
    """Return a pod that has annotations, though none of ours."""
    return make.pod_json(*containers, annotations={})


def bare(name: str) -> Json:
    """Return a container without resources."""
    return {"name": name}


@cases(
    "pod vpa expected",
    {
        "requests of an ordinary pod": (
            make.pod_json(HAMSTER),
            vpa_json(advice("hamster", "250m/200Mi")),
            [
                NO_ANNOTATIONS,
                f"{FIRST}/requests/cpu 250m",
                f"{FIRST}/requests/memory 200Mi",
                TOLD + "container 0: cpu request, memory request",
                f"{OBSERVED} hamster",
            ],
        ),
        "annotations are there": (
            annotated(HAMSTER),
            vpa_json(advice("hamster", "250m/200Mi")),
            [
                f"{FIRST}/requests/cpu 250m",
                f"{FIRST}/requests/memory 200Mi",
                TOLD + "container 0: cpu request, memory request",
                f"{OBSERVED} hamster",
            ],
        ),
        "no resources": (
            make.pod_json(bare("app")),
            vpa_json(advice("app", "1")),
            [
                NO_ANNOTATIONS,
                f"{FIRST} {{}}",
                f"{FIRST}/requests {{}}",
                f"{FIRST}/requests/cpu 1",
                TOLD + "container 0: cpu request",
                f"{OBSERVED} app",
            ],
        ),
        "cpu and memory first, others by name": (
            annotated(bare("app")),
            vpa_json(
                {
                    "containerName": "app",
                    "target": dict.fromkeys(("z", "memory", "a/b", "cpu"), "1"),
                }
            ),
            [
                f"{FIRST} {{}}",
                f"{FIRST}/requests {{}}",
                f"{FIRST}/requests/cpu 1",
                f"{FIRST}/requests/memory 1",
                f"{FIRST}/requests/a~1b 1",
                f"{FIRST}/requests/z 1",
                TOLD + "container 0: cpu request, memory request, a/b request, z request",
                f"{OBSERVED} app",
            ],
        ),
        "two containers": (
            annotated(box("a", "0"), bare("b")),
            vpa_json(advice("a", "1"), advice("b", "2")),
            [
                f"{FIRST}/requests/cpu 1",
                "/spec/containers/1/resources {}",
                "/spec/containers/1/resources/requests {}",
                "/spec/containers/1/resources/requests/cpu 2",
                TOLD + "container 0: cpu request; container 1: cpu request",
                f"{OBSERVED} a, b",
            ],
        ),
        "nothing recommended": (annotated(box("app", "100m")), vpa_json(), [f"{OBSERVED} app"]),
        "an empty recommendation": (
            annotated(bare("app")),
            make.vpa_json("v", status={"recommendation": {}}),
            [f"{OBSERVED} app"],
        ),
        "a recommendation without a target": (
            annotated(bare("app")),
            vpa_json({"containerName": "app"}),
            [f"{OBSERVED} app"],
        ),
        "no containers": (EMPTY, vpa_json(), [f"{OBSERVED} "]),
        "what does not change is written too": (
            annotated(box("app", "", "1")),
            vpa_json(advice("app", "1")),
            [
                f"{FIRST}/requests/cpu 1",
                f"{FIRST}/limits/cpu 1",
                TOLD_OF_CPU,
                f"{OBSERVED} app",
            ],
        ),
        "only one map is missing": (
            annotated({"name": "app", "resources": {"limits": {"cpu": 1}, "requests": None}}),
            vpa_json(advice("app", "1")),
            [
                f"{FIRST}/requests {{}}",
                f"{FIRST}/requests/cpu 1",
                f"{FIRST}/limits/cpu 1",
                TOLD_OF_CPU,
                f"{OBSERVED} app",
            ],
        ),
    },
)
def test_patch(pod: Json, vpa: Json, expected: list[str]) -> None:
    """The operations come in a fixed order and create only what is missing."""
    assert admit(pod, vpa).changes == expected


@cases(
    "recommendations expected",
    {
        "each gets its own": (
            [advice("removed", "500m/500Mi"), advice("hamster", "250m/200Mi")],
            ["250m/200Mi -", "100m/100Mi -"],
        ),
        "only the second": ([advice("other", "1/1Gi")], ["100m/100Mi -", "1/1Gi -"]),
    },
)
def test_each_for_itself(recommendations: list[Json], expected: list[str]) -> None:
    """A container without a recommendation is left alone."""
    pod = make.pod_json(HAMSTER, box("other", "100m/100Mi"))
    assert admit(pod, vpa_json(*recommendations)).containers == expected


def test_unmatched() -> None:
    """A pod that no VPA controls is not touched at all."""
    found = admit(
        make.pod_json(HAMSTER, owner="StatefulSet/other"),
        vpa_json(),
        owners=[make.workload_json("StatefulSet/other")],
    )
    assert found.patch == []
    assert found.verdict.sizes is None
    assert found.verdict.reason == "NoVPAForOwner"


FORGED = {"vpaCpuStartupBoost/hamster": "{}", "vpaCpuUnboostPending/a~1": "", "vpaOther/a": "x"}
BOOST = make.boost_json(factor=2)


@cases(
    "vpa target gate kept",
    {
        "no VPA sizes it": (vpa_json(), "other", True, ["vpaOther/a"]),
        "it is sized": (vpa_json(advice("hamster", "1")), "web", True, ["vpaOther/a"]),
        "it is boosted": (
            vpa_json(boost=BOOST),
            "web",
            True,
            ["vpaCpuStartupBoost/hamster", "vpaOther/a"],
        ),
        "gate off": (vpa_json(), "web", False, list(FORGED)),
        "gate off, no VPA sizes it": (vpa_json(), "other", False, list(FORGED)),
    },
)
def test_marks_of_a_boost_are_ours(vpa: Json, target: str, gate: bool, kept: list[str]) -> None:
    """Annotations of a boost that a pod brings along go, in whatever comes over the wire."""
    pod = make.pod_json(HAMSTER, owner=f"StatefulSet/{target}", annotations=FORGED)
    owners = [make.workload_json(f"StatefulSet/{target}")]
    found = admit(pod, vpa, owners=owners, gate=gate)
    left = found.annotations
    assert [key for key in left if "/" in key] == kept
    assert left.get("vpaCpuStartupBoost/hamster") != "{}" or not gate
    response = pod_response("u", found.verdict)
    sent = orjson.loads(b64decode(response["patch"])) if "patch" in response else []
    assert sent == found.patch
    assert response.get("patchType") == ("JSONPatch" if sent else None)


def test_marks_are_remembered_apart() -> None:
    """Of pods that differ in such annotations alone each loses its own."""
    admission = PodAdmission(PodRules(ALL_GATES))
    view = make.snapshot(make.vpa(cpu="250m"), make.workload()).of("default")
    for marks in ({}, {"vpaCpuStartupBoost/a": ""}, {}, {"vpaCpuUnboostPending/b": ""}):
        request = read_review(make.review_json(make.pod_json(annotations=marks)))
        found = admission.admit(request, view, NOTHING_LOOKED_UP)
        assert isinstance(found, PodVerdict)
        removed = [item["path"] for item in found.patch if item["op"] == "remove"]
        assert removed == [f"/metadata/annotations/{key.replace('/', '~1')}" for key in marks]


def test_claims_are_kept() -> None:
    """What else stands in `resources` stays."""
    claims = [{"name": "gpu"}]
    pod = make.pod_json({"name": "app", "resources": {"claims": claims}}, annotations={})
    found = admit(pod, vpa_json(advice("app", "1")))
    assert found.changes[:2] == [
        f"{FIRST}/requests {{}}",
        f"{FIRST}/requests/cpu 1",
    ]
    resources = found.pod["spec"]["containers"][0]["resources"]
    assert resources == {"claims": claims, "requests": {"cpu": "1"}}


def test_status_is_not_trusted() -> None:
    """What a client claims about running containers changes nothing, be it garbage."""
    status = {"containerStatuses": [{"name": "hamster", "resources": {"limits": {"cpu": "9"}}}]}
    vpa = vpa_json(advice("hamster", "250m/200Mi"))
    honest = admit(make.pod_json(HAMSTER), vpa)
    assert admit(make.pod_json(HAMSTER, status=status), vpa).patch == honest.patch
    assert admit(make.pod_json(HAMSTER, status={"phase": 7}), vpa).patch == honest.patch


@pytest.mark.parametrize(
    "mode", ["Initial", "Recreate", "Auto", "InPlace", "UpscaleOnly", "", None]
)
def test_modes(mode: str | None) -> None:
    """Every mode but Off applies the recommendation, up and down."""
    vpa = make.vpa_json("v", cpu="50m", spec={"updatePolicy": {"updateMode": mode}})
    assert admit(make.pod_json(box("app", "100m")), vpa).containers == ["50m -"]


VERSION_2 = {"group": "", "version": "v2", "resource": "pods"}
WRONG_SHAPE = make.pod_json({"name": "a", "resources": {"requests": 1}})


@cases(
    "request_ reason",
    {
        "an update": ({"operation": "UPDATE"}, "NotACreation"),
        "a subresource": ({"subResource": "eviction"}, "NotACreation"),
        "another version": ({"resource": VERSION_2}, "UnknownVersion"),
        "no object": ({"object": "x"}, "UnreadablePod"),
        "the wrong shape": ({"object": WRONG_SHAPE}, "UnreadablePod"),
        "nothing": ({"object": None}, "UnreadablePod"),
        "written by hand": ({"operation": ""}, "Sized"),
    },
)
def test_reviews(request_: Json, reason: str) -> None:
    """Only the creation of a readable pod is decided about, and the reason is told."""
    view = make.snapshot(make.vpa_json(cpu="1"), make.workload_json()).of("default")
    review = make.review_json(make.pod_json())
    review["request"] |= request_
    verdict = PodAdmission(PodRules()).admit(read_review(review), view, NOTHING_LOOKED_UP)
    assert isinstance(verdict, PodVerdict)
    assert verdict.reason == reason
    assert bool(verdict.patch) == (reason == "Sized")


@cases(
    "vpa gate reason",
    {
        "a request": (make.vpa_json(cpu="1"), True, "Sized"),
        "a boost": (make.vpa_json(boost=make.boost_json(factor=2)), True, "Sized"),
        "nothing": (make.vpa_json(), True, "NoRecommendation"),
        "gate off": (make.vpa_json(boost=make.boost_json(factor=2)), False, "NoRecommendation"),
    },
)
def test_reason(vpa: Json, gate: bool, reason: str) -> None:
    """The verdict says whether anything was sized."""
    assert admit(make.pod_json(box("app", "1")), vpa, gate=gate).verdict.reason == reason


def test_look_up() -> None:
    """What must be looked up first is handed back."""
    view = make.snapshot(make.vpa_json()).of("default")
    assert isinstance(
        PodAdmission(PodRules()).admit(make.review(), view, NOTHING_LOOKED_UP), LookupNeeded
    )


def test_sidecars() -> None:
    """A native sidecar is patched where it stands, and told of as an init container."""
    init = [box("setup", "1"), sidecar("proxy", "10m")]
    pod = make.pod_json(box("app", "100m"), init=init, annotations={})
    recommended = advice("app", "200m"), advice("proxy", "50m"), advice("setup", "9")
    vpa = vpa_json(*recommended, boost=make.boost_json(factor=2))
    assert admit(pod, vpa).changes == [
        '/metadata/annotations/vpaCpuStartupBoost~1app {"requests":{"cpu":"100m"},"limits":{}}',
        "/spec/containers/0/resources/requests/cpu 400m",
        '/metadata/annotations/vpaCpuStartupBoost~1proxy {"requests":{"cpu":"10m"},"limits":{}}',
        "/spec/initContainers/1/resources/requests/cpu 100m",
        "/metadata/annotations/vpaUpdates Pod resources updated by v: container 0: cpu request; "
        "init container 1: cpu request",
        "/metadata/annotations/vpaObservedContainers app, proxy",
    ]


def test_sidecars_that_are_left_alone() -> None:
    """Where a flag says so, a native sidecar is neither sized nor said to have been observed."""
    init = [sidecar("proxy", "10m")]
    pod = make.pod_json(box("app", "100m"), init=init)
    vpa = vpa_json(advice("app", "200m"), advice("proxy", "50m"))
    found = admit(pod, vpa, native_sidecars=False)
    assert found.pod["spec"]["initContainers"] == init
    assert found.annotations["vpaObservedContainers"] == "app"
    assert [one["name"] for one in explain(found.verdict)["containers"]] == ["app"]


# --- whatever comes


def untouched(pod: Json) -> Json:
    """Return what a patch must leave alone."""
    sized = {
        section: [
            {key: value for key, value in container.items() if key != "resources"}
            | {
                "other": {
                    k: v
                    for k, v in (container.get("resources") or {}).items()
                    if k not in ("requests", "limits")
                }
            }
            for container in pod["spec"].get(section, ())
        ]
        for section in ("containers", "initContainers")
    }
    annotations = {
        key: value
        for key, value in (pod["metadata"].get("annotations") or {}).items()
        if not key.startswith(("vpaUpdates", "vpaObservedContainers", "vpaCpuStartupBoost/"))
    }
    return pod | {
        "metadata": pod["metadata"] | {"annotations": annotations},
        "spec": pod["spec"] | sized,
    }


EVERYTHING = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])


@EVERYTHING
@given(worlds(odd=True), st.booleans(), st.booleans())
def test_only_resources_change(world: World, has_claims: bool, has_sidecar: bool) -> None:
    """The patch applies to its pod and touches nothing but resources and our annotations."""
    pod = world.pod
    if has_claims:
        for container in pod["spec"]["containers"]:
            if container.get("resources") is not None:
                container["resources"]["claims"] = [{"name": "gpu"}]
    if has_sidecar:
        pod["spec"]["initContainers"] = [box("s", "1/1Gi", "2/2Gi") | {"restartPolicy": "Always"}]
        pod["spec"]["resources"] = {"requests": two("3/3Gi"), "limits": two("4/4Gi")}
    before = orjson.dumps(pod)
    after = apply(pod, world.admit().patch)
    assert orjson.dumps(pod) == before
    assert untouched(after) == untouched(pod)


@EVERYTHING
@given(worlds(odd=True))
def test_nothing_without_vpa(world: World) -> None:
    """A pod that the VPAs of its namespace do not mean is left as it is, LimitRanges or not."""
    stranger = world.pod | {"metadata": world.pod["metadata"] | {"labels": {"app": "other"}}}
    assert World(stranger, world.vpa, world.ranges, world.gate, world.flag).admit().patch == ()


@EVERYTHING
@given(worlds(odd=True))
def test_equal_bytes(world: World) -> None:
    """Equal input gives equal bytes, whatever the order of members and of objects."""
    pod, vpa = cast("Json", reordered(world.pod)), cast("Json", reordered(world.vpa))
    again = World(pod, vpa, world.ranges[::-1], world.gate, world.flag)
    assert orjson.dumps(world.admit().patch) == orjson.dumps(again.admit().patch)


def reordered(json: object) -> object:
    """Return equal JSON with the members of all objects turned round."""
    if isinstance(json, dict):
        return {key: reordered(json[key]) for key in reversed(json)}
    return [reordered(item) for item in json] if isinstance(json, list) else json


@EVERYTHING
@given(worlds())
def test_upstream(world: World) -> None:
    """Where upstream shows no fault that we have mended, the patch is upstream's to the byte."""
    plain = Upstream(world.pod, world.vpa, world.ranges, gate=world.gate, flag=world.flag)
    verdict = world.admit()
    assume(verdict.sizes is not None)
    try:
        expected = plain.patch()
    except UpstreamFails:
        expected = None
    assume(expected is not None and not plain.mended)
    assert verdict.patch == expected


DIGITS = st.text("0123456789.", max_size=30)
SUFFIXES = st.sampled_from(
    ("", "m", "n", "k", "Ki", "Gi", "E", "Ei", "e5", "e-9", "E999999999", "x")
)
ODD = st.one_of(
    st.builds(str.__add__, DIGITS, SUFFIXES),
    st.builds(lambda sign, digits: sign + digits, st.sampled_from("+-"), DIGITS),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none(),
)


@EVERYTHING
@given(has=st.tuples(ODD, ODD, ODD, ODD), wants=st.tuples(ODD, ODD), bounds=st.tuples(ODD, ODD))
def test_odd_quantities(
    has: tuple[object, ...], wants: tuple[object, ...], bounds: tuple[object, ...]
) -> None:
    """No number is too odd: it is read, or its pod or VPA is left aside."""
    pairs = [
        {"cpu": cpu, "memory": memory} for cpu, memory in zip(has[::2], has[1::2], strict=True)
    ]
    pod = make.pod_json(
        {"name": "app", "resources": dict(zip(("requests", "limits"), pairs, strict=True))}
    )
    policy = make.policy_json(minAllowed={"cpu": bounds[0]}, maxAllowed={"memory": bounds[1]})
    target = {"containerName": "app", "target": dict(zip(("cpu", "memory"), wants, strict=True))}
    try:
        found = admit(pod, vpa_json(target, policies=[policy], boost=make.boost_json(factor=3)))
    except BadObject:
        return
    assert found.verdict.reason in ("Sized", "UnreadablePod")


def test_many_containers() -> None:
    """Ten thousand containers are sized like one."""
    names = [f"c{index}" for index in range(10_000)]
    pod = make.pod_json(*(box(name, "100m/1Mi", "200m/2Mi") for name in names))
    vpa = vpa_json(
        *(advice(name, "300m/2Mi") for name in names[::2]), boost=make.boost_json(factor=2)
    )
    view = make.snapshot(vpa, make.workload_json()).of("default")
    request = read_review(make.review_json(pod))
    verdict = PodAdmission(PodRules(ALL_GATES)).admit(request, view, NOTHING_LOOKED_UP)
    assert isinstance(verdict, PodVerdict)
    assert len(verdict.patch) == 5_000 * 5 + 5_000 * 3 + 3


def test_names_twice() -> None:
    """Containers of one name, which an API server refuses later, get the same."""
    pod = make.pod_json(box("a", "1", "1"), box("a", "1", "1"), box("b", "1", "1"))
    limits = make.limit_range_json(make.limits_json("Pod", most=two("5")))
    found = admit(pod, vpa_json(advice("a", "2"), boost=make.boost_json(factor=2)), limits)
    assert found.containers[0] == found.containers[1]


def test_foreign_annotations() -> None:
    """Whatever keys others use, they stay, and paths are escaped."""
    key = "custom~domain.com/annotation/name"
    pod = make.pod_json(box("app", "1"), annotations={key: "x"})
    assert admit(pod, vpa_json(boost=make.boost_json(factor=2))).annotations == {
        key: "x",
        "vpaCpuStartupBoost/app": '{"requests":{"cpu":"1"},"limits":{}}',
        "vpaUpdates": "Pod resources updated by v: container 0: cpu request",
        "vpaObservedContainers": "app",
    }
