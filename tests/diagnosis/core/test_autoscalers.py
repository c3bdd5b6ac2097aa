"""What is found about VPAs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.diagnosis.core.autoscalers import of_vpas
from app.diagnosis.core.facts import Level, Pods, Unasked
from app.diagnosis.core.members import targets
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.workloads import Failed
from tests import make
from tests.cases import cases
from tests.diagnosis.core.healthy import FACTS, VPA, flaws

WORKLOAD, POD = make.workload_json(), make.pod_json()
KEY = ObjectKey("example.com", "Gadget", "web")


def found(*items: Json) -> list[tuple[Level, str]]:
    """Return what is not fine about some objects."""
    return flaws(list(of_vpas(replace(FACTS, pods=Pods(make.snapshot(*items))))))


@cases(
    "items message",
    {
        "in order": ([VPA, WORKLOAD, POD], None),
        "beside others": ([VPA, WORKLOAD, POD, make.pod_json(name="x", owner=None)], None),
        "no target": ([make.vpa_json(target=None)], "it names no workload"),
        "no such target": ([VPA], "StatefulSet/web does not exist, or cannot be scaled"),
        "not the topmost owner": (
            [VPA, make.workload_json(owner="Deployment/top")],
            "StatefulSet/web belongs to Deployment/top; name that in spec.targetRef",
        ),
        "no pods": ([VPA, WORKLOAD], "it has no pods"),
        "nothing learned": (
            [make.vpa_json(), WORKLOAD, POD],
            "nothing is recommended: no recommender has looked at it yet",
        ),
        "of unknown age": (
            [make.vpa_json(created=None), WORKLOAD, POD],
            "nothing is recommended: no recommender has looked at it yet",
        ),
        "not all learned": (
            [
                make.vpa_json(
                    status={
                        "recommendation": {
                            "containerRecommendations": [make.recommendation_json(memory="1Gi")]
                        },
                        "conditions": [
                            {
                                "type": "RecommendationProvided",
                                "status": "False",
                                "message": "No target for cpu of app: too early",
                            }
                        ],
                    },
                ),
                WORKLOAD,
                POD,
            ],
            "not all is recommended: No target for cpu of app: too early",
        ),
        "still young": ([make.vpa_json(created=timedelta(minutes=2)), WORKLOAD, POD], None),
        "overlap": (
            [VPA, make.vpa_json("young", cpu="1", created=timedelta(days=1)), WORKLOAD, POD],
            "VPA web takes the same pods first; part them by spec.selector",
        ),
        "beside one that only recommends": (
            [VPA, make.vpa_json("young", mode="Off", created=timedelta(days=1)), WORKLOAD, POD],
            None,
        ),
    },
)
def test_planted_faults(items: list[Json], message: str | None) -> None:
    """Each fault is the only finding."""
    assert [told for _, told in found(*items)] == ([] if message is None else [message])


PAUSED = {"plumbline/paused": "true"}
TOLD = 'paused by its annotation plumbline/paused: "true": none of its pods is evicted or resized'


@cases(
    "items expected",
    {
        "a namespace": (
            [VPA, make.namespace_json(paused="true")],
            [("namespace/default", "kubectl annotate namespace default plumbline/paused-")],
        ),
        "a VPA": (
            [make.vpa_json(cpu="1", annotations=PAUSED), make.namespace_json()],
            [("vpa/web -n default", "kubectl -n default annotate vpa web plumbline/paused-")],
        ),
        "nothing to pause": (
            [
                make.vpa_json(cpu="1", mode="Off", annotations=PAUSED),
                make.namespace_json(paused="true"),
            ],
            [],
        ),
        "a pause that is over": ([VPA, make.namespace_json(paused="false")], []),
    },
)
def test_pauses(items: list[Json], expected: list[tuple[str, str]]) -> None:
    """A pause that keeps pods from being updated is told, with the command that ends it."""
    pods = Pods(make.snapshot(WORKLOAD, POD, *items))
    found = [one for one in of_vpas(replace(FACTS, pods=pods)) if one.level is not Level.FINE]
    assert [(one.about, one.fix) for one in found] == expected
    assert all((one.level, one.message) == (Level.WARNING, TOLD) for one in found)


BOOSTS = make.vpa_json(cpu="1", memory="1Gi", boost=make.boost_json(factor=2))
PROBED = make.workload_json(
    containers=[make.container_json(readinessProbe={"httpGet": {"port": 80}})]
)


@cases(
    "version workload expected",
    {
        "all is there": ("v1.33.0", PROBED, []),
        "an old server": (
            "v1.32.4",
            PROBED,
            ["its boosts cannot end: Kubernetes v1.32.4 resizes no running pods"],
        ),
        "an unknown server": (Unasked("refused"), PROBED, []),
        "no probe": (
            "v1.33.0",
            WORKLOAD,
            ["app: without a readiness or startup probe boosts may end too early"],
        ),
    },
)
def test_what_boosts_need(version: str | Unasked, workload: Json, expected: list[str]) -> None:
    """Boosts that cannot end, and those that may end too early, are found."""
    pods = Pods(make.snapshot(BOOSTS, workload, POD))
    found = flaws(list(of_vpas(replace(FACTS, version=version, pods=pods))))
    assert found == [(Level.WARNING, message) for message in expected]


def test_what_cannot_be_read() -> None:
    """Objects that cannot be read are named beside the others."""
    pods = Pods(make.snapshot(VPA, WORKLOAD, POD), problems=["VPA x: spec: expected an object"])
    (finding, *_) = of_vpas(replace(FACTS, pods=pods))
    assert (finding.level, finding.message) == (Level.WARNING, "VPA x: spec: expected an object")


def test_a_vpa_beside_an_hpa() -> None:
    """The command that mends it is the change that separates the two, not another look."""
    hpa = make.hpa_json(make.metric_json("cpu", 70))
    workload = make.workload_json(containers=[make.container_json("app", cpu="1")])
    pods = Pods(make.snapshot(VPA, workload, hpa), written=[VPA])
    fixes = [one.fix for one in of_vpas(replace(FACTS, pods=pods)) if "scale" in one.message]
    assert [fix.partition(" --type")[0] for fix in fixes] == ["kubectl -n default patch hpa web"]


def test_targets_that_have_to_be_looked_up() -> None:
    """A target that no snapshot holds is asked for, and what is heard of it is told."""
    vpa = make.vpa_json("odd", target="example.com/v1/Gadget/web")
    snapshot = make.snapshot(
        VPA,
        WORKLOAD,
        POD,
        vpa,
        make.vpa_json("none", target=None),
        make.vpa_json("lost", target="apps/v1/Deployment/gone"),
    )
    (lookup,) = targets(snapshot)
    assert lookup.key == KEY
    looked_up = {"default": {KEY: Failed("refused")}}
    found = flaws(list(of_vpas(replace(FACTS, pods=Pods(snapshot, looked_up)))))
    assert (Level.UNKNOWN, "Gadget.example.com/web cannot be looked up: refused") in found
