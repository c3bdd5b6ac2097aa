"""What a process knows comes from files once, or from an API server as it changes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from app.admission.core.overlap import Disjointness
from app.admission.knowledge import (
    ListedSiblings,
    LiveKnowledge,
    RecordedKnowledge,
    check_files,
    review_rules,
)
from app.commands.flags import AdmitSettings
from app.flags.command_line import parse
from app.flags.shared import Scope
from app.kube.client import connect
from app.kube.reach import Origin
from app.model.errors import BadSetting, ClusterError
from app.model.gates import FeatureGate
from app.model.kinds import owner_key
from app.model.workloads import Lookup, Workload
from app.ports import (
    HPAS,
    LIMIT_RANGES,
    REPLICA_SETS,
    SCALED_OBJECTS,
    VPAS,
    WORKLOADS,
    Resource,
)
from app.runtime.live import LiveRuntime
from tests import make
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.connecting import connected, kubeconfig, write
from tests.reached_limits import ReachedLimits
from tests.waiting import eventually


def test_recorded_objects(tmp_path: Path) -> None:
    """Files are read once, and nothing is ever wrong or old."""
    path = tmp_path / "objects.jsonl"
    items = (make.vpa_json(), make.workload_json("Deployment/a", namespace="other"))
    path.write_bytes(b"\n".join(map(orjson.dumps, items)))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.json").write_bytes(orjson.dumps(make.vpa_json("second")))
    known = RecordedKnowledge([path, tmp_path / "more"])
    assert (known.problem(), known.watch_ages()) == ("", {})
    assert known.sources.snapshot() is known.sources.snapshot()
    assert sorted(known.sources.snapshot().of("default").vpas) == ["second", "web"]
    assert not known.sources.is_live
    assert [vpa.name for vpa in known.sources.siblings.of("default") or ()] == ["web", "second"]


def test_what_is_wrong_with_objects_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each object that cannot be used as it is has one line."""
    path = tmp_path / "objects.jsonl"
    path.write_bytes(b"{\n" + orjson.dumps(make.vpa_json()))
    with caplog.at_level(logging.WARNING, "admission"):
        RecordedKnowledge([path])
    (record,) = caplog.records
    assert record.message == "object not used as it is"
    assert record.__dict__["place"] == f"{path}:1"
    assert record.__dict__["problem"].startswith("invalid JSON: ")


def test_files_that_vanish(tmp_path: Path) -> None:
    """Objects that cannot be read when they are wanted are a problem, and no end."""
    known = RecordedKnowledge([tmp_path / "gone.yaml"])
    assert known.problem() == f"{tmp_path}/gone.yaml: No such file or directory"
    assert not known.sources.snapshot().namespaces


def test_check_files(tmp_path: Path) -> None:
    """What processes are to read must be there, for as often as they read it."""
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"")
    os.mkfifo(pipe)
    check_files([file, tmp_path])
    for path, why in ((tmp_path / "x", "No such file"), (pipe, "several processes")):
        with pytest.raises(BadSetting, match=why):
            check_files([file, path])


# --- a live cluster

WATCHED = (VPAS, LIMIT_RANGES, HPAS, SCALED_OBJECTS, *WORKLOADS)

GARBAGE = make.vpa_json("garbage", mode="Initial", cpu="1") | {"status": 7}
BROKEN = make.vpa_json("broken", spec={"targetRef": 7})


@contextmanager
def live(server: ApiServer, folder: Path, scope: Scope | None = None) -> Iterator[LiveKnowledge]:
    """Know the cluster behind a server until the block ends."""
    origin = Origin(write(folder / "config", kubeconfig(server.url)), environ={})
    scope = scope or Scope("", ())
    known = LiveKnowledge(
        lambda: connect(qps=0, burst=1, origin=origin), scope, LiveRuntime(), ReachedLimits()
    )
    try:
        yield known
    finally:
        known.close()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """Serve a cluster with a VPA and its workload."""
    with serving(*WATCHED) as found:
        for item in (make.vpa_json(cpu="1"), GARBAGE, BROKEN):
            found.store(VPAS, item)
        found.store(LIMIT_RANGES, make.limit_range_json(most={"cpu": "2"}))
        yield found


def test_a_live_cluster(server: ApiServer, tmp_path: Path) -> None:
    """Everything that decides is mirrored, and follows what happens."""
    with live(server, tmp_path) as known:
        assert eventually(lambda: not known.problem())
        view = known.sources.snapshot().of("default")
        assert sorted(view.vpas) == ["garbage", "web"]
        assert (view.vpas["garbage"].mode, view.vpas["garbage"].recommendation) == ("Initial", None)
        assert view.limit_ranges.keys() == {"limits"}
        assert known.watch_ages().keys() == {one.plural for one in WATCHED}
        server.store(VPAS, make.vpa_json("new"))
        assert eventually(lambda: "new" in known.sources.snapshot().of("default").vpas)
        assert known.sources.is_live
        assert known.sources.is_read()


