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
from app.ports import CHECKPOINTS, PODS, STATEFUL_SETS, VPAS, WORKLOADS
from tests import make
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
        "  app        cpu       100m     200m    200m ",
        "  app        cpu       50m (limit 100m)  200m         -          -      200m (limit 400m)",
        "  in the next round, within 60s: Evict (Evicted): outside of its bounds",
    ):
        assert line in told
    assert report.names == ["pod/web-0"]
    (item,) = report.items
    assert item["creation"]["containers"][0]["cpu"]["gets"] == {"request": "200m", "limit": "400m"}
    assert item["updater"][0]["action"] == "Evict"


def test_a_vpa_with_its_pods(tmp_path: Path) -> None:
    """What is done about each pod, how often for which reason, and how far they are."""
    report = found(tmp_path, cluster(), "vpa/web")
    (item,) = report.items
    assert item["reasons"] == {"Evicted": 1, "ProofPending": 1}
    assert [one["pod"] for one in item["pods"]] == ["web-0", "web-1"]
    assert item["recommendation"][0]["shortage"] == "200m"
    assert report.names == ["verticalpodautoscaler.autoscaling.k8s.io/web"]
    assert "  web-1: now: waits (ProofPending): another pod goes first" in text(report)


CAP = make.policy_json(max_allowed={"cpu": "150m"})


@pytest.mark.parametrize(
    ("items", "words", "line"),
    [
        (
            cluster(bounds="50m/50Mi 1/1Gi"),
            ["web-0"],
            "  in 9h, from 2026-01-05T19:00:00Z on: Evict (Evicted)",
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
        ([make.vpa_json(target=None)], ["web"], "  nothing: it has no pod"),
        (
            cluster(make.vpa_json("young", cpu="1", created=timedelta(days=1))),
            ["web-0"],
            "  and not by VPA young: it is younger",
        ),
        (cluster(resourcePolicy={"containerPolicies": [CAP]}), ["web-0"], "maxAllowed: 150m"),
        (cluster(count=25), ["web"], "  and 5 more; -o json shows them all"),
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
    assert reasons == ["Evicted", "ProofPending"]


SAME = make.pod_json(name="web", owner=None)


@pytest.mark.parametrize(
    ("items", "words", "sentence"),
    [
        ([], [], "say what to explain: the name of a pod or of a VPA, or --selector"),
        ([], ["pod"], "say what to explain: pod/NAME"),
        ([], ["-l", "app=none"], "no pod has the labels app=none"),
        ([], ["deploy/web"], '"deploy/web": say pod/web or vpa/web'),
        ([], ["wbe"], 'there is no pod or VPA "wbe" in any namespace; did you mean "web"?'),
        ([], ["pod/web-7"], 'there is no pod "web-7" in any namespace; did you mean "web-'),
        ([], ["vpa/web", "-nshop"], 'there is no VPA "web" in namespace shop'),
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
    ],
)
def test_of_a_large_cluster_little_is_read(
    server: ApiServer, tmp_path: Path, words: list[str], selector: Json
) -> None:
    """A server is asked where something is, and that namespace alone is read."""
    report = of_server(server, tmp_path, *words, "-A", UNCHECKED)
    plurals = (PODS.plural, VPAS.plural)
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
