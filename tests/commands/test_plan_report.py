"""Asking what the updater would do, from files and from a cluster, and what is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pytest

from app.commands.flags import PlanSettings
from app.commands.plan_report import plan_report
from app.flags.command_line import parse
from app.model.errors import BadSetting, ClusterError
from app.model.fields import Json
from app.output import Output, Report, shown
from app.ports import (
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STATEFUL_SETS,
    VPAS,
    WORKLOADS,
)
from tests import make
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.stepped_clock import SteppedClock
from tests.updater.core.scenes import container, recommended, running, several, sidecar

NOW = make.time(make.NOW)
STALE = "2026-01-05T09:00:00Z"


def cluster(*others: Json, count: int = 2, vpa: Json | None = None) -> list[Json]:
    """Return a StatefulSet whose pods should be twice as big."""
    pods = several(running(container("app", "100m/100Mi")), count)
    usual = make.vpa_json(recommendations=[recommended("200m/200Mi = =")])
    return [*pods, make.workload_json(replicas=count), vpa or usual, *others]


def lease(renewed: str) -> Json:
    """Return the webhook's Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "vpa-admission-controller",
            "namespace": "kube-system",
            "creationTimestamp": STALE,
        },
        "spec": {"renewTime": renewed},
    }


def about(folder: Path, objects: Sequence[Json], *flags: str) -> Report:
    """Return what is told about objects in a file."""
    path = folder / "objects.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(item) for item in objects))
    words = [f"--objects={path}", f"--at={NOW}", *flags]
    return plan_report(parse(PlanSettings, words, {}), SteppedClock())


def lines(
    folder: Path, objects: Sequence[Json], *flags: str, output: Output = Output.TABLE
) -> list[str]:
    """Return what is shown about objects in a file."""
    return list(shown(about(folder, objects, *flags), output))


def reasons(folder: Path, objects: Sequence[Json], *flags: str) -> list[str]:
    """Return the reason for each pod."""
    return [item["reason"] for item in about(folder, objects, *flags).items]


def test_a_line_of_json_tells_all_of_a_pod(tmp_path: Path) -> None:
    """Who decides by machine gets the action, the reason and the numbers behind it."""
    first, second = map(orjson.loads, lines(tmp_path, cluster(), output=Output.JSON))
    assert first["containers"]["app"]["cpu"] == {
        "current": "100m",
        "target": "200m",
        "lowerBound": "200m",
        "upperBound": "200m",
    }
    told_of_first = {key: first[key] for key in ("namespace", "pod", "vpa", "action", "reason")}
    assert told_of_first == {
        "namespace": "default",
        "pod": "web-0",
        "vpa": "web",
        "action": "Evict",
        "reason": "OutsideBounds",
    }
    assert (second["action"], second["reason"]) == ("Wait", "ProofPending")


def test_a_table_is_for_people(tmp_path: Path) -> None:
    """A row for each pod with why, and once what changes, and a count at the end."""
    assert lines(tmp_path, cluster(), "-ndefault") == [
        "POD    VPA  ACTION  REASON         WHY",
        "web-0  web  Evict   OutsideBounds  "
        "cpu 100m is below its lower bound 200m: 100m -> 200m; memory 100Mi -> 200Mi",
        "web-1  web  Wait    ProofPending   waiting for the canary: web-0 is evicted first "
        "(cpu 100m -> 200m; memory 100Mi -> 200Mi)",
        "2 pods: would evict 1, waiting 1 (ProofPending)",
    ]
    assert lines(tmp_path, cluster())[0].startswith("NAMESPACE  POD    VPA")


def by_lease() -> list[Json]:
    """Return pods of which one leads by a Lease, and the VPAs of leader and followers."""
    pods, workload = cluster(count=3)[:3], make.workload_json(replicas=3)
    vpas = [
        make.vpa_json(
            role,
            annotations={"plumbline/role-lease": "role=web"},
            selector={"matchLabels": {"role": role}},
            recommendations=[recommended("100m/100Mi = =")],
        )
        for role in ("leader", "follower")
    ]
    return [*pods, workload, *vpas, make.lease_json("web-1_4f5c")]


def test_roles(tmp_path: Path) -> None:
    """Where Leases give pods roles the table has a column for them, and each item says why."""
    table = lines(tmp_path, by_lease(), "-ndefault")
    assert [line.split()[:4] for line in table[:-1]] == [
        ["POD", "VPA", "ROLE", "ACTION"],
        ["web-0", "follower", "follower", "None"],
        ["web-1", "leader", "leader", "None"],
        ["web-2", "follower", "follower", "None"],
    ]
    told = [item["role"] for item in about(tmp_path, by_lease()).items]
    why = "because Lease default/web is held by web-1_4f5c since 2026-01-05 09:00"
    assert told == [f"{role}, {why}" for role in ("follower", "leader", "follower")]


