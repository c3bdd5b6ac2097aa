"""What is found to be wrong with VPAs that somebody wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.admission.core.overlap import Disjointness
from app.diagnosis.core.facts import Finding, Level
from app.diagnosis.core.vpa_problems import WrittenObjects, vpa_problems, vpa_schemas
from app.kube.manifests import documents
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.snapshot import Replacement, Snapshot, replacement
from app.model.workloads import Failed, scaled_workload
from tests import make
from tests.cases import cases
from tests.junk import objects_like

SCHEMAS = vpa_schemas(documents.objects("crd"))
TEMPLATE = [make.container_json("app", cpu="1"), make.container_json("sidecar", cpu="1")]
WEB = make.workload_json("Deployment/web", containers=TEMPLATE)
FINE = make.vpa_json(target="Deployment/web")
POLICIES = "spec.resourcePolicy.containerPolicies[0]"


def written(*items: Json) -> WrittenObjects:
    """Return objects with what is known of them."""
    changes: list[Replacement] = []
    for item in items:
        try:
            change = replacement(item)
        except BadObject:  # which is judged as it was written
            continue
        if change is not None:
            changes.append(change)
    vpas = [item for item in items if item.get("kind") == "VerticalPodAutoscaler"]
    return WrittenObjects(Snapshot().changed(changes), vpas, schemas=SCHEMAS)


def problems(*items: Json) -> list[tuple[Level, str]]:
    """Return level and sentence of each finding."""
    return [(one.level, one.sentence) for _, one in vpa_problems(written(*items))]


def vpa(**policy: object) -> Json:
    """Return a VPA with one policy."""
    given = make.policy_json(**policy)  # type: ignore[arg-type]
    return make.vpa_json(target="Deployment/web", policies=[given])


def hpa(*metrics: Json, target: str = "Deployment/web", **more: str) -> Json:
    """Return a HorizontalPodAutoscaler."""
    return make.hpa_json(*metrics, target=target, **more)  # type: ignore[arg-type]


@cases(
    "item level start",
    {
        "a field that does not exist": (
            make.with_value(FINE, "spec.updatePolicy", {"minReplica": 2}),
            Level.SERIOUS,
            'spec.updatePolicy.minReplica: unknown field "minReplica"; did you mean "minReplicas"?',
        ),
        "a field in a list that does not exist": (
            make.with_value(vpa(container="app"), f"{POLICIES}.max", {"cpu": 1}),
            Level.SERIOUS,
            f'{POLICIES}.max: unknown field "max"',
        ),
        "a mode that does not exist": (
            make.vpa_json(target="Deployment/web", mode="Sometimes"),
            Level.SERIOUS,
            'spec.updatePolicy.updateMode: Unsupported value: "Sometimes"',
        ),
        "what the schema alone refuses": (
            make.vpa_json(target="Deployment/web", spec={"recommenders": "x"}),
            Level.SERIOUS,
            "spec.recommenders: ",
        ),
        "what the webhook alone refuses": (
            vpa(container="app", min_allowed={"cpu": "2"}, max_allowed={"cpu": "1"}),
            Level.SERIOUS,
            f'{POLICIES}.maxAllowed[cpu]: Invalid value: "1": maxAllowed is below minAllowed',
        ),
        "what the webhook warns of": (
            make.vpa_json(target="Deployment/web", mode="Auto"),
            Level.WARNING,
            'spec.updatePolicy: updateMode "Auto" is deprecated',
        ),
        "what cannot be read": (
            make.with_value(FINE, "spec.targetRef", "web"),
            Level.SERIOUS,
            "spec.targetRef: ",
        ),
        "a version that is not served": (
            FINE | {"apiVersion": "autoscaling.k8s.io/v2"},
            Level.SERIOUS,
            'apiVersion: "autoscaling.k8s.io/v2" is not served, but autoscaling',
        ),
        "a target that does not exist": (
            make.vpa_json(target="Deployment/wbe"),
            Level.SERIOUS,
            "spec.targetRef: Deployment/wbe is not among the objects of namespace default; "
            'did you mean "Deployment/web"?',
        ),
        "a container that is misspelt": (
            vpa(container="ap"),
            Level.SERIOUS,
            f'{POLICIES}.containerName: no container of the target is called "ap"; '
            'did you mean "app"?',
        ),
        "a container that may be injected": (
            vpa(container="istio-proxy"),
            Level.WARNING,
            f'{POLICIES}.containerName: no container of the target is called "istio-proxy"; '
            "there are app, sidecar",
        ),
    },
)
def test_what_is_wrong_with_one(item: Json, level: Level, start: str) -> None:
    """The field is named, and what would be right; the most serious stands first."""
    (found, *_) = problems(WEB, item)
    assert (found[0], found[1][: len(start)]) == (level, start)


RIGHT = {
    "as it should be": [WEB, FINE],
    "a policy for each": [WEB, vpa(container="sidecar", mode="Off")],
    "a policy for all": [WEB, vpa(container="*")],
    "an injected container that is off": [WEB, vpa(container="istio-proxy", mode="Off")],
    "one that only a pod has": [
        WEB,
        make.pod_json(make.container_json("istio-proxy"), owner=None),
        vpa(container="istio-proxy"),
    ],
    "a status that is old": [WEB, FINE | {"status": {"conditions": []}}],
    "HPA of another workload": [
        WEB,
        FINE,
        hpa(make.metric_json("cpu", 80), target="Deployment/api"),
    ],
    "HPA by amounts": [WEB, FINE, hpa(make.metric_json("cpu", "70m"))],
    "HPA by other metrics": [WEB, FINE, hpa({"type": "External"})],
    "HPA on another resource": [
        WEB,
        vpa(container="*", controlledResources=["memory"]),
        hpa(make.metric_json("cpu", 80)),
    ],
    "HPA on a container that is off": [
        WEB,
        vpa(container="sidecar", mode="Off"),
        hpa(make.metric_json("cpu", 80, "sidecar")),
    ],
    "HPA beside a VPA that is off": [
        WEB,
        make.vpa_json(target="Deployment/web", mode="Off"),
        hpa(make.metric_json("cpu", 80)),
    ],
    "limits within those of the namespace": [
        WEB,
        vpa(container="app", min_allowed={"cpu": "1"}, max_allowed={"cpu": "2"}),
        make.limit_range_json(most={"cpu": "2"}, least={"cpu": "1"}),
    ],
}


@pytest.mark.parametrize("items", RIGHT.values(), ids=RIGHT)
def test_what_is_right(items: Sequence[Json]) -> None:
    """What works is not complained about."""
    assert problems(*items) == []


@pytest.mark.parametrize(
    ("metric", "sentence", "target"),
    [
        (
            make.metric_json("cpu", 80),
            "above 80% of the pod's cpu request",
            '{"type":"AverageValue","averageValue":"120m"}',
        ),
        (
            make.metric_json("memory", 50, "app"),
            "above 50% of container app's memory request",
            '{"type":"AverageValue","averageValue":"50Mi"}',
        ),
    ],
)
def test_an_hpa_on_the_same_resource(metric: Json, sentence: str, target: str) -> None:
    """What couples replicas to requests is named, with the command that separates the two."""
    containers = [
        make.container_json("app", cpu="100m", memory="100Mi"),
        make.container_json("side", cpu="50m", memory="20Mi"),
    ]
    web = make.workload_json("Deployment/web", containers=containers)
    ((level, told),) = problems(web, FINE, hpa(metric))
    assert level is Level.WARNING
    assert told.startswith(
        f"HorizontalPodAutoscaler/web adds replicas {sentence}, so that request stays as it is; "
        "this separates the two\n  $ kubectl -n default patch hpa web --type=json -p "
    )
    assert f'"value":{target}' in told


def test_an_hpa_on_what_the_target_owns() -> None:
    """A VPA of a custom kind sizes the pods of its Deployment; an HPA of that scales them."""
    owner = "example.com/v1/Gadget/web"
    containers = [make.container_json("app", cpu="100m")]
    deployment = make.workload_json("Deployment/web", owner=owner, containers=containers)
    objects = written(deployment, make.vpa_json(target=owner), hpa(make.metric_json("cpu", 80)))
    ((_, found),) = vpa_problems(replace(objects, are_all=False))
    assert '"averageValue":"80m"' in found.fix


def test_an_hpa_on_a_custom_kind() -> None:
    """The pods of what was looked up tell the scale point of today."""
    target = "example.com/v1/Gadget/web"
    objects = written(
        make.pod_json(cpu="100m"),
        make.vpa_json(target=target),
        hpa(make.metric_json("cpu", 80), target=target),
    )
    scale = {"metadata": {"name": "web"}, "status": {"selector": "app=web"}}
    gadget = scaled_workload("default", "example.com/v1", "Gadget", scale)
    ((_, found),) = vpa_problems(replace(objects, looked_up={"default": {gadget.key: gadget}}))
    assert '"averageValue":"80m"' in found.fix


def test_what_keda_made_is_not_to_be_changed() -> None:
    """Where the ScaledObject cannot be read, it is named all the same, for KEDA reads it."""
    made = hpa(make.metric_json("cpu", 80), name="keda-hpa-shop", owner=MAKER)
    web = make.workload_json("Deployment/web", containers=[make.container_json("app", cpu="100m")])
    ((_, told),) = problems(web, FINE, made)
    assert told.endswith(
        "; metricType AverageValue and value 80m in the trigger cpu of ScaledObject/shop "
        "separate the two"
    )


BY_AMOUNT = hpa(make.metric_json("cpu", "50m"), name="other")
BY_SHARE = hpa(make.metric_json("cpu", 80))
TRIGGER: Json = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "80"}}
MAKER = "keda.sh/v1alpha1/ScaledObject/shop"
KEDA = make.scaled_object_json(TRIGGER, name="shop", target="Deployment/web")


@cases(
    "items rivals",
    {
        "one": ([BY_SHARE], ""),
        "one by an amount": (
            [BY_SHARE, BY_AMOUNT],
            "HorizontalPodAutoscaler/other and HorizontalPodAutoscaler/web",
        ),
        "one of KEDA": ([KEDA, hpa(make.metric_json("cpu", 80), owner=MAKER)], ""),
        "one of KEDA and another one": (
            [KEDA, BY_SHARE],
            "HorizontalPodAutoscaler/web and ScaledObject/shop",
        ),
    },
)
def test_two_on_the_same_pods(items: list[Json], rivals: str) -> None:
    """The HPA controller scales by none of them, which is told before how to separate them."""
    told = [message for _, message in problems(WEB, FINE, *items)]
    expected = f"{rivals} scale the same pods, so none of them adds or removes any "
    ambiguous = [message for message in told if "AmbiguousSelector" in message]
    assert ambiguous == ([f"{expected}(AmbiguousSelector); keep one"] if rivals else [])


GHOST = make.metric_json("cpu", 80, "ghost")


@cases(
    "items there",
    {
        "by the template": ([WEB], "app, sidecar"),
        "by a pod too": ([WEB, make.pod_json(make.container_json("proxy"))], "app, proxy, sidecar"),
    },
)
def test_an_hpa_on_a_container_that_is_not_there(items: list[Json], there: str) -> None:
    """Nothing is held by it, so nothing else is said, and the HPA is what is to be changed."""
    assert problems(*items, FINE, hpa(GHOST)) == [
        (
            Level.WARNING,
            'HorizontalPodAutoscaler/web: no container of the target is called "ghost", so nothing '
            f"is held by its cpu; there are {there}\n"
            "  $ kubectl -n default edit horizontalpodautoscaler/web",
        )
    ]


def test_a_container_that_only_pods_have() -> None:
    """A container that was injected is one of the target's, whose request is held."""
    ((_, told),) = problems(WEB, make.pod_json(make.container_json("ghost")), FINE, hpa(GHOST))
    assert told.endswith("container ghost's cpu request, so that request stays as it is")


