"""What becomes of a pod or of a VPA's pods, from files and from a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from app.commands.explain_report import explain_report
from app.commands.flags import ExplainSettings
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.model.fields import Json
from app.output import Output, Report, shown
from app.ports import CHECKPOINTS, EVENTS, LEASES, PODS, STATEFUL_SETS, VPAS, WORKLOADS, Resource
from tests import make
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.stepped_clock import SteppedClock
from tests.updater.core.scenes import container, recommended, running, several

UNCHECKED = "--use-admission-controller-status=false"


def cluster(*others: Json, bounds: str = "= =", count: int = 2, **vpa: object) -> list[Json]:
    """Return a StatefulSet whose pods should be twice as big, and have had half a boost."""
    pods = several(running(container("app", "100m/100Mi")), count)
    for pod in pods:
        pod["status"]["startTime"] = make.time(timedelta(hours=3))
    template = [make.container_json("app", cpu="50m", cpu_limit="100m")]
    told = make.vpa_json(recommendations=[recommended(f"200m/200Mi {bounds}")], spec=vpa)
    return [*pods, make.workload_json(replicas=count, containers=template), told, *others]


def found(folder: Path, objects: Sequence[Json], *words: str) -> Report:
    """Return what is told about objects in a file."""
    path = folder / "objects.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(item) for item in objects))
    settings = parse(ExplainSettings, [*words, f"--objects={path}"], {})
    return explain_report(settings, SteppedClock(make.NOW))


def of_server(server: ApiServer, folder: Path, *words: str) -> Report:
    """Return what is told about a cluster."""
    path = write(folder / "config", kubeconfig(server.url))
    settings = parse(ExplainSettings, [*words, f"--kubeconfig={path}"], {})
    return explain_report(settings, SteppedClock(make.NOW))


def text(report: Report) -> str:
    """Return a report as people read it."""
    return "\n".join(shown(report, Output.TABLE))


def test_a_pod_from_head_to_toe(tmp_path: Path) -> None:
    """Who sizes it, from which numbers, what it gets with its limit, and what is done next."""
    report = found(tmp_path, cluster(), "pod/web-0")
    told = text(report)
    for line in (
        "Pod default/web-0\n  of StatefulSet/web\n  sized by VPA web in mode Recreate",
        "  app        cpu       100m     200m    200m\n",
        "  app        cpu       50m (limit 100m)  200m         200m (limit 400m)\n",
        "  in the next round, within 60s: Evict (OutsideBounds): cpu 100m is below its lower bound "
        "200m: 100m -> 200m; memory 100Mi -> 200Mi",
    ):
        assert line in told
    assert report.names == ["pod/web-0"]
    (item,) = report.items
    assert item["creation"]["containers"][0]["cpu"]["gets"] == {"request": "200m", "limit": "400m"}
    assert item["updater"][0]["action"] == "Evict"


@cases(
    "uncapped is_shown",
    {
        "as the target": ({"cpu": "200m", "memory": "200Mi"}, False),
        "above the target": ({"cpu": "300m", "memory": "200Mi"}, True),
    },
)
def test_the_uncapped_target_is_shown_where_it_differs(
    tmp_path: Path, uncapped: Json, is_shown: bool
) -> None:
    """A column that says only what the target says makes the table too wide for a terminal."""
    objects = cluster()
    told = objects[-1]["status"]["recommendation"]["containerRecommendations"][0]
    told["uncappedTarget"] = uncapped
    report = text(found(tmp_path, objects, "pod/web-0"))
    assert ("UNCAPPED" in report, " 300m" in report) == (is_shown, is_shown)


def test_a_vpa_with_its_pods(tmp_path: Path) -> None:
    """What is done about each pod, how often for which reason, and how far they are."""
    report = found(tmp_path, cluster(), "vpa/web")
    (item,) = report.items
    assert item["reasons"] == {"OutsideBounds": 1, "ProofPending": 1}
    assert [one["pod"] for one in item["pods"]] == ["web-0", "web-1"]
    assert item["recommendation"][0]["shortage"] == "200m"
    assert report.names == ["verticalpodautoscaler.autoscaling.k8s.io/web"]
    told = text(report)
    assert "\n  would evict 1, waiting 1 (ProofPending)\n" in told
    assert "  web-1: now: waits (ProofPending): waiting for the canary: web-0 is evicted" in told


CAP = make.policy_json(max_allowed={"cpu": "150m"})


def test_many_pods(tmp_path: Path) -> None:
    """Where each of many pods has its own time the first are shown, and all if asked for."""
    items = cluster(bounds="50m/50Mi 1/1Gi", count=25)
    for minutes, item in enumerate(items[:25]):
        item["status"] = item["status"] | {
            "startTime": make.time(timedelta(hours=1, minutes=minutes))
        }
    report = found(tmp_path, items, "web")
    few, whole = (list(shown(report, output)) for output in (Output.TABLE, Output.WIDE))
    assert "  and 5 more; -o wide shows them all" in few
    assert len([line for line in whole if line.startswith("  web-")]) == 25


@pytest.mark.parametrize(
    ("items", "words", "line"),
    [
        (
            cluster(bounds="50m/50Mi 1/1Gi"),
            ["web-0"],
            "  in 9h, from 2026-01-05T19:00:00Z on: Evict (OutdatedInBounds)",
        ),
        (cluster(count=1), ["web-0"], "    What helps: run more replicas"),
        (
            cluster(updatePolicy={"updateMode": "Off"}),
            ["web-0"],
            "  what its author wrote (ModeOff): VPA web is in mode Off",
        ),
        (
            cluster(make.pod_json(name="other", owner=None)),
            ["other"],
            "  nothing: no VPA controls the pod",
        ),
        ([make.vpa_json(target=None)], ["web"], "  nothing: no running pod"),
        (
            cluster(make.vpa_json("young", cpu="1", created=timedelta(days=1))),
            ["web-0"],
            "  and not by VPA young: it is younger",
        ),
        (cluster(resourcePolicy={"containerPolicies": [CAP]}), ["web-0"], "maxAllowed: 150m"),
        (
            cluster(count=100),
            ["web"],
            "\n  web-1 and 98 more: now: waits (ProofPending): waiting for the canary: web-0 is ",
        ),
        (
            cluster(startupBoost=make.boost_json(factor=3)),
            ["--feature-gates=CPUStartupBoost=true", "web-0"],
            "200m to 600m",
        ),
    ],
)
def test_stories(tmp_path: Path, items: list[Json], words: list[str], line: str) -> None:
    """Whatever stands in the way or comes later is told where one looks for it."""
    assert line in text(found(tmp_path, items, *words))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["pod/web-0", "vpa/web"], ["web-0", "web"]),
        (["web-0", "web"], ["web-0", "web"]),
        (["po/web-0", "vpas/web"], ["web-0", "web"]),
        (["pods", "web-0", "web-1"], ["web-0", "web-1"]),
        (["-l", "app=web"], ["web-0", "web-1"]),
    ],
)
def test_several_things(tmp_path: Path, words: list[str], names: list[str]) -> None:
    """Each name is explained in order, a kind before names is for all, labels choose pods."""
    other = make.pod_json(name="other", labels={"app": "other"}, owner=None)
    assert [item["name"] for item in found(tmp_path, cluster(other), *words).items] == names


def test_pods_written_by_hand(tmp_path: Path) -> None:
    """Pods without a uid are told apart as well."""
    items = cluster()
    for item in items[:2]:
        del item["metadata"]["uid"]
    reasons = [
        found(tmp_path, items, name).items[0]["updater"][0]["reason"] for name in ("web-0", "web-1")
    ]
    assert reasons == ["OutsideBounds", "ProofPending"]


SAME = make.pod_json(name="web", owner=None)


@pytest.mark.parametrize(
    ("items", "words", "sentence"),
    [
        ([], [], "say what to explain: a pod, a VPA, a workload such as deploy/web, or --selector"),
        ([], ["pod"], "say what to explain: pod/NAME"),
        ([], ["-l", "app=none"], "no pod has the labels app=none"),
        ([], ["deploy/none"], 'there is no deploy "none" in any namespace'),
        ([], ["deploy/web"], 'there is no deploy "web" in any namespace; did you mean "sts/web"?'),
        ([], ["sts/wbe"], 'there is no sts "wbe" in any namespace'),
        ([], ["/web"], '"/web": say pod/NAME, vpa/NAME or deploy/NAME'),
        ([], ["wbe"], 'there is no pod or VPA "wbe" in any namespace; did you mean "web"? If it'),
        ([], ["none"], 'there is no pod or VPA "none" in any namespace. If it was a pod: there is'),
        ([], ["pod/web-7"], 'there is no pod "web-7" in any namespace; did you mean "web-'),
        ([], ["vpa/web", "-nshop"], 'there is no VPA "web" in namespace shop; -A looks at all'),
        (
            [SAME],
            ["web"],
            '"web" is the name of several things; say pod/web -n default or vpa/web -n default',
        ),
    ],
)
def test_wrong_questions(
    tmp_path: Path, items: list[Json], words: list[str], sentence: str
) -> None:
    """What cannot be explained is told in a sentence that says what can."""
    with pytest.raises(BadSetting, match=f"^{re.escape(sentence)}"):
        found(tmp_path, cluster(*items), *words)


def test_a_name_in_a_folder_of_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Files that were not read are named first, since what was asked about may be in them."""
    (tmp_path / "broken.yaml").write_text("a: [b")
    settings = parse(ExplainSettings, ["web", f"--objects={tmp_path}"], {})
    told = f"^{re.escape(str(tmp_path))}/broken.yaml:1: invalid YAML: .*; there is no pod or VPA"
    with pytest.raises(BadSetting, match=told):
        explain_report(settings, SteppedClock(make.NOW))


