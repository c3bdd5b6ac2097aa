"""The recommender's process on a cluster in memory answers what it recommends, and how it is.

SX-26 and SX-27 are cases that the design papers of the autoscaler promise: monitoring and a
recommendation API.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Final

import httpx
import pytest

from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.kube.manifests import documents
from app.model.errors import Unavailable
from app.model.fields import Json
from app.model.quantity import Quantity
from app.ports import CHECKPOINTS, LEASES, POD_METRICS, VPAS, Ref
from app.recommender.flags import RecommenderSettings
from app.recommender.process import Process
from app.run.simulated import SimulatedRuntime
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests import make
from tests.cluster.numbers import total
from tests.cluster.programs import free_port
from tests.faults import Fault, Faults
from tests.flows.recommending import BIG, evict, vpa
from tests.recommender.core.test_explanation import add_up
from tests.sandbox.worlds import container, deployment
from tests.sandbox_objects import pods_in
from tests.waiting import eventually

WORDS: Final = ("target", "lowerBound", "upperBound", "uncappedTarget")
LOADS: Final = {
    "steady": "cpu: constant 0.2, memory: constant 150Mi, noise: 0",
    "rising": "cpu: daily 100m 900m, memory: leaking 200Mi 300Mi",
    "spiky": "cpu: spiky 100m 2 10m 30s, memory: constant 300Mi",
}


@dataclass
class Running:
    """A process, the cluster it works on, and where it answers."""

    sandbox: Sandbox
    faults: Faults
    process: Process
    url: str

    def get(self, path: str) -> httpx.Response:
        """Ask."""
        return httpx.get(self.url + path, timeout=30)

    def answer(self, path: str) -> Json:
        """Return a good answer."""
        found: Json = self.get(path).raise_for_status().json()
        return found

    def minutes(self, count: int) -> None:
        """Let minutes pass, and the moment in which watches tell of what was written last."""
        self.sandbox.advance(60 * count + 0.5)


def cluster() -> Sandbox:
    """Return a cluster with some workloads and VPAs."""
    sandbox = Sandbox(SteppedClock())
    assert sandbox.apply(*documents.objects("crd")) == []
    for name, load in LOADS.items():
        both = (container("app", limits=BIG), container("log", limits=BIG))
        pods = deployment(name, *both, replicas=2, load=load)
        policies = [make.policy_json("app", max_allowed={"cpu": "50m"})] if name == "spiky" else ()
        assert sandbox.apply(pods, vpa(name, policies=policies)) == []
    sandbox.advance(60)
    return sandbox


@contextmanager
def running(sandbox: Sandbox, *flags: str) -> Iterator[Running]:
    """Run the process; stop it in any case."""
    faults = Faults()
    port = free_port()
    settings = parse(RecommenderSettings, [f"--address=127.0.0.1:{port}", *flags], {})
    process = Process(
        settings, SimulatedRuntime(sandbox, faults.before(sandbox.cluster)), PodPreviewer
    )
    process.start()
    found = Running(sandbox, faults, process, f"http://127.0.0.1:{port}")
    try:
        assert eventually(lambda: found.get("/health-check").status_code == 200)
        yield found
    finally:
        process.stop()


def stands(sandbox: Sandbox) -> dict[str, list[Json]]:
    """Return what the statuses say, by VPA."""
    return {
        item["metadata"]["name"]: item.get("status", {})
        .get("recommendation", {})
        .get("containerRecommendations", [])
        for item in sandbox.cluster.list(VPAS).items
    }


def told(page: Json) -> dict[str, list[Json]]:
    """Return what was answered, in the form of statuses."""
    return {
        item["name"]: [
            {"containerName": entry["container"]}
            | {word: entry[word] for word in WORDS if entry[word]}
            for entry in item["containers"]
            if entry["target"]
        ]
        for item in page["items"]
    }


def entries(page: Json) -> list[Json]:
    """Return all containers of an answer."""
    return [entry for item in page["items"] for entry in item["containers"]]


def ways(page: Json) -> Iterator[tuple[Json, str, Json, str]]:
    """Yield container, resource, derivation and word of each amount that was derived."""
    for entry in entries(page):
        for resource, way in (entry["derivation"] or {}).items():
            if way["isShown"]:
                yield from ((entry, resource, way, word) for word in WORDS[:3])


def explained(page: Json) -> int:
    """Compute along with all steps to all amounts, which must be those published; count them."""
    count = 0
    for entry, resource, way, word in ways(page):
        add_up(way, way[word], word)
        assert entry["origin"][resource] == "computed"
        assert entry[word][resource] == way[word]["quantity"]
        count += 1
    return count


def test_sx_27() -> None:
    """The API answers what the statuses say, every minute, and every step to it adds up."""
    with running(cluster()) as found:
        for minute in range(20):
            found.minutes(1)
            page = found.answer("/v1/recommendations?explain=true")
            assert told(page) == stands(found.sandbox), minute
            assert explained(page) == 6 * 2 * 3
        one = found.answer("/v1/namespaces/default/recommendations/spiky?explain=true")
        assert one in page["items"]
        assert one["containers"][0]["cappedBy"]["cpu"]["target"] == "maxAllowed"
        evidence = one["containers"][0]["evidence"]
        assert evidence["samples"] >= 20
        assert evidence["livingContainers"] == 2


def test_sx_27_after_a_kill() -> None:
    """What a kill for memory has changed is answered before the next round."""
    sandbox = cluster()
    with running(sandbox) as found:
        found.minutes(2)
        before = found.answer("/v1/namespaces/default/recommendations/steady")["containers"][0]
        evict(sandbox, pods_in(sandbox, selector="app=steady")[0], "2Gi")
        found.sandbox.advance(2)
        page = found.answer("/v1/recommendations?explain=true")
        after = next(item for item in page["items"] if item["name"] == "steady")["containers"][0]

    assert told(page) == stands(sandbox)
    assert explained(page) == 6 * 2 * 3
    assert Quantity.parse(after["target"]["memory"]) > Quantity.parse("2Gi")
    assert Quantity.parse(before["target"]["memory"]) < Quantity.parse("2Gi")


def test_sx_27_after_a_restart() -> None:
    """A new process answers what stands before its first round, and computes it anew after."""
    sandbox = cluster()
    with running(sandbox) as found:
        found.minutes(5)
    with running(sandbox) as found:
        page = found.answer("/v1/recommendations")
        assert told(page) == stands(sandbox)
        assert {item["computedAt"] for item in page["items"]} == {None}
        found.faults.order(Fault(Unavailable("down"), "list", CHECKPOINTS, times=2))
        found.minutes(1)
        page = found.answer("/v1/recommendations")
        assert told(page) == stands(sandbox)
        assert {entry["origin"]["cpu"] for entry in entries(page)} == {"kept"}
        found.minutes(1)
        page = found.answer("/v1/recommendations?explain=true")
        assert told(page) == stands(sandbox)
        assert explained(page) == 6 * 2 * 3
        assert min(entry["evidence"]["samples"] for entry in entries(page)) >= 5


def test_answers_are_never_torn() -> None:
    """However many ask while rounds go on, each answer is of one moment and adds up."""
    over = Event()

    def ask(found: Running) -> int:
        count, latest = 0, ""
        while not over.is_set():
            page = found.answer("/v1/recommendations?explain=true")
            for _, _, way, word in ways(page):
                add_up(way, way[word], word)
            for item in page["items"]:
                known = [one["evidence"] for one in item["containers"] if one["evidence"]]
                assert len({evidence["lastSample"] for evidence in known}) <= 1
            computed = max((item["computedAt"] or "") for item in page["items"])
            assert computed >= latest
            latest, count = computed, count + 1
        return count

    with running(cluster()) as found, ThreadPoolExecutor(4) as pool:
        found.minutes(1)
        asked = [pool.submit(ask, found) for _ in range(4)]
        try:
            found.minutes(30)
        finally:
            over.set()
        assert sum(one.result() for one in asked) > 4


def test_a_standby_answers() -> None:
    """It tells what stands, and who can tell why."""
    sandbox = cluster()
    with running(sandbox, "--leader-elect=true") as leader:
        leader.minutes(2)
        holder = sandbox.cluster.get(Ref(LEASES, "kube-system", "vpa-recommender-lease"))
        with running(sandbox, "--leader-elect=true") as standby:
            standby.minutes(1)
            assert told(standby.answer("/v1/recommendations")) == stands(sandbox)
            assert told(leader.answer("/v1/recommendations?explain=true")) == stands(sandbox)
            refused = standby.get("/v1/recommendations?explain=true")
    assert refused.status_code == 503
    assert holder["spec"]["holderIdentity"] in refused.json()["detail"]


def test_pods_are_told_of() -> None:
    """What a pod would get is what a new one gets of the webhook."""
    sandbox = cluster()
    with running(sandbox) as found:
        found.minutes(3)
        for pod in pods_in(sandbox, selector="app=spiky"):
            answer = found.answer(f"/v1/namespaces/default/pods/{pod['metadata']['name']}")
            assert (answer["reason"], answer["vpa"]) == ("Sized", "spiky")
            targets = {
                entry["containerName"]: entry["target"] for entry in stands(sandbox)["spiky"]
            }
            gets = {one["container"]: one["gets"]["requests"] for one in answer["containers"]}
            assert gets == targets


# --- SX-26: monitoring

QUALITY: Final = "vpa_quality_"
OURS: Final = "vpa_recommender_"
MOVING: Final = [  # names and labels of what must grow
    *(
        (f"{OURS}execution_latency_seconds_count", {"step": step})
        for step in ("LoadVPAs", "LoadPods", "LoadMetrics", "DeleteRemovedPods", "UpdateVPAs")
    ),
    *(
        (f"{OURS}execution_latency_seconds_count", {"step": step})
        for step in ("MaintainCheckpoints", "GarbageCollect", "total")
    ),
    (f"{OURS}recommendation_latency_seconds_count", {}),
    (f"{OURS}metric_server_responses", {"is_error": "false"}),
    (f"{OURS}metric_server_responses", {"is_error": "true"}),
    (f"{OURS}aggregate_container_states_count", {}),
    (f"{OURS}vpa_objects_count", {"api": "v1", "has_recommendation": "true"}),
    (f"{OURS}vpa_objects_count", {"update_mode": "Off", "matches_pods": "false"}),
    (f"{OURS}vpa_objects_count", {"unsupported_config": "true"}),
    (f"{OURS}overlapping_pods", {"namespace": "default"}),
    (f"{OURS}samples_total", {"fate": "cpu"}),
    (f"{OURS}samples_total", {"fate": "kills"}),
    ("vpa_resources_get_resources_count", {}),
    (f"{QUALITY}usage_recommendation_relative_diffs_count", {"resource": "cpu"}),
    (f"{QUALITY}usage_recommendation_relative_diffs_count", {"resource": "memory"}),
    (f"{QUALITY}usage_recommendation_relative_diffs_count", {"is_oom": "true"}),
    (f"{QUALITY}usage_sample_missing_recommendation_count", {"resource": "cpu"}),
    (f"{QUALITY}usage_sample_missing_recommendation_count", {"resource": "memory"}),
    (f"{QUALITY}cpu_recommendation_over_usage_diffs_cores_count", {}),
    (f"{QUALITY}cpu_recommendation_lower_equal_usage_diffs_cores_count", {}),
    (f"{QUALITY}mem_recommendation_over_usage_diffs_bytes_count", {"is_oom": "false"}),
    (f"{QUALITY}mem_recommendation_lower_equal_usage_diffs_bytes_count", {"is_oom": "true"}),
    (f"{QUALITY}cpu_recommendations_cores_count", {}),
    (f"{QUALITY}mem_recommendations_bytes_count", {}),
    (f"{QUALITY}relative_recommendation_changes_count", {"vpa_size_log2": "1"}),
    ("process_cpu_seconds_total", {}),
]


@pytest.fixture(scope="module")
def pages() -> tuple[str, str, str]:
    """What the process tells of itself: early, after all sorts of events, and when all is calm."""
    sandbox = cluster()
    with running(sandbox) as found:
        found.minutes(1)
        early = found.get("/metrics").text
        more = [
            vpa("late", target="Deployment/steady", selector={"matchLabels": {"app": "steady"}}),
            vpa("double", target="Deployment/steady", selector={"matchLabels": {"app": "steady"}}),
            vpa("nobody", target="Deployment/none", updatePolicy={"updateMode": "Off"}),
        ]
        sandbox.apply(deployment("none", replicas=0))
        sandbox.apply(deployment("fresh", replicas=2), vpa("fresh"))
        sandbox.apply(*more, vpa("lost"))
        found.faults.order(Fault(Unavailable("down"), "list", POD_METRICS, times=1))
        evict(sandbox, pods_in(sandbox, selector="app=spiky")[0], "2Gi")
        found.minutes(12)
        late = found.get("/metrics").text
        for item in more:
            sandbox.cluster.delete(Ref(VPAS, "default", item["metadata"]["name"]))
        found.minutes(2)
        return early, late, found.get("/metrics").text


@pytest.mark.parametrize(
    ("name", "labels"), [pytest.param(*row, id=" ".join(map(str, row))) for row in MOVING]
)
def test_sx_26(pages: tuple[str, str, str], name: str, labels: dict[str, str]) -> None:
    """Every number that the upstream recommender tells, and each of ours, exists and moves."""
    early, late, _ = pages
    assert total(late, name, **labels) > total(early, name, **labels)


def test_sx_26_gauges_of_gone_vpas_disappear(pages: tuple[str, str, str]) -> None:
    """VPAs that are gone are counted no more, and their overlaps are not told as zero."""
    _, late, calm = pages
    name = f"{OURS}vpa_objects_count"
    assert total(late, name, update_mode="Off") == 1
    assert total(calm, name, update_mode="Off") == 0
    assert total(late, name) - total(calm, name) == 3
    assert f"{OURS}overlapping_pods{{" in late
    assert f"{OURS}overlapping_pods{{" not in calm


def test_sx_26_modes_that_change_nothing_are_not_judged(pages: tuple[str, str, str]) -> None:
    """Nobody promised anything to pods of VPAs in mode Off."""
    assert not [
        line
        for line in pages[1].splitlines()
        if line.startswith(f"{QUALITY}usage") and 'update_mode="Off"' in line
    ]


def test_as_upstream() -> None:
    """The model that does as upstream answers, explains and is judged in the same way."""
    sandbox = cluster()
    with running(sandbox, "--parity=upstream") as found:
        found.minutes(4)
        page = found.answer("/v1/recommendations?explain=true")
        numbers = found.get("/metrics").text
    assert told(page) == stands(sandbox)
    assert explained(page) == 6 * 2 * 3
    for name in ("usage_recommendation_relative_diffs_count", "cpu_recommendations_cores_count"):
        assert total(numbers, f"{QUALITY}{name}") > 0
