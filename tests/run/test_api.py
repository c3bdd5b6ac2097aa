"""The cluster in memory as others read it: through the client that reads real ones."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.cli.verbs import VERBS
from app.kube.client import KubeCluster, connect
from app.kube.manifests import documents
from app.model.errors import ClusterError, Invalid, NotFound, Refused
from app.model.fields import Json
from app.model.gates import FeatureGate, FeatureGates
from app.ports import NAMESPACES, PODS, SECRETS, VPAS, PatchKind, Ref, Resource
from app.run.api import ReadPort
from app.run.demo_clusters import DemoClock, announced
from app.runtime.http_server import bound
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import START, SteppedClock
from tests.cases import cases
from tests.flows.autoscaler import NAMESPACE, vpa, workload
from tests.logging_state import kept

REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
GATES = FeatureGates(frozenset({FeatureGate.CPU_STARTUP_BOOST}))
BOOST = {"cpu": {"type": "Factor", "factor": 2}}
SECONDS = 30.0  # that an answer may take, between which clocks go on
WEB = Ref(VPAS, NAMESPACE, "web")


@contextmanager
def read(
    folder: Path, path: str = "token", boost: Json | None = None
) -> Iterator[tuple[Sandbox, KubeCluster, str]]:
    """Open a port to a sandbox with a VPA; yield it, a client of it, and that one's kubeconfig."""
    sandbox = Sandbox(SteppedClock())
    sandbox.apply(*documents.objects("crd"), workload(), vpa(startupBoost=boost or {}))
    sandbox.advance(100)
    listener = bound("127.0.0.1", 0, "--demo")
    port = ReadPort(sandbox.cluster, sandbox.clock, "token", listener)
    port.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/{path}"
    with announced(folder, url, NAMESPACE, GATES):
        config = str(folder / "kubeconfig")
        cluster = connect(config)
        try:
            yield sandbox, cluster, config
        finally:
            cluster.close()
            port.stop()


@cases(
    "ask",
    {
        "a list": (lambda of: of.list(PODS).items,),
        "a list of a namespace": (lambda of: of.list(PODS, NAMESPACE).items,),
        "a selection": (lambda of: of.list(PODS, label_selector="app=web").items,),
        "none": (lambda of: of.list(PODS, label_selector="app=other").items,),
        "a page": (lambda of: of.list(PODS, limit=1).items,),
        "a custom object": (lambda of: of.get(WEB),),
        "a namespace": (lambda of: of.get(Ref(NAMESPACES, "", NAMESPACE)),),
        "kinds": (lambda of: of.request("GET", "/apis/apps/v1"),),
        "discovery": (lambda of: of.request("GET", "/api"),),
        "the version": (lambda of: of.request("GET", "/version"),),
    },
)
def test_answers_are_those_of_the_cluster(tmp_path: Path, ask: Callable[[object], object]) -> None:
    """What is read through the port is what the cluster itself says."""
    with read(tmp_path) as (sandbox, cluster, _):
        assert ask(cluster) == ask(sandbox.cluster)


def test_short_names(tmp_path: Path) -> None:
    """Kinds have the short names by which kubectl knows them, also the custom ones."""
    with read(tmp_path) as (_, cluster, _):
        groups = ("/api/v1", "/apis/apps/v1", "/apis/autoscaling.k8s.io/v1")
        found = {
            entry["name"]: entry["shortNames"]
            for group in groups
            for entry in cluster.request("GET", group)["resources"]
            if "shortNames" in entry
        }
    assert found["pods"] == ["po"]
    assert found["deployments"] == ["deploy"]
    assert found["verticalpodautoscalers"] == ["vpa"]
    assert not any("/" in name for name in found)


def test_pages_follow_one_another(tmp_path: Path) -> None:
    """A long list can be read page by page."""
    with read(tmp_path) as (_, cluster, _):
        first = cluster.list(PODS, NAMESPACE, limit=1)
        second = cluster.list(PODS, NAMESPACE, limit=1, continue_token=first.continue_token)
        names = [one["metadata"]["name"] for one in (*first.items, *second.items)]

        assert names == [one["metadata"]["name"] for one in cluster.list(PODS, NAMESPACE).items]


