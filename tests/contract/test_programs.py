"""What programs do in their pods: they start slowly, end, use too much, and are measured."""

from __future__ import annotations

import pytest

from app.model.errors import NotFound
from app.model.quantity import Quantity
from app.ports import POD_METRICS, Clock, Cluster, Json
from tests.cases import cases
from tests.contract.building import container, resources
from tests.contract.conftest import KUBECONFIG
from tests.contract.running import (
    ASKED,
    LOAD,
    MEMORY_LIMIT,
    NodePods,
    conditions,
    is_ready,
    is_resizing,
    only_status,
)
from tests.contract.space import Space

pytestmark = pytest.mark.usefixtures("node")

SMALL = resources({"memory": "50Mi"}, {"memory": "50Mi"})
TOO_MUCH = "memory: constant 60Mi, noise: 0"
TURNS_SECONDS = 120  # in which usage is measured twice, also on a busy machine


class Only(NodePods):
    """The only pod of a namespace."""

    def await_pause(self) -> Json:
        """Wait until its only container has ended and is to come again."""

        def pause() -> Json | None:
            status = only_status(self.now())
            return status if "terminated" in status["state"] else None

        return self.eventually(pause)

    def await_restarts(self, count: int) -> Json:
        """Wait until its only container was started again so often."""

        def restarted() -> Json | None:
            for status in self.now()["status"].get("containerStatuses") or ():
                if status["restartCount"] >= count:
                    return dict(status)
            return None

        return self.eventually(restarted)

    def measured(self) -> dict[str, Json]:
        """What its containers use, as far as it is known."""
        for found in self.items(POD_METRICS):
            return {entry["name"]: entry["usage"] for entry in found["containers"]}
        return {}


@pytest.fixture
def only(space: Space) -> Only:
    """A pod of the case's own."""
    return Only(space.cluster, space.namespace, space.eventually)


@pytest.fixture
def measuring(cluster: Cluster) -> None:
    """What measures."""
    groups = {found["name"] for found in cluster.request("GET", "/apis")["groups"]}
    if POD_METRICS.group not in groups:
        pytest.skip("nothing measures here")


def test_a_start_takes_its_time(only: Only, clock: Clock) -> None:
    """A program that works before it is of use runs at once, and is Ready when it answers."""
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    only.start(container(resources=ASKED, readinessProbe=probe), annotations={LOAD: "startup: 1 6"})
    only.eventually(lambda: only.now()["status"]["phase"] == "Running")
    begun = clock.monotonic()
    first = only.now()
    only.eventually(lambda: is_ready(only.now()))

    assert not is_ready(first)
    assert conditions(first)["Ready"]["reason"] == "ContainersNotReady"
    assert clock.monotonic() - begun > 3
    assert only_status(only.now())["restartCount"] == 0


def test_containers_that_come_first(only: Only) -> None:
    """What is to be done first ends; what is to be restarted always runs beside the others."""
    inits = [container("first"), container("beside", restartPolicy="Always")]
    only.start(annotations={LOAD: "cpu: constant 10m"}, initContainers=inits)
    only.eventually(lambda: is_ready(only.now()))
    found = {entry["name"]: entry for entry in only.now()["status"]["initContainerStatuses"]}

    assert found["first"]["state"]["terminated"]["exitCode"] == 0
    assert found["first"]["state"]["terminated"]["reason"] == "Completed"
    assert found["beside"]["state"]["running"]["startedAt"]
    assert found["beside"]["ready"]


@cases(
    "load policy phase code",
    {
        "well": ("exit: 1s", "Never", "Succeeded", 0),
        "badly": ("exit: 1s 3", "Never", "Failed", 3),
        "well, so not again": ("exit: 1s", "OnFailure", "Succeeded", 0),
    },
)
def test_programs_that_end(only: Only, load: str, policy: str, phase: str, code: int) -> None:
    """A pod ends with its program if that is not to come again; a resize is then in vain."""
    only.start(container(resources=ASKED), annotations={LOAD: load}, restartPolicy=policy)
    only.eventually(lambda: only.now()["status"]["phase"] == phase)
    ended = only.now()
    patched = only.resize("30m")

    assert only_status(ended)["state"]["terminated"]["exitCode"] == code
    assert conditions(ended)["Ready"]["status"] == "False"
    assert patched["metadata"]["generation"] == 2
    with pytest.raises(AssertionError, match="it did not come to be so in time"):
        only.eventually(lambda: only.now()["status"]["observedGeneration"] == 2, seconds=2)
    assert not is_resizing(only.now())


def test_programs_that_fail_come_again(only: Only) -> None:
    """At once for the first time, with how it ended in the last state."""
    only.start(container(), annotations={LOAD: "exit: 1s 3"}, restartPolicy="OnFailure")
    status = only.await_restarts(1)

    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["lastState"]["terminated"]["reason"] == "Error"
    assert only.now()["status"]["phase"] == "Running"