def test_many_pods_have_a_row_together(tmp_path: Path) -> None:
    """What is said of a hundred pods is said once, but whole where it is asked for."""
    report = about(tmp_path, cluster(count=100), "-ndefault")
    first, together, last = list(shown(report, Output.TABLE))[1:]
    assert first.startswith("web-0              web  Evict   OutsideBounds")
    assert together.startswith("web-1 and 98 more  web  Wait    ProofPending   waiting for the")
    assert last == "100 pods: would evict 1, waiting 99 (ProofPending)"
    pods = [item["pod"] for item in report.items]
    assert [row.split()[0] for row in list(shown(report, Output.WIDE))[1:-1]] == pods
    assert len(set(pods)) == 100


def test_a_terminal_wraps_why(tmp_path: Path) -> None:
    """On a narrow terminal the reason stands whole below its pod; wide rows stay as they are."""
    report = about(tmp_path, cluster(), "-ndefault")
    assert list(shown(report, Output.TABLE, width=60))[:4] == [
        "POD    VPA  ACTION  REASON",
        "web-0  web  Evict   OutsideBounds",
        "    cpu 100m is below its lower bound 200m: 100m -> 200m;",
        "    memory 100Mi -> 200Mi",
    ]
    assert list(shown(report, Output.WIDE, width=60)) == lines(tmp_path, cluster(), "-ndefault")


def test_containers_are_named_where_there_are_several(tmp_path: Path) -> None:
    """Only what changes is told; a missing request is none."""
    pods = [running(container("a", "500m/1Gi"), container("b", "-/1Gi"))]
    vpa = make.vpa_json(
        recommendations=[recommended("600m/2Gi = =", "a"), recommended("50m/1Gi = =", "b")]
    )
    row = lines(tmp_path, [*pods, make.workload_json(replicas=1), vpa])[1]
    assert row.split("TooFewReplicas  ")[1] == (
        "StatefulSet/web has 1 pod, and at least 2 are required "
        "(a cpu 500m -> 600m; a memory 1Gi -> 2Gi; b cpu none -> 50m)"
    )


def test_the_example_is_a_line_a_pod() -> None:
    """The cluster of the operators' page, in the order of its pods."""
    words = ["--objects=docs/examples/shop.yaml", "--at=2026-01-05T10:00:00Z"]
    found = plan_report(parse(PlanSettings, words, {}), SteppedClock())
    _, *rows, last = shown(found, Output.TABLE)
    assert [row.split()[1] for row in rows] == [item["pod"] for item in found.items]
    assert last == (
        "9 pods: would evict 1, would resize 1, waiting 5 (3 ProofPending, 1 BudgetExhausted, "
        "1 TooFewReplicas), unchanged 2 (InRangeTooYoung)"
    )
    assert found.notes == []


@cases(
    "others flags reason",
    {
        "no Lease among the files": ([], [], "OutsideBounds"),
        "stale": ([lease(STALE)], [], "LeaseStale"),
        "fresh": ([lease(NOW or "")], [], "OutsideBounds"),
        "unreadable": ([lease("soon")], [], "LeaseStale"),
        "not asked": ([lease(STALE)], ["--use-admission-controller-status=false"], "OutsideBounds"),
        "another one": (
            [lease(STALE)],
            ["--admission-controller-status-lease-name=other"],
            "OutsideBounds",
        ),
    },
)
def test_the_webhooks_lease(
    tmp_path: Path, others: list[Json], flags: list[str], reason: str
) -> None:
    """A Lease that is there must be fresh at the time that is asked about."""
    assert reasons(tmp_path, cluster(*others), *flags)[0] == reason


def test_the_time_is_the_one_asked_about(tmp_path: Path) -> None:
    """A pod that is too young now is old enough later."""
    young = running(container("app", "100m/100Mi"))
    vpa = make.vpa_json(recommendations=[recommended("200m/200Mi 50m/50Mi 1/1Gi")])
    young["status"]["startTime"] = "2026-01-05T00:00:00Z"
    items = [*several(young, 2), make.workload_json(replicas=2), vpa]
    assert reasons(tmp_path, items)[0] == "InRangeTooYoung"
    assert reasons(tmp_path, items, "--at=2026-01-05T12:00:00Z")[0] == "OutdatedInBounds"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--min-replicas=3"], "TooFewReplicas"),
        (["--eviction-tolerance=0"], "OutsideBounds"),
        (["--eviction-rate-limit=1", "--eviction-rate-burst=0"], "RateLimited"),
        (["--eviction-rate-limit=0.001"], "OutsideBounds"),
        (["--ignored-vpa-object-namespaces=default"], None),
        (["--vpa-object-namespace=other"], None),
        (["-n", "default", "web"], "OutsideBounds"),
    ],
)
def test_flags_decide(tmp_path: Path, flags: list[str], reason: str | None) -> None:
    """What the updater would be told by flags is told here in the same words."""
    found = reasons(tmp_path, cluster(), *flags)
    assert (found[0] if found else None) == reason


