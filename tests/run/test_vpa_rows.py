"""What is shown of each VPA: average pods, of the containers that have a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.diagnosis.core.attention import Attention
from app.model.fields import Json
from app.run.view import VpaRow
from app.run.vpa_rows import Used, rows, workload_of
from app.updater.core.decisions import Action, Decision, Reason
from tests import make
from tests.cases import cases
from tests.run.views import MIB, NOW

DECISION = Decision("", "default", "web-0", "web", Action.NONE, Reason.NO_CHANGE, "")
APP = make.container_json(cpu="100m", memory="100Mi")
PROXY = make.container_json("proxy", cpu="30m", memory="20Mi")
USAGE = {("default", "web-0", "app"): Used(80, MIB), ("default", "web-0", "proxy"): Used(9, 9)}


def rows_of(*items: Json, decided: Sequence[Decision] = (DECISION,)) -> list[VpaRow]:
    """Return the rows of a namespace, with a decision about each pod."""
    return rows(make.snapshot(*items), decided, NOW, USAGE)


@cases(
    "containers",
    {
        "alone": ([APP],),
        "beside a sidecar without recommendation": ([APP, PROXY],),
    },
)
def test_now_and_target_are_about_the_same_containers(containers: list[Json]) -> None:
    """A pod that has what is recommended shows as that, whatever else runs in it."""
    vpa = make.vpa_json(cpu="100m", memory="100Mi")
    (row,) = rows_of(make.pod_json(*containers), vpa)

    assert (row.cpu.request, row.cpu.target, row.cpu.usage) == (100, 100, 80)
    assert (row.memory.request, row.memory.target, row.memory.usage) == (100 * MIB, 100 * MIB, MIB)


def test_recommendations_for_containers_that_are_gone_do_not_count() -> None:
    """Only what the pods have is summed up."""
    vpa = make.vpa_json(
        recommendations=[
            make.recommendation_json("app", cpu="100m"),
            make.recommendation_json("gone", cpu="5"),
        ]
    )

    assert rows_of(make.pod_json(APP), vpa)[0].cpu.target == 100


def test_without_recommendation_all_requests_count() -> None:
    """What is not recommended is shown as it is."""
    (row,) = rows_of(make.pod_json(APP, PROXY), make.vpa_json())

    assert (row.cpu.request, row.cpu.target) == (130, None)


def test_what_an_hpa_scales_by_has_no_target() -> None:
    """It stays as it is, so no arrow leads away from it."""
    (row,) = rows_of(
        make.pod_json(cpu="200m", memory="1Gi"),
        make.vpa_json(cpu="100m", memory="2Gi"),
        make.hpa_json(make.metric_json("cpu", 70)),
    )
    assert (row.cpu.request, row.cpu.target) == (200, None)
    assert (row.memory.request, row.memory.target) == (2**30, 2 * 2**30)


def test_the_most_urgent_first() -> None:
    """Blocked VPAs come first, then those that wait, then the others, each by name."""
    names = {
        "a-fine": Reason.NO_CHANGE,
        "b-blocked": Reason.PDB_BLOCKED,
        "c-waiting": Reason.RATE_LIMITED,
        "d-blocked": Reason.TOO_FEW_REPLICAS,
    }
    pods = [make.pod_json(name=f"{name}-0") for name in names]
    vpas = [make.vpa_json(name, target=f"StatefulSet/{name}") for name in names]
    decided = [
        replace(DECISION, pod=f"{name}-0", vpa=name, reason=reason, action=Action.WAIT)
        for name, reason in names.items()
    ]
    found = rows_of(*pods, *vpas, decided=decided)

    assert [row.vpa for row in found] == ["b-blocked", "d-blocked", "c-waiting", "a-fine"]
    assert found[0].status.level is Attention.BLOCKED


@cases(
    "items name",
    {
        "of a Deployment": (
            [
                make.workload_json("ReplicaSet/web-1", owner="Deployment/web"),
                make.pod_json(name="web-1-x", owner="ReplicaSet/web-1"),
            ],
            "web",
        ),
        "of a StatefulSet": ([make.pod_json(name="web-1-x", owner="StatefulSet/db")], "db"),
        "gone": ([], "web-1"),
    },
)
def test_the_workload_of_a_pod(items: list[Json], name: str) -> None:
    """Pods are known by what people made; of one that is gone its name tells."""
    assert workload_of(make.snapshot(*items).of("default"), "web-1-x") == name
