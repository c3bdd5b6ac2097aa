"""VPAs in mode Off are made for workloads that have none, and a cluster takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pytest
import yaml

from app.cli import main
from app.commands.flags import InitSettings, ValidateSettings
from app.commands.init import init_report
from app.commands.validate_report import validate_report
from app.flags.command_line import parse
from app.kube.manifests import documents
from app.model.errors import BadSetting
from app.model.fields import Json
from app.output import Output, Report, shown
from app.ports import PODS, STATEFUL_SETS, VPAS, WORKLOADS
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock as SandboxClock
from tests import make
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import kubeconfig, write
from tests.logging_state import kept
from tests.stepped_clock import SteppedClock

ROOT = Path(__file__).parents[2]
APPLICATIONS = ROOT / "docs" / "examples" / "applications.yaml"
SHOP = "example.com/v1/Shop/all"
GADGET = "example.com/v1/Gadget/tool"


@pytest.fixture(autouse=True)
def kept_logging() -> Iterator[None]:
    """Put logging back as it was."""
    with kept():
        yield


def made(folder: Path, objects: Sequence[Json], *words: str) -> Report:
    """Return what is made for objects in a file."""
    path = folder / "objects.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, objects)))
    settings = parse(InitSettings, [*words, f"--objects={path}"], {})
    return init_report(settings, SteppedClock(make.NOW))


def table(report: Report) -> list[list[str]]:
    """Return the rows that people see."""
    return [line.split() for line in shown(report, Output.TABLE)][1:]


MANY = [
    make.workload_json("Deployment/web", metadata={"labels": {"team": "a"}}),
    make.workload_json("ReplicaSet/web-1", owner="Deployment/web"),
    make.pod_json(name="web-1-x", owner="ReplicaSet/web-1"),
    make.workload_json("StatefulSet/web"),
    make.workload_json("DaemonSet/agent", namespace="kube-system"),
    make.workload_json("CronJob/nightly"),
    make.workload_json("Job/nightly-1", owner="CronJob/nightly"),
    make.workload_json("Job/once"),
    make.workload_json("Deployment/api"),
    make.vpa_json("for-api", target="Deployment/api"),
    make.vpa_json("nightly", target="Deployment/gone"),
]


def test_names_that_are_taken(tmp_path: Path) -> None:
    """A VPA of the same name is not overwritten, neither where the kind is added to it."""
    others = [make.vpa_json(name, target="Deployment/x") for name in ("db", "db-statefulset")]
    report = made(tmp_path, [make.workload_json("StatefulSet/db"), *others])
    assert table(report) == [["default", "db-statefulset-vpa", "statefulset/db"]]


def test_pods_of_a_node(tmp_path: Path) -> None:
    """A static pod, which its node owns, is nothing that a VPA could size."""
    static = make.pod_json(name="proxy-node-1")
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "n", "controller": True}
    static["metadata"]["ownerReferences"] = [owner]
    report = made(tmp_path, [static, make.workload_json("StatefulSet/db")])
    assert table(report) == [["default", "db", "statefulset/db"]]


def test_one_for_each_topmost_controller(tmp_path: Path) -> None:
    """What something owns, runs once or has a VPA is left out; equal names are told apart."""
    report = made(tmp_path, MANY)
    assert table(report) == [
        ["default", "nightly-cronjob", "cronjob/nightly"],
        ["default", "web-deployment", "deployment/web"],
        ["default", "web-statefulset", "statefulset/web"],
        ["kube-system", "agent", "daemonset/agent"],
    ]
    assert report.notes == ["left out, because they run once: job/once; name them to have them"]
    assert report.items[0] == {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "nightly-cronjob", "namespace": "default"},
        "spec": {
            "targetRef": {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly"},
            "updatePolicy": {"updateMode": "Off"},
        },
    }


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["-n", "kube-system"], ["agent"]),
        (["deploy/web"], ["web-deployment"]),
        (["cj/nightly", "sts/web"], ["nightly-cronjob", "web-statefulset"]),
        (["job/once"], ["once"]),
        (["-l", "team=a"], ["web-deployment"]),
    ],
)
def test_what_is_asked_for(tmp_path: Path, words: list[str], names: list[str]) -> None:
    """Namespaces, labels of workloads and names choose; who names a Job gets it."""
    assert [row[1] for row in table(made(tmp_path, MANY, *words))] == names


def test_custom_owners(tmp_path: Path) -> None:
    """A custom owner that can be scaled is the target, in the version that is in use."""
    objects = [
        make.definition_json("Gadget"),
        gadget(),
        make.workload_json("ReplicaSet/tool-1", owner=GADGET),
        make.workload_json("Deployment/shop", owner=SHOP),
    ]
    found = made(tmp_path, objects)
    assert [item["spec"]["targetRef"] for item in found.items] == [
        {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "tool"},
    ]
    told = "Shop.example.com/all: no CustomResourceDefinition of Shop.example.com was given"
    assert found.notes == [f"left out: Deployment/shop: its owner {told}"]
    absent = made(tmp_path, [*objects, make.definition_json("Shop")])
    assert [row[1] for row in table(absent)] == ["shop", "tool"]


def gadget() -> Json:
    """Return a custom object that can be scaled."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "tool", "namespace": "default"},
        "spec": {"replicas": 1},
        "status": {"selector": "app=web"},
    }


