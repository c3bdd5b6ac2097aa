"""A dry run on a cluster reads, tells what would be done, and writes nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.model.errors import Refused
from app.model.fields import Json
from app.model.snapshot import Snapshot
from app.ports import (
    CHECKPOINTS,
    EVENTS,
    LEASES,
    LIMIT_RANGES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_METRICS,
    PODS,
    VPAS,
    WORKLOADS,
    PatchKind,
    Ref,
)
from app.run.dry_run import Drafts, ReadOnlyCluster, UnsentWrite
from app.runtime.clock import SystemClock
from tests import make
from tests.cases import cases
from tests.cluster.programs import free_port
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import connected, kubeconfig, write

ROOT = Path(__file__).parents[2]
READ = (VPAS, CHECKPOINTS, PODS, POD_METRICS, EVENTS, LEASES, LIMIT_RANGES, NODES)
PORTS = ("port", "admission-port", "recommender-port", "updater-port", "page-port")
REVIEWS = "/apis/authorization.k8s.io/"
WRITES = ("POST", "PUT", "PATCH", "DELETE")
UID = {"uid": "one"}
STORED = make.vpa_json(cpu="100m", metadata=UID)


def fill(server: ApiServer) -> None:
    """Bring in a workload of two pods that ask for too little, their usage, and a new VPA."""
    now = SystemClock().now()
    workload = make.workload_json(replicas=2)
    server.store(WORKLOADS[2], workload)
    server.store(VPAS, make.vpa_json(mode="Recreate"))
    for number in range(2):
        pod = make.pod_json(name=f"web-{number}", cpu="100m", memory="100Mi")
        server.store(PODS, make.running_json(pod, started=now, ready_since=now))
        metrics: Json = {
            "metadata": {"name": f"web-{number}", "namespace": "default"},
            "timestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "window": "15s",
            "containers": [{"name": "app", "usage": {"cpu": "450m", "memory": "300Mi"}}],
        }
        server.store(POD_METRICS, metrics)


def test_it_reads_tells_and_writes_nothing(tmp_path: Path) -> None:
    """What is recommended and what would be done is told; no request changes anything."""
    with serving(*READ, POD_DISRUPTION_BUDGETS, *WORKLOADS) as server:
        fill(server)
        path = write(tmp_path / "config", kubeconfig(server.url))
        ports = [f"--{name}={free_port()}" for name in PORTS]
        words = ["run", f"--kubeconfig={path}", "--dry-run", "--for=8s", *ports]
        done = subprocess.run(
            [sys.executable, "-m", "app", *words],
            cwd=ROOT,
            env=os.environ,
            capture_output=True,
            timeout=60,
            check=False,
        )
        # Who asks what it may do posts a review, of which nothing stays.
        written = [
            one for one in server.requests if one.method in WRITES and REVIEWS not in one.path
        ]

    output = done.stdout.decode()
    assert (done.returncode, done.stderr, written) == (0, b"", [])
    assert "evict     default/web-" in output
    assert re.search("would be done: .* -> ", output)
    assert "default/VerticalPodAutoscaler web: not sent: " in output
    assert "errors of ours" not in output


Told = list[tuple[str, str, str]]


@pytest.fixture
def told() -> Told:
    """Return what was told instead of being sent."""
    return []


def unwritten(server: ApiServer, told: Told, act: object) -> object:
    """Act upon a cluster that is not written, and return what that answers."""

    def tell(unsent: UnsentWrite) -> None:
        told.append(
            (unsent.verb, unsent.ref.resource.kind, f"{unsent.ref.namespace}/{unsent.ref.name}")
        )

    assert callable(act)
    with connected(server) as cluster:
        return act(ReadOnlyCluster(cluster, tell))


BODY: Json = {"metadata": {"name": "web"}, "spec": {}}
OPERATION = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}


@cases(
    "act verb",
    {
        "create": (lambda to: to.create(Ref(VPAS, "default"), BODY), "create"),
        "replace": (lambda to: to.replace(Ref(VPAS, "default", "web"), BODY), "replace"),
        "patch": (lambda to: to.patch(Ref(VPAS, "default", "web"), [OPERATION]), "patch"),
        "merge a status": (
            lambda to: to.patch(
                Ref(VPAS, "default", "web", subresource="status"),
                {"status": {}},
                kind=PatchKind.MERGE,
            ),
            "patch status",
        ),
        "delete": (lambda to: to.delete(Ref(VPAS, "default", "web")), "delete"),
        "evict": (lambda to: to.evict("default", "web"), "evict"),
    },
)
def test_no_write_is_sent(told: Told, act: object, verb: str) -> None:
    """Each write is told with what it is for, and the server hears nothing of it."""
    with serving(VPAS, PODS) as server:
        server.store(VPAS, make.vpa_json())
        unwritten(server, told, act)

        assert told == [(verb, "Pod" if verb == "evict" else VPAS.kind, "default/web")]
        assert [one.method for one in server.requests if one.method != "GET"] == []


def test_a_patch_is_answered_as_if_it_was_done(told: Told) -> None:
    """Whoever writes goes on with the object that would be there."""
    with serving(VPAS) as server:
        server.store(VPAS, make.vpa_json())
        found = unwritten(
            server, told, lambda to: to.patch(Ref(VPAS, "default", "web"), [OPERATION])
        )

    assert isinstance(found, dict)
    assert found["metadata"]["labels"] == {"a": "b"}


def test_plain_requests_are_reads(told: Told) -> None:
    """Discovery is let through, and nothing else."""
    with serving(VPAS) as server, pytest.raises(Refused, match="sends nothing but reads"):
        unwritten(server, told, lambda to: to.request("POST", "/apis"))


def target(snapshot: Snapshot) -> list[str]:
    """Return what the VPA recommends."""
    found = snapshot.of("default").vpas["web"].recommendation or ()
    return [str(one.target["cpu"]) for one in found]


@cases(
    "draft shown",
    {
        "its own": (make.vpa_json(cpu="300m", metadata=UID), "300m"),
        "a former one": (make.vpa_json(cpu="300m", metadata={"uid": "two"}), "100m"),
        "another one": (make.vpa_json("other", cpu="300m", metadata=UID), "100m"),
    },
)
def test_a_draft_is_shown_over_its_vpa(draft: Json, shown: str) -> None:
    """The status that was not sent counts, as long as the object is the one it was for."""
    drafts = Drafts()
    drafts.add(draft)

    assert target(drafts.over(make.snapshot(STORED))) == [shown]


def test_the_spec_is_the_one_of_the_cluster() -> None:
    """A VPA that was changed since is shown as it is now, but for its status."""
    drafts = Drafts()
    drafts.add(make.vpa_json(cpu="300m", mode="Off", metadata=UID))
    changed = make.vpa_json(cpu="100m", mode="Recreate", metadata=UID)
    shown = drafts.over(make.snapshot(changed)).of("default").vpas["web"]

    assert shown.update_policy is not None
    assert shown.update_policy.mode == "Recreate"


def test_what_cannot_be_read_is_no_draft() -> None:
    """An object that nobody can read changes nothing."""
    drafts = Drafts()

    assert drafts.add({"metadata": {"name": "web"}, "spec": "nonsense"}) is None
    assert target(drafts.over(make.snapshot(STORED))) == ["100m"]