@cases(
    "act error",
    {
        "create": (lambda to: to.create(Ref(VPAS, NAMESPACE), vpa("other")), Refused),
        "replace": (lambda to: to.replace(WEB, vpa()), Refused),
        "patch": (lambda to: to.patch(WEB, {}, kind=PatchKind.MERGE), Refused),
        "delete": (lambda to: to.delete(WEB), Refused),
        "evict": (lambda to: to.evict(NAMESPACE, "web-0"), Refused),
        "a Secret": (lambda to: to.list(SECRETS), Refused),
        "a watch": (lambda to: list(to.watch(PODS, resource_version="1")), Refused),
        "an object that is not there": (lambda to: to.get(WEB._replace(name="no")), NotFound),
        "a kind that is not there": (lambda to: to.get(Ref(REVIEWS, "", "no")), NotFound),
        "a path that is not there": (lambda to: to.request("GET", "/no"), NotFound),
        "no number": (
            lambda to: to.request("GET", "/api/v1/pods", {"limit": "many"}),
            Invalid,
        ),
        "an invalid object": (
            lambda to: to.create(Ref(VPAS, NAMESPACE), {"spec": 1}, dry_run=True),
            Invalid,
        ),
    },
)
def test_what_is_not_answered(
    tmp_path: Path, act: Callable[[object], object], error: type[ClusterError]
) -> None:
    """Nothing is written, no key is shown; each refusal is one that the client understands."""
    with read(tmp_path) as (sandbox, cluster, _):
        before = sandbox.store.version
        with pytest.raises(error):
            act(cluster)

        assert sandbox.store.version == before


def test_dry_runs_change_nothing(tmp_path: Path) -> None:
    """A dry run is answered as if it was done."""
    with read(tmp_path) as (sandbox, cluster, _):
        before = sandbox.store.version
        created = cluster.create(Ref(VPAS, NAMESPACE), vpa("other"), dry_run=True)

        assert created["metadata"]["uid"]
        assert sandbox.store.version == before


@pytest.mark.parametrize("path", ["", "Token", "token2", "toke"])
def test_who_does_not_know_the_token_reads_nothing(tmp_path: Path, path: str) -> None:
    """The port is open to all of the machine, the kubeconfig to its owner alone."""
    with read(tmp_path, path) as (_, cluster, _), pytest.raises(Refused) as caught:
        cluster.request("GET", "/version")

    assert caught.value.status == 401


@cases(
    "verb resource allowed",
    {
        "read": ("list", "pods", True),
        "write": ("delete", "pods", False),
        "Secrets": ("get", "secrets", False),
    },
)
def test_rights_are_told(tmp_path: Path, verb: str, resource: str, *, allowed: bool) -> None:
    """Who asks what it may do hears what is true."""
    review = {"spec": {"resourceAttributes": {"verb": verb, "resource": resource}}}
    with read(tmp_path) as (_, cluster, _):
        assert cluster.create(Ref(REVIEWS), review)["status"] == {"allowed": allowed}


def test_the_clock_is_that_of_the_cluster(tmp_path: Path) -> None:
    """Questions are asked at the cluster's time of day, which may be years away from ours."""
    with read(tmp_path) as (sandbox, _, config):
        clock = DemoClock(config)
        first = clock.now()
        sandbox.advance(3600)
        second = clock.now()

    assert (first - START).total_seconds() == pytest.approx(100, abs=SECONDS)
    assert (second - first).total_seconds() == pytest.approx(3600, abs=SECONDS)


@cases(
    "words told",
    {
        "plan": (["plan"], "web-"),
        "explain": (["explain", "web"], "VPA shop/web"),
        "recommendations": (["recommendations"], "web  "),
        "doctor": (["doctor"], "vpa: 1 in order"),
    },
)
def test_commands_ask_the_demo(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    """Each command with the flag finds the cluster that runs, with its gates; no other is asked."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / "pl-runs"
    folder.mkdir()
    with read(folder, boost=BOOST), kept():
        command, *names = words
        VERBS[command]([*names, "--demo"], {})

    printed = capsys.readouterr()
    assert told in printed.out
    assert "CPUStartupBoost" not in printed.out + printed.err