@pytest.mark.parametrize(
    ("objects", "words", "note"),
    [
        ([], [], "no workload was found anywhere"),
        ([], ["-nshop"], "no workload was found in namespace shop; -A looks at all"),
        (MANY, ["deploy/api"], "nothing is missing: deploy/api: its VPA is for-api"),
    ],
)
def test_nothing_to_make(tmp_path: Path, objects: list[Json], words: list[str], note: str) -> None:
    """Where there is nothing to make it is said why."""
    report = made(tmp_path, objects, *words)
    assert (list(shown(report, Output.YAML)), report.notes) == ([], [note])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rs/web-1"], "rs/web-1 in any namespace has an owner; name the topmost one"),
        (["-nkube-system", "deploy/web"], 'there is no deploy "web" in namespace kube-system; -A'),
        (["deploy/wbe"], 'there is no deploy "wbe" in any namespace; did you mean "web"?'),
        (["web"], '"web": say deploy/web, sts/web and so on'),
    ],
)
def test_wrong_questions(tmp_path: Path, words: list[str], sentence: str) -> None:
    """A name of nothing is told in a sentence."""
    with pytest.raises(BadSetting, match=f"^{re.escape(sentence)}"):
        made(tmp_path, MANY, *words)


def test_a_cluster_takes_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The YAML can be applied as it is, nothing is wrong with it, and then nothing is missing."""
    assert main(["init", f"--objects={APPLICATIONS}"]) == 0
    printed = capsys.readouterr().out
    vpas = tmp_path / "vpas.yaml"
    vpas.write_text(printed)
    sandbox = Sandbox(SandboxClock())
    definitions = map(yaml.safe_dump, documents.objects("crd"))
    assert sandbox.apply(*definitions, APPLICATIONS.read_text()) == []
    assert sandbox.apply(printed) == []
    stored = sandbox.cluster.list(VPAS).items
    sandbox.close()
    names = [item["metadata"]["name"] for item in stored]
    assert sorted(names) == [item["metadata"]["name"] for item in yaml.safe_load_all(printed)]
    assert {item["spec"]["updatePolicy"]["updateMode"] for item in stored} == {"Off"}

    judged = parse(ValidateSettings, [str(vpas), f"--objects={APPLICATIONS}", "--strict"], {})
    assert validate_report(judged, SteppedClock()).items == []
    assert main(["init", f"--objects={APPLICATIONS}", f"--objects={vpas}"]) == 0
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("plumbline: nothing is missing: ")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """An API server with a StatefulSet that has no VPA."""
    with serving(*WORKLOADS, VPAS, PODS) as found:
        found.store(STATEFUL_SETS, make.workload_json())
        yield found


def test_of_a_cluster(server: ApiServer, tmp_path: Path) -> None:
    """A cluster is only read."""
    path = write(tmp_path / "config", kubeconfig(server.url))
    settings = parse(InitSettings, [f"--kubeconfig={path}"], {})
    report = init_report(settings, SteppedClock(make.NOW))
    assert [item["metadata"]["name"] for item in report.items] == ["web"]
    assert {request.method for request in server.requests} == {"GET"}