def test_gates_decide(tmp_path: Path) -> None:
    """Mode InPlace works once its gate is on."""
    vpa = make.vpa_json(mode="InPlace", recommendations=[recommended("200m/200Mi = =")])
    items = cluster(vpa=vpa)
    assert reasons(tmp_path, items)[0] == "GateDisabled"
    assert reasons(tmp_path, items, "--feature-gates=InPlace=true")[0] == "OutsideBounds"


def test_owners_of_custom_kinds_are_found_among_the_objects(tmp_path: Path) -> None:
    """A pod under a custom resource is decided about if its definition tells how it is scaled."""
    pods = several(running(container("app", "100m/100Mi"), owner="example.com/v1/Gadget/web"), 2)
    gadget = {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2},
        "status": {"selector": "app=web"},
    }
    vpa = make.vpa_json(
        target="example.com/v1/Gadget/web", recommendations=[recommended("200m/200Mi = =")]
    )
    assert (
        reasons(tmp_path, [*pods, make.definition_json("Gadget"), gadget, vpa])[0]
        == "OutsideBounds"
    )


@pytest.mark.parametrize(
    ("flags", "count"),
    [(["-lapp=web"], 2), (["-l", "app!=web"], 0), (["-A"], 2), (["-nother", "-A"], 2)],
)
def test_pods_are_chosen_as_kubectl_has_it(tmp_path: Path, flags: list[str], count: int) -> None:
    """Labels choose pods; all namespaces outrank a single one."""
    assert len(reasons(tmp_path, cluster(), *flags)) == count


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["wbe"], 'there is no VPA "wbe"'),
        (["vpa/wbe"], 'there is no VPA "wbe"'),
        (["web-0"], '"web-0" is a pod; ask: plumbline explain pod/web-0'),
        (["sts/web"], '"sts/web" is not a VPA; ask: plumbline explain sts/web'),
        (["-n=shop", "web"], 'there is no VPA "web" in namespace shop'),
        (["--at=yesterday"], "--at takes a time such as 2026-01-05T10:00:00Z, or nothing"),
    ],
)
def test_wrong_questions(tmp_path: Path, flags: list[str], sentence: str) -> None:
    """What cannot be asked is told in a sentence."""
    with pytest.raises(BadSetting, match=f"^{re.escape(sentence)}"):
        lines(tmp_path, cluster(), *flags)


def test_a_vpa_is_named_with_or_without_its_kind(tmp_path: Path) -> None:
    """Both ways name the same pods, and other VPAs are left out."""
    objects = cluster(make.vpa_json("other", target="StatefulSet/other"))
    assert len(lines(tmp_path, objects, "vpa/web")) == len(lines(tmp_path, objects, "web")) == 4
    assert lines(tmp_path, objects, "vpa/other") == []


def test_a_bad_object_is_told_and_stops_nothing(tmp_path: Path) -> None:
    """What cannot be read is told with its place; the rest is decided."""
    broken = make.with_value(make.vpa_json("broken"), "spec.targetRef", "web")
    found = about(tmp_path, cluster(broken, {"apiVersion": "v1", "kind": "Pod", "metadata": 7}))
    assert found.items[0]["reason"] == "OutsideBounds"
    first, second = found.notes
    assert first.startswith(f"{tmp_path}/objects.jsonl:5: ")
    assert second.startswith(f"{tmp_path}/objects.jsonl:6: ")


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    """Without any pod, or without a webhook, a sentence beside the plan says so."""
    nothing = about(tmp_path, [make.vpa_json()])
    assert (list(shown(nothing, Output.TABLE)), nothing.notes) == (
        [],
        ["no pod under a VPA was found anywhere"],
    )
    (stale,) = about(tmp_path, cluster(lease(STALE))).notes
    assert stale.startswith("no pod would be evicted now: Lease kube-system/vpa-admission")