def test_a_container_of_what_is_not_known() -> None:
    """Where neither a template nor a pod tells the containers, none is said to be missing."""
    target = "example.com/v1/Gadget/web"
    objects = written(make.vpa_json(target=target), hpa(GHOST, target=target))
    scale = {"metadata": {"name": "web"}, "status": {"selector": "app=web"}}
    gadget = scaled_workload("default", "example.com/v1", "Gadget", scale)
    ((_, found),) = vpa_problems(replace(objects, looked_up={"default": {gadget.key: gadget}}))
    assert found.message.endswith("so that request stays as it is")


def test_keda_on_a_container_that_is_not_there() -> None:
    """The ScaledObject is what is to be changed, also where only its HPA can be read."""
    ((_, told),) = problems(WEB, FINE, hpa(GHOST, name="keda-hpa-shop", owner=MAKER))
    assert told.endswith("\n  $ kubectl -n default edit scaledobject/shop")


def test_without_requests_no_command_is_made_up() -> None:
    """Where the scale point of today is not known there is nothing to print."""
    web = make.workload_json("Deployment/web", containers=[make.container_json("app")])
    ((_, told),) = problems(web, FINE, hpa(make.metric_json("cpu", 80)))
    assert told.endswith("so that request stays as it is")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({"min_allowed": {"cpu": "3"}}, f"{POLICIES}.minAllowed.cpu: 3 is above the maximum 2"),
        ({"max_allowed": {"cpu": "1m"}}, f"{POLICIES}.maxAllowed.cpu: 1m is below the minimum 1"),
    ],
)
def test_policies_outside_of_a_limit_range(policy: Json, told: str) -> None:
    """A bound that the namespace's own limits outrank is named with them."""
    limits = make.limit_range_json(most={"cpu": "2"}, least={"cpu": "1"})
    ((level, message),) = problems(WEB, vpa(container="app", **policy), limits)
    assert (level, message) == (Level.WARNING, f"{told} of LimitRange limits, which holds")