# --- workloads

KINDS = {
    "Deployment": ("deploy", "deployment", "deployments", "deployments.apps", "Deployment"),
    "StatefulSet": ("sts", "statefulsets"),
    "DaemonSet": ("ds", "daemonsets"),
    "ReplicaSet": ("rs", "replicasets"),
    "ReplicationController": ("rc", "replicationcontrollers"),
    "Job": ("job", "jobs"),
    "CronJob": ("cj", "cronjob", "cronjobs.batch"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_without_pods(tmp_path: Path, kind: str) -> None:
    """A workload of any kind is explained by its template, in the words that kubectl knows."""
    template = [make.container_json("app", cpu="50m", cpu_limit="100m")]
    workload = make.workload_json(f"{kind}/web", containers=template)
    vpa = make.vpa_json(target=f"{kind}/web", cpu="200m")
    for word in KINDS[kind]:
        (item,) = found(tmp_path, [workload, vpa], f"{word}/web").items
        assert (item["kind"], item["vpa"], item["pods"]) == (kind, "web", [])
        cpu = item["creation"]["containers"][0]["cpu"]
        assert cpu["gets"] == {"request": "200m", "limit": "400m"}
    told = text(found(tmp_path, [workload, vpa], "vpa/web"))
    assert "  no running pod; by the template of the workload\n" in told
    assert "200m (limit 400m)" in told


def test_a_workload_with_pods(tmp_path: Path) -> None:
    """It is told as its VPA is, also where pods belong to it by something between."""
    (whole,) = found(tmp_path, cluster(), "sts/web").items
    (vpa,) = found(tmp_path, cluster(), "vpa/web").items
    for key in ("recommendation", "creation", "reasons", "pods"):
        assert whole[key] == vpa[key]
    between = [
        make.workload_json("Deployment/api"),
        make.workload_json("ReplicaSet/api-1", owner="Deployment/api"),
        make.pod_json(name="api-1-x", owner="ReplicaSet/api-1"),
        make.vpa_json("api", target="Deployment/api", cpu="1"),
    ]
    report = found(tmp_path, [*cluster(), *between], "deploy", "api")
    assert [one["pod"] for one in report.items[0]["pods"]] == ["api-1-x"]
    assert (report.names, report.items[0]["vpa"]) == (["deployment/api"], "api")
    assert text(report).startswith("Deployment default/api\n  sized by VPA api in mode")


def test_a_custom_workload(tmp_path: Path) -> None:
    """A custom kind is known by what its pods, or a VPA, say of it."""
    owner = "argoproj.io/v1alpha1/Rollout/shop"
    items = [
        make.vpa_json("shop", target=owner, cpu="1"),
        make.workload_json("ReplicaSet/shop-1", owner=owner),
        make.pod_json(name="shop-1-x", owner="ReplicaSet/shop-1"),
    ]
    for name in ("ro/shop", "rollouts.argoproj.io/shop"):
        report = found(tmp_path, items, name)
        assert report.names == ["rollout.argoproj.io/shop"]
        assert [item["kind"] for item in report.items] == ["Rollout"]
    alone = found(tmp_path, items[:1], "rollout/shop")
    assert "  no running pod, and no template that is known" in text(alone)


ROLLOUTS = Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout")


def rollout() -> Json:
    """Return a custom workload with a template."""
    container = make.container_json("app", cpu="100m")
    return {
        "apiVersion": ROLLOUTS.api_version,
        "kind": ROLLOUTS.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "template": {"metadata": {"labels": make.LABELS}, "spec": {"containers": [container]}},
        },
        "status": {"selector": "app=web"},
    }


ROLLOUT_VPA = make.vpa_json("shop", target="argoproj.io/v1alpha1/Rollout/shop", cpu="1")
NEW_POD = re.compile(r"  app +cpu +100m +1 +1\n")


def test_a_custom_workload_without_pods(tmp_path: Path) -> None:
    """In files its template is known; without it the numbers of its VPA are."""
    kinds = make.definition_json("Rollout", "argoproj.io", v1alpha1=True)
    told = text(found(tmp_path, [kinds, rollout(), ROLLOUT_VPA], "rollout/shop"))
    assert told.startswith("Rollout default/shop\n  sized by VPA shop in mode ")
    assert NEW_POD.search(told)
    numbers = text(found(tmp_path, [ROLLOUT_VPA], "rollout/shop"))
    assert "no template that is known" in numbers
    assert re.search(r"  app +cpu +- +1 +", numbers)


def test_a_custom_workload_of_a_cluster(tmp_path: Path) -> None:
    """A cluster is asked for it, and if that is refused for no more."""
    with serving(*WORKLOADS, VPAS, PODS, CHECKPOINTS, ROLLOUTS) as server:
        server.store(VPAS, ROLLOUT_VPA)
        server.store(ROLLOUTS, rollout())
        scale = {"spec": {"replicas": 2}, "status": {"selector": "app=web"}}
        server.scales[ROLLOUTS, "default", "shop"] = {"metadata": {"name": "shop"}, **scale}
        assert NEW_POD.search(text(of_server(server, tmp_path, "ro/shop", UNCHECKED)))
        server.fail("/rollouts/shop?", 403)
        told = text(of_server(server, tmp_path, "ro/shop", UNCHECKED))
        assert "no template that is known" in told


def test_nothing_is_asked(tmp_path: Path) -> None:
    """That is told before a cluster is looked for."""
    settings = parse(ExplainSettings, [f"--kubeconfig={tmp_path}/none"], {})
    with pytest.raises(BadSetting, match="say what to explain"):
        explain_report(settings, SteppedClock(make.NOW))


def test_a_workload_without_a_vpa(tmp_path: Path) -> None:
    """It keeps what its author wrote, and it is said what helps."""
    told = text(found(tmp_path, [make.workload_json("Deployment/api")], "deploy/api"))
    assert "  what its author wrote (NoVPAInNamespace): the namespace has no VPA" in told
    assert "What helps: create a VPA" in told


def test_a_container_that_is_left_alone(tmp_path: Path) -> None:
    """What it has is what it gets, and it is said so."""
    template = [make.container_json("app", cpu="1"), make.container_json("proxy", cpu="100m")]
    items = [make.workload_json(containers=template), make.vpa_json(cpu="2")]
    told = text(found(tmp_path, items, "sts/web"))
    assert re.search(r"  proxy +cpu +100m +- +100m \(unchanged\)\n", told)


def test_a_container_that_is_held(tmp_path: Path) -> None:
    """What an HPA scales by stays; the change that separates the two is a line to be copied."""
    template = [make.container_json("app", cpu="1")]
    hpa = make.hpa_json(make.metric_json("cpu", 70))
    items = [make.workload_json(containers=template), make.vpa_json(cpu="2"), hpa]
    told = text(found(tmp_path, items, "sts/web"))
    assert re.search(r"  app +cpu +1 +2 +1 \(held\)\n", told)
    assert "; this separates the two\n  $ kubectl -n default patch hpa web --type=json -p " in told


def test_a_request_that_is_missing_is_held_too(tmp_path: Path) -> None:
    """New pods get no request for what an HPA scales by where their template has none."""
    template = [make.container_json("app", memory="64Mi")]
    hpa = make.hpa_json(make.metric_json("cpu", 70))
    items = [make.workload_json(containers=template), make.vpa_json(cpu="2"), hpa]
    told = text(found(tmp_path, items, "sts/web"))
    assert re.search(r"  app +cpu +- +2 +- \(held\)\n", told)


def by_lease(*others: Json) -> list[Json]:
    """Return the pods of one VPA, for the one that leads by a Lease."""
    items = cluster(*others, selector={"matchLabels": {"role": "leader"}})
    for item in items:
        if item["kind"] == "VerticalPodAutoscaler":
            item["metadata"]["annotations"] = {"plumbline/role-lease": "role=web"}
    return items


HELD = "leader, because Lease default/web is held by web-1_4f5c since 2026-01-05 09:00"


def test_a_role_by_a_lease(tmp_path: Path) -> None:
    """Of a pod, and of the pods of a VPA, it is said what makes a leader of them."""
    items = by_lease(make.lease_json("web-1_4f5c"))
    assert f"\n  {HELD}\n  in the next round" in text(found(tmp_path, items, "pod/web-1"))
    assert f"\n    {HELD}" in text(found(tmp_path, items, "vpa/web"))


def test_the_pod_that_leads(tmp_path: Path) -> None:
    """The head speaks of the running pod; who sizes its replacement stands with new pods."""
    follower = make.vpa_json(
        "follower",
        annotations={"plumbline/role-lease": "role=web"},
        selector={"matchLabels": {"role": "follower"}},
        mode="InPlaceOrRecreate",
    )
    items = by_lease(make.lease_json("web-1_4f5c"), follower)
    told = text(found(tmp_path, items, "pod/web-1"))
    assert f"\n  of StatefulSet/web\n  sized by VPA web in mode Recreate: {HELD}\n" in told
    assert told.count("role=follower") == 1
    assert "New pods (webhook)\n  VPA follower targets StatefulSet/web, with role=follower" in told


@cases(
    "leases why",
    {
        "a stranger holds it": (
            [make.lease_json("api-1_4f5c")],
            "is held by api-1_4f5c, which names no pod of the workload",
        ),
        "there is none": ([make.lease_json(name="other")], "does not exist"),
    },
)
def test_nobody_knows_who_leads(tmp_path: Path, leases: list[Json], why: str) -> None:
    """Of a pod of which nobody knows whether it leads, the reason is the Lease."""
    told = text(found(tmp_path, by_lease(*leases), "pod/web-1"))
    sentence = f"it is not known which pod leads: Lease default/web {why}"
    assert f"\n  of StatefulSet/web\n  {sentence}\n" in told
    assert f"now: leaves it as it is (RoleUnknown): {sentence}" in told
    assert "What helps: see whether the Lease that the annotation plumbline/role-lease" in told
    assert f"warning: {sentence}" in text(found(tmp_path, by_lease(*leases), "vpa/web"))


def test_a_lease_that_is_not_renewed(tmp_path: Path) -> None:
    """A Lease that expired long ago is held by nobody, whoever is named in it."""
    old = make.lease_json("web-1_4f5c", spec={"renewTime": "2019-01-05T10:00:00Z"})
    told = text(found(tmp_path, by_lease(old), "pod/web-1"))
    assert "\n  follower, because Lease default/web is not held\n" in told


def test_a_new_pod_does_not_lead(tmp_path: Path) -> None:
    """Of the VPA of leaders it is said that another one sizes pods that are created."""
    follower = make.vpa_json(
        "follower",
        annotations={"plumbline/role-lease": "role=web"},
        selector={"matchLabels": {"role": "follower"}},
        mode="InPlaceOrRecreate",
    )
    items = by_lease(make.lease_json("web-1_4f5c"), follower)
    sentence = "VPA follower targets StatefulSet/web, with role=follower by its Lease"
    assert f"New pods (webhook)\n  {sentence}\n" in text(found(tmp_path, items, "vpa/web"))
    assert sentence not in text(found(tmp_path, items, "vpa/follower"))


# --- a cluster


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server with these objects."""
    with serving(*WORKLOADS, VPAS, PODS, CHECKPOINTS) as found:
        kinds = {one.kind: one for one in (STATEFUL_SETS, VPAS, PODS)}
        for item in cluster():
            found.store(kinds[item["kind"]], item)
        yield found


def test_a_cluster_tells_the_same(server: ApiServer, tmp_path: Path) -> None:
    """A cluster is only read, and tells what files of it tell."""
    report = of_server(server, tmp_path, "web-0", UNCHECKED)
    assert list(report.items) == list(found(tmp_path, cluster(), "web-0").items)
    assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize("is_served", [True, False])
def test_leases_of_a_cluster(server: ApiServer, tmp_path: Path, is_served: bool) -> None:
    """Only Leases that VPAs name are read; where they cannot be, that is said."""
    for item in by_lease():
        if item["kind"] == "VerticalPodAutoscaler":
            server.store(VPAS, item)
    if is_served:
        server.served.append(LEASES)
        server.objects[LEASES] = {}
        server.store(LEASES, make.lease_json("web-1_4f5c"))
    told = text(of_server(server, tmp_path, "pod/web-1", UNCHECKED))
    assert (HELD in told) is is_served
    asked = [one for one in server.requests if one.path.endswith("leases")]
    assert [one.query["fieldSelector"] for one in asked] == ["metadata.name=web"]


def test_a_cluster_without_a_webhook(server: ApiServer, tmp_path: Path) -> None:
    """Where no Lease tells of a webhook no pod is evicted, and it is told what helps."""
    told = text(of_server(server, tmp_path, "web-0"))
    assert "What helps: see whether the admission webhook runs" in told


@pytest.mark.parametrize(
    ("words", "selector"),
    [
        (["pod/web-0"], {"fieldSelector": "metadata.name=web-0"}),
        (["vpa/web"], {"fieldSelector": "metadata.name=web"}),
        (["-l", "app=web"], {"labelSelector": "app=web"}),
        (["sts/web"], {"fieldSelector": "metadata.name=web"}),
    ],
)
def test_of_a_large_cluster_little_is_read(
    server: ApiServer, tmp_path: Path, words: list[str], selector: Json
) -> None:
    """A server is asked where something is, and that namespace alone is read."""
    report = of_server(server, tmp_path, *words, "-A", UNCHECKED)
    plurals = (PODS.plural, VPAS.plural, STATEFUL_SETS.plural)
    (everywhere,) = (
        one
        for one in server.requests
        if one.path.endswith(plurals) and "/namespaces/" not in one.path
    )
    assert everywhere.query.items() >= selector.items()
    assert list(report.items) == list(found(tmp_path, cluster(), *words).items)


def test_a_name_that_is_nowhere(server: ApiServer, tmp_path: Path) -> None:
    """Also a whole cluster is asked in vain in one sentence."""
    with pytest.raises(BadSetting, match='there is no pod or VPA "none" in any namespace'):
        of_server(server, tmp_path, "-A", "none")


# --- the past


def event(
    pod: str,
    message: str,
    reason: str = "EvictedByVPA",
    *,
    kind: str = "Pod",
    minutes: int = 35,
    component: str = "vpa-updater",
    **members: object,
) -> Json:
    """Return an event about a pod, or with another kind about its VPA."""
    at = make.time(timedelta(minutes=minutes))
    name = pod if kind == "Pod" else "web"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{minutes}.{reason}", "namespace": "default"},
        "involvedObject": {"kind": kind, "namespace": "default", "name": name, "uid": "uid-old"},
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "lastTimestamp": at,
    } | members


WHY = "Pod was evicted to apply the recommendation of VPA web: cpu 3 is above its upper bound 70m"
ON_VPA = "Pod web-9 was evicted to apply the recommendation of VPA web: memory 1Gi -> 2Gi"
UPSTREAM = "VPA Updater evicted Pod web-9 to apply resource recommendation."
KILLING = event("web-9", "Stopping container app", "Killing", component="kubelet", minutes=34)


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        (
            [KILLING, event("web-9", WHY)],
            [
                f"2026-01-05T09:25:00Z, 35m ago: EvictedByVPA by vpa-updater: {WHY}",
                "2026-01-05T09:26:00Z, 34m ago: Killing by kubelet: Stopping container app",
            ],
        ),
        (
            [event("web-9", ON_VPA, "EvictedPod", kind="VerticalPodAutoscaler")],
            [f"2026-01-05T09:25:00Z, 35m ago: EvictedPod by vpa-updater: {ON_VPA}"],
        ),
        (
            [event("web-9", UPSTREAM, "EvictedPod", kind="VerticalPodAutoscaler")],
            [f"2026-01-05T09:25:00Z, 35m ago: EvictedPod by vpa-updater: {UPSTREAM}"],
        ),
        (
            [
                event("web-9", WHY),
                event("web-9", ON_VPA, "EvictedPod", kind="VerticalPodAutoscaler"),
            ],
            [f"2026-01-05T09:25:00Z, 35m ago: EvictedByVPA by vpa-updater: {WHY}"],
        ),
        (
            [event("web-9", "no memory", "Evicted", component="kubelet", count=3)],
            [
                "2026-01-05T09:25:00Z, 35m ago: Evicted x3 by kubelet: no memory",
                "None of these events is of the updater: something else evicted or deleted the "
                "pod, or the event of its eviction is gone.",
            ],
        ),
    ],
    ids=["pod", "vpa", "upstream", "both", "others"],
)
def test_a_pod_that_is_gone(tmp_path: Path, events: list[Json], lines: list[str]) -> None:
    """Its events tell what happened, when and why, also where only its VPA has one."""
    others = [event("web-8", "another pod"), {"kind": "Event", "apiVersion": "v1", "metadata": {}}]
    report = found(tmp_path, cluster(*events, *others), "pod/web-9")
    (item,) = report.items
    assert (item["name"], item["gone"]) == ("web-9", True)
    head = ["Pod default/web-9", "  does not exist any more", "", "What happened, from Events"]
    assert text(report).splitlines() == [*head, *(f"  {line}" for line in lines)]


def test_a_pod_that_came_back_under_its_name(tmp_path: Path) -> None:
    """Of a pod that exists only what the updater did is told, and to which pod of this name."""
    mine = event("web-0", "Pod was resized", "InPlaceResizedByVPA", minutes=5)
    mine["involvedObject"]["uid"] = "uid-web-0"
    pulled = event("web-0", "Pulled", "Pulled", component="kubelet")
    report = found(tmp_path, cluster(pulled, mine, event("web-0", WHY)), "web-0")
    assert [one["reason"] for one in report.items[0]["events"]] == [
        "EvictedByVPA",
        "InPlaceResizedByVPA",
    ]
    told = text(report).partition("What happened, from Events\n")[2]
    assert "EvictedByVPA by vpa-updater (an earlier pod of this name): Pod was evicted" in told
    assert "InPlaceResizedByVPA by vpa-updater: Pod was resized" in told


def test_a_past_that_is_over(tmp_path: Path) -> None:
    """Where nothing is left of a pod it is said how long events are kept, and what else to ask."""
    with pytest.raises(BadSetting, match="keeps Events for 1 h") as error:
        found(tmp_path, cluster(event("web-8", WHY)), "pod/web-9")
    assert 'logs deploy/vpa-updater | grep "pod updated" | grep web-9' in str(error.value)
    with pytest.raises(BadSetting) as error:
        found(tmp_path, cluster(event("web-9", WHY)), "vpa/web-9")
    assert "Event" not in str(error.value)


def test_many_events(tmp_path: Path) -> None:
    """The latest twenty are for people."""
    events = [event("web-9", f"number {number}", minutes=60 - number) for number in range(25)]
    told = text(found(tmp_path, cluster(*events), "web-9"))
    assert "  5 earlier events; -o json shows them all\n" in told
    assert "number 4" not in told
    assert told.splitlines()[-1].endswith("number 24")


@pytest.mark.parametrize("words", [["pod/web-9"], ["pod/web-9", "-A"]])
def test_the_past_of_a_cluster(tmp_path: Path, words: list[str]) -> None:
    """Events are asked for by the name of the pod, with what the person who asks may read."""
    with serving(*WORKLOADS, VPAS, PODS, CHECKPOINTS, EVENTS) as server:
        kinds = {one.kind: one for one in (STATEFUL_SETS, VPAS, PODS, EVENTS)}
        for item in cluster(event("web-9", WHY)):
            server.store(kinds[item["kind"]], item)
        report = of_server(server, tmp_path, *words, UNCHECKED)
        asked = [one for one in server.requests if one.path.endswith(EVENTS.plural)]
        assert {request.method for request in server.requests} == {"GET"}
    assert [one["message"] for one in report.items[0]["events"]] == [WHY]
    assert {one.query["fieldSelector"] for one in asked} == {
        "involvedObject.kind=Pod,involvedObject.name=web-9",
        "involvedObject.kind=VerticalPodAutoscaler,reason=EvictedPod",
    }


def test_without_the_right_to_list_events(server: ApiServer, tmp_path: Path) -> None:
    """A pod that exists is explained without its past, and that is told."""
    server.fail("events", 403)
    report = of_server(server, tmp_path, "web-0", UNCHECKED)
    assert "events" not in report.items[0]
    assert any(note.startswith("events: not taken into account") for note in report.notes)