# --- a cluster


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server with a StatefulSet whose pods should be bigger."""
    served = [*WORKLOADS, VPAS, PODS, LIMIT_RANGES, POD_DISRUPTION_BUDGETS, NODES, NAMESPACES]
    kinds = {"Pod": PODS, "StatefulSet": STATEFUL_SETS, "VerticalPodAutoscaler": VPAS}
    with serving(*served) as found:
        for item in cluster():
            found.store(kinds[item["kind"]], item)
        yield found


def of_server(server: ApiServer, folder: Path, *flags: str) -> Report:
    """Return what is told about a cluster."""
    path = write(folder / "config", kubeconfig(server.url))
    words = [f"--kubeconfig={path}", f"--at={NOW}", "-o=json", *flags]
    return plan_report(parse(PlanSettings, words, {}), SteppedClock())


def test_a_cluster_is_only_read(server: ApiServer, tmp_path: Path) -> None:
    """A live cluster is listed once, and nothing is written."""
    found = of_server(server, tmp_path, "--use-admission-controller-status=false")
    assert [item["reason"] for item in found.items] == ["OutsideBounds", "ProofPending"]
    assert {request.method for request in server.requests} == {"GET"}
    assert not any(request.watching for request in server.requests)


def test_a_cluster_without_a_webhook(server: ApiServer, tmp_path: Path) -> None:
    """Where no Lease tells of a webhook no pod would be evicted."""
    assert of_server(server, tmp_path).items[0]["reason"] == "LeaseStale"


def test_what_only_helps_may_be_refused(server: ApiServer, tmp_path: Path) -> None:
    """Without the right to list budgets the plan is made without them, and that is told."""
    server.fail("poddisruptionbudgets", 403)
    found = of_server(server, tmp_path, "--use-admission-controller-status=false")
    assert found.items[0]["reason"] == "OutsideBounds"
    assert "poddisruptionbudgets" in found.notes[0]


PAUSED = make.namespace_json(paused="true")


def test_a_paused_namespace_of_a_cluster(server: ApiServer, tmp_path: Path) -> None:
    """The plan says which pods are held; of namespaces only that in question is asked for."""
    server.store(NAMESPACES, PAUSED)
    flags = ("--use-admission-controller-status=false", "--namespace=default")
    found = of_server(server, tmp_path, *flags)
    assert [item["reason"] for item in found.items] == ["Paused", "Paused"]
    (asked,) = [request for request in server.requests if request.path.endswith("/namespaces")]
    assert "metadata.name" in str(asked)


def test_a_paused_namespace_in_files(tmp_path: Path) -> None:
    """An annotated Namespace among the files counts as it does in a cluster."""
    found = about(tmp_path, [*cluster(), PAUSED])
    assert [item["reason"] for item in found.items] == ["Paused", "Paused"]
    assert 'namespace default has the annotation plumbline/paused: "true"' in str(found.items[0])


def test_what_is_needed_may_not_be_refused(server: ApiServer, tmp_path: Path) -> None:
    """Without the right to list pods there is no plan."""
    server.fail("pods", 403)
    with pytest.raises(ClusterError):
        of_server(server, tmp_path)


@cases(
    "flags action",
    {"sized": ((), "Resize"), "left alone": (("--native-sidecars=false",), "None")},
)
def test_sidecars(tmp_path: Path, flags: Sequence[str], action: str) -> None:
    """A native sidecar that is too small counts, unless a flag leaves it alone."""
    pods = several(running(container("app", "200m/200Mi"), init=[sidecar("proxy", "10m")]), 2)
    advice = [recommended("200m/200Mi = ="), recommended("50m = =", "proxy")]
    vpa = make.vpa_json(mode="InPlaceOrRecreate", recommendations=advice)
    found = about(tmp_path, [*pods, make.workload_json(replicas=2), vpa], *flags)
    assert found.items[0]["action"] == action


def test_the_end_of_a_boost_shows_what_it_changes(tmp_path: Path) -> None:
    """CPU goes back, also that of a native sidecar; that memory differs is not its concern."""
    marks = ("app", "proxy")
    pod = running(
        container("app", "900m/100Mi"),
        init=[sidecar("proxy", "300m/100Mi")],
        annotations={f"vpaCpuStartupBoost/{name}": '{"requests":{}}' for name in marks},
    )
    advice = [recommended("300m/200Mi"), recommended("50m/200Mi", "proxy")]
    boost = make.boost_json(factor=3)
    vpa = make.vpa_json(mode="InPlaceOrRecreate", boost=boost, recommendations=advice)
    found = lines(
        tmp_path,
        [pod, make.workload_json(replicas=1), vpa],
        "--feature-gates=CPUStartupBoost=true",
    )
    assert found[1:] == [
        "default    web-0  web  Unboost  BoostOver  "
        "boost of app and proxy is over: app cpu 900m -> 300m; proxy cpu 300m -> 50m",
        "1 pod: would end the boost of 1",
    ]