def test_targets_elsewhere() -> None:
    """A namespace that was forgotten, or an owner that was not seen, is found."""
    far = make.workload_json("Deployment/web", namespace="shop")
    owned = make.workload_json("Deployment/web", owner="example.com/v1/Shop/all")
    assert problems(far, FINE) == [
        (
            Level.SERIOUS,
            "spec.targetRef: Deployment/web is not among the objects of namespace default; "
            "it is in namespace shop",
        )
    ]
    assert problems(owned, FINE) == [
        (
            Level.WARNING,
            "spec.targetRef: Deployment/web belongs to Shop.example.com/all; name that",
        )
    ]
    key = ObjectKey("example.com", "Gadget", "web")
    custom = written(make.vpa_json(target="example.com/v1/Gadget/web"))
    failed = replace(custom, looked_up={"default": {key: Failed("no answer")}})
    ((_, found),) = vpa_problems(failed)
    assert found.message == "spec.targetRef: Gadget.example.com/web cannot be looked up: no answer"
    assert list(vpa_problems(replace(custom, are_all=False))) == []


def test_two_vpas_of_one_target() -> None:
    """The second one is refused, as it would be if both were applied in this order."""
    objects = written(WEB, FINE, make.vpa_json("again", target="Deployment/web"))
    ((key, found),) = vpa_problems(objects)
    assert (key, found.level, found.about) == (
        ("default", "again"),
        Level.SERIOUS,
        "vpa/again -n default",
    )
    assert found.message.startswith("spec.targetRef: Forbidden: ")
    assert list(vpa_problems(replace(objects, disjointness=Disjointness.OFF))) == []