@cases(
    "missing unknown",
    {
        "nothing": ((), {HPAS: False, SCALED_OBJECTS: False}),
        "KEDA, which need not be there": ((SCALED_OBJECTS,), {HPAS: False}),
        "HPAs, which are always there": ((HPAS,), {HPAS: True, SCALED_OBJECTS: False}),
    },
)
def test_what_is_not_served(
    tmp_path: Path, missing: Sequence[Resource], unknown: Mapping[Resource, bool]
) -> None:
    """All goes on without it; whether it should be there is told."""
    served = [one for one in WATCHED if one not in missing]
    with serving(*served) as server, live(server, tmp_path) as known:
        assert eventually(lambda: not known.problem())
        ages = known.watch_ages()
        found = {one: ages[one.plural].is_unknown for one in WATCHED if one.plural in ages}
    assert {one: is_unknown for one, is_unknown in found.items() if is_unknown is not None} == (
        unknown
    )


def test_the_version_of_the_server(server: ApiServer, tmp_path: Path) -> None:
    """It is asked for soon after the start; until then, and without an answer, it is not known."""
    with live(server, tmp_path) as known:
        assert eventually(lambda: known.sources.server_version() == (1, 36))
    server.fail("/version", 500, times=1000)
    with live(server, tmp_path) as known:
        assert eventually(lambda: not known.problem())
        assert known.sources.server_version() is None


def test_owners_are_looked_up(server: ApiServer, tmp_path: Path) -> None:
    """An owner that no watch has told of yet is asked for."""
    with live(server, tmp_path) as known:
        assert eventually(lambda: not known.problem())
        with server.holding("watch"):
            server.store(REPLICA_SETS, make.workload_json("ReplicaSet/new"))
            key = owner_key("apps/v1", "ReplicaSet", "new")
            asked = Lookup("default", "apps/v1", "ReplicaSet", "new", key)
            assert isinstance(known.sources.owners.find(asked, 10.0), Workload)


def test_what_cannot_be_read_is_a_problem(server: ApiServer, tmp_path: Path) -> None:
    """Until everything was read once, answers would be given without knowledge."""
    with server.holding("limitranges"), live(server, tmp_path) as known:
        assert eventually(lambda: known.problem() == "limitranges are not read yet")
        assert not known.sources.is_read()
    server.fail("verticalpodautoscalers", 500, times=1000)
    with live(server, tmp_path) as known:
        told = "verticalpodautoscalers are not read yet: "
        assert eventually(lambda: known.problem().startswith(told))


def test_one_namespace(server: ApiServer, tmp_path: Path) -> None:
    """Of a cluster no more is read than was asked for."""
    server.store(VPAS, make.vpa_json("elsewhere", namespace="elsewhere"))
    with live(server, tmp_path, Scope("elsewhere", ())) as known:
        assert eventually(lambda: not known.problem())
        assert list(known.sources.snapshot().namespaces) == ["elsewhere"]


def test_siblings_are_read_from_the_server(server: ApiServer) -> None:
    """The VPAs of a namespace come page by page; one that nobody can read takes no pods."""
    for index in range(1_000):
        server.store(VPAS, make.vpa_json(f"v{index:04}"))
    server.store(VPAS, make.vpa_json("elsewhere", namespace="elsewhere"))
    with connected(server) as cluster:
        found = ListedSiblings(cluster).of("default")
    assert found is not None
    assert len(found) == 1_002
    assert {"web", "garbage", "v0000", "v0999"} <= {vpa.name for vpa in found}
    assert len(server.asked(VPAS.path("default"))) == 11


def test_one_sibling_is_read_from_the_server(server: ApiServer) -> None:
    """A VPA is told from one that has gone, and from not knowing."""
    with connected(server) as cluster:
        siblings = ListedSiblings(cluster)
        found = siblings.named("default", "web")
        assert found is not None
        assert found.name == "web"
        assert siblings.named("default", "gone") is None
        server.fail("verticalpodautoscalers", 500, times=100)
        with pytest.raises(ClusterError):
            siblings.named("default", "web")


def test_siblings_that_cannot_be_read(server: ApiServer) -> None:
    """A server that does not tell leaves the siblings unknown."""
    server.fail("verticalpodautoscalers", 500, times=100)
    with connected(server) as cluster:
        assert ListedSiblings(cluster).of("default") is None


def test_rules_without_flags() -> None:
    """By default gates are closed, boosts have no cap, and overlaps are refused."""
    rules = review_rules(parse(AdmitSettings, [], {}).decisions)
    assert not any(gate in rules.gates for gate in FeatureGate)
    assert rules.max_cpu_boost is None
    assert rules.disjointness is Disjointness.ENFORCE


@pytest.mark.parametrize("mode", Disjointness)
def test_rules_of_flags(mode: Disjointness) -> None:
    """Each flag finds its rule."""
    words = [
        "--feature-gates=CPUStartupBoost=true",
        "--max-allowed-cpu-boost=2",
        f"--selector-disjointness={mode}",
    ]
    rules = review_rules(parse(AdmitSettings, words, {}).decisions)
    assert [gate for gate in FeatureGate if gate in rules.gates] == [FeatureGate.CPU_STARTUP_BOOST]
    assert rules.max_cpu_boost == make.quantity("2")
    assert rules.disjointness is mode