def test_out_of_memory(only: Only, clock: Clock) -> None:
    """A container that uses more than its limit is killed each time, with longer pauses."""
    only.start(container(resources=SMALL), annotations={LOAD: TOO_MUCH})
    status = only.await_restarts(1)
    last = status["lastState"]["terminated"]
    pauses = []
    for restarts in (2, 3):
        begun, waiting = clock.monotonic(), only.await_pause()
        killed = waiting["state"]["terminated"]
        assert (killed["reason"], killed["exitCode"]) == ("OOMKilled", 137)
        assert waiting["restartCount"] == restarts - 1
        assert not is_ready(only.now())
        only.await_restarts(restarts)
        pauses.append(clock.monotonic() - begun)

    assert (last["reason"], last["exitCode"]) == ("OOMKilled", 137)
    assert only.now()["status"]["phase"] == "Running"
    assert 8 < pauses[0] < 25  # ten seconds, and until the kubelet looks again
    assert 18 < pauses[1] < 45  # twice as many
    assert only.events("BackOff")


def test_a_resize_ends_the_pause(only: Only, clock: Clock) -> None:
    """What waits to be started again is worth a new try with another size."""
    only.start(container(resources=SMALL), annotations={LOAD: TOO_MUCH})
    only.await_restarts(1)
    waiting = only.await_pause()
    begun = clock.monotonic()
    only.resize("100Mi", MEMORY_LIMIT)
    only.eventually(lambda: is_ready(only.now()))
    after = only_status(only.now())

    assert clock.monotonic() - begun < 6
    assert after["restartCount"] == waiting["restartCount"] + 1
    assert after["resources"]["limits"] == {"memory": "100Mi"}
    assert not is_resizing(only.now())


@pytest.mark.usefixtures("measuring")
def test_usage_is_measured(only: Only) -> None:
    """A running pod comes to have samples: labels, a window, what each container uses."""
    capped = container("capped", resources=resources({"cpu": "20m"}, {"cpu": "200m"}))
    only.start(
        capped,
        container("plain"),
        annotations={LOAD: "cpu: constant 1, memory: constant 50Mi, noise: 0"},
    )

    def is_steady() -> bool:
        return str(only.measured().get("capped", {}).get("cpu")).startswith(("199", "2"))

    only.eventually(is_steady, seconds=TURNS_SECONDS)
    (found,) = only.items(POD_METRICS, labels="app=contract")
    alone = only.get(POD_METRICS, "pod")

    assert found["metadata"]["name"] == alone["metadata"]["name"] == "pod"
    assert found["metadata"]["labels"]["app"] == "contract"
    assert found["timestamp"].endswith("Z")
    assert found["window"].endswith("s")
    usage = {entry["name"]: entry["usage"] for entry in found["containers"]}
    cores = {name: Quantity.read(each["cpu"]).nano / 1e9 for name, each in usage.items()}
    assert cores == pytest.approx({"capped": 0.2, "plain": 1}, rel=0.1)
    for each in usage.values():
        assert Quantity.read(each["memory"]).nano / 1e9 == pytest.approx(50 * 2**20, rel=0.01)
    assert not only.items(POD_METRICS, labels="app=other")
    with pytest.raises(NotFound):
        only.get(POD_METRICS, "nobody")


@pytest.mark.usefixtures("measuring")
def test_a_restart_leaves_a_gap_in_what_is_measured(only: Only) -> None:
    """No sample is never a sample of nothing: first one is missing, later all is there again."""
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    again = container("again", resources=ASKED, resizePolicy=policy)
    only.start(
        again, container("steady"), annotations={LOAD: "cpu: constant 10m, memory: constant 20Mi"}
    )
    only.eventually(lambda: len(only.measured()) == 2, seconds=TURNS_SECONDS)
    only.resize("30m")
    seen: list[dict[str, Json]] = []

    def is_less() -> bool:
        seen.append(only.measured())
        return len(seen[-1]) < 2

    def is_whole() -> bool:
        seen.append(only.measured())
        return len(seen[-1]) == 2

    only.eventually(is_less, seconds=TURNS_SECONDS)
    only.eventually(is_whole, seconds=TURNS_SECONDS)
    amounts = [usage["memory"] for found in seen for usage in found.values()]
    assert all(Quantity.read(amount).nano > 0 for amount in amounts)


@pytest.mark.skipif(bool(KUBECONFIG), reason="a runtime in memory does not fill its machine")
def test_a_node_without_memory(only: Only, node: Json) -> None:
    """When a node runs out, the pod goes that is furthest above what it asked for."""
    room = Quantity.read(node["status"]["capacity"]["memory"])
    only.start(annotations={LOAD: f"memory: constant {room}, noise: 0"})
    only.eventually(lambda: only.now()["status"]["phase"] == "Failed")
    found = only.now()

    assert found["status"]["reason"] == "Evicted"
    assert "The node was low on resource: memory" in found["status"]["message"]
    assert conditions(found)["DisruptionTarget"]["reason"] == "TerminationByKubelet"
    assert only.events("Evicted")