@settings(max_examples=150)
@given(
    st.sampled_from([FINE, vpa(container="app", min_allowed={"cpu": "1"})]).flatmap(objects_like)
)
def test_anything_can_be_judged(item: Json) -> None:
    """However wrong a VPA is, it is judged; findings are sentences about it."""
    assume(item.__class__ is dict)
    for _, found in vpa_problems(replace(written(WEB), vpas=[item])):
        assert isinstance(found, Finding)
        assert found.message


def test_an_hpa_on_what_is_not_there() -> None:
    """Without the workload there is no scale point, and so no command."""
    told = [message for _, message in problems(FINE, hpa(make.metric_json("cpu", 80)))]
    assert [message.partition(":")[0] for message in told] == [
        "spec.targetRef",
        "HorizontalPodAutoscaler/web adds replicas above 80% of the pod's cpu request, so that "
        "request stays as it is",
    ]


def test_a_vpa_without_a_target() -> None:
    """The webhook's refusal says all; nothing is looked for that has no name."""
    nameless = make.with_value(make.vpa_json(target="Deployment/web"), "spec.targetRef.name", "")
    told = [message for _, message in problems(WEB, nameless)]
    assert told
    assert not any("is not among the objects" in message for message in told)


def leading(**more: object) -> Json:
    """Return a VPA that names a Lease."""
    return make.vpa_json(
        target="Deployment/web",
        selector={"matchLabels": {"role": "leader"}},
        annotations={"plumbline/role-lease": "role=web"},
        mode="InPlaceOrRecreate",
        **more,  # type: ignore[arg-type]
    )


UNKNOWN = {"type": "RoleUnknown", "status": "True", "reason": "NoRight", "message": "no right"}


@cases(
    "items told",
    {
        "nothing holds it": ([leading(), make.lease_json("")], None),
        "no Lease was looked for": ([leading()], None),
        "another pod holds it": (
            [leading(), make.lease_json("api-1_4f5c")],
            "it is not known which pod leads: Lease default/web is held by api-1_4f5c, which names "
            "no pod of the workload (NoPodMatches)",
        ),
        "the processes say why": (
            [leading(status={"conditions": [UNKNOWN]})],
            "it is not known which pod leads: no right (NoRight)",
        ),
        "it is known again": (
            [leading(status={"conditions": [UNKNOWN | {"status": "False"}]}), make.lease_json("")],
            None,
        ),
    },
)
def test_leaders_that_are_not_known(items: list[Json], told: str | None) -> None:
    """Where it is not known which pod leads, the reason is a warning."""
    found = [one for one in problems(WEB, *items) if "leads" in one[1]]
    fix = "\n  $ kubectl -n default get lease web -o yaml"
    assert found == ([(Level.WARNING, told + fix)] if told else [])
