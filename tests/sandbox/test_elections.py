"""How programs in pods elect a leader by a Lease."""

from __future__ import annotations

from app.ports import LEASES, POD_METRICS, PODS, Json, Ref
from tests.cases import cases
from tests.sandbox.worlds import SteppedSandbox, deployment, pod

DURATION_SECONDS = 30.0
LOAD = "elects: db, cpu: constant 50m, memory: constant 50Mi, noise: 0; leads -> cpu: constant 500m"
OUT_OF_MEMORY = "elects: db, memory: constant 50Mi, noise: 0; leads -> memory: constant 300Mi"


def electing(load: str = LOAD, seconds: float = 10) -> SteppedSandbox:
    """Return a world with three candidates."""
    world = SteppedSandbox()
    world.run(deployment("db", replicas=3, load=load), seconds=seconds)
    return world


def lease(world: SteppedSandbox) -> Json:
    """Return what the Lease says."""
    spec: Json = world.sandbox.cluster.get(Ref(LEASES, "default", "db"))["spec"]
    return spec


def leader(world: SteppedSandbox) -> str:
    """Return the pod that holds the Lease."""
    return str(lease(world)["holderIdentity"]).partition("_")[0]


def pods(world: SteppedSandbox) -> set[str]:
    """Return the names of all pods."""
    return {found["metadata"]["name"] for found in world.sandbox.cluster.list(PODS).items}


def busy(world: SteppedSandbox) -> list[str]:
    """Return the pods that do a leader's work."""
    items = world.sandbox.cluster.list(POD_METRICS, "default").items
    assert len(items) == 3
    return [
        item["metadata"]["name"]
        for item in items
        if item["containers"][0]["usage"]["cpu"] == "500m"
    ]


def test_one_of_them_leads() -> None:
    """A pod holds the Lease and renews it, and it alone does a leader's work."""
    world = electing(seconds=60)
    before = lease(world)
    world.step(60)

    assert leader(world) in pods(world)
    assert busy(world) == [leader(world)]
    assert lease(world) == {**before, "renewTime": lease(world)["renewTime"]}
    assert lease(world)["renewTime"] > before["renewTime"]


def test_a_leader_that_goes_is_replaced_when_its_lease_expires() -> None:
    """It gives nothing up, so nobody leads until its time is over; then another pod does."""
    world = electing()
    before = leader(world)
    renewed = lease(world)["renewTime"]
    world.sandbox.cluster.delete(Ref(PODS, "default", before))
    world.step(DURATION_SECONDS / 3)
    assert (leader(world), lease(world)["renewTime"]) == (before, renewed)

    world.step(DURATION_SECONDS + 40)
    assert leader(world) in pods(world) - {before}
    assert busy(world) == [leader(world)]
    assert lease(world)["leaseTransitions"] == 1


def test_a_program_that_crashes_stands_again_as_another_candidate() -> None:
    """A leader that runs out of memory starts as a follower, and does not run out again."""
    world = electing(OUT_OF_MEMORY, seconds=5)
    first = str(lease(world)["holderIdentity"])
    killed = leader(world)
    world.step(10)
    state = world.status(killed)

    assert state["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert "running" in state["state"]
    world.step(DURATION_SECONDS * 20)
    holders = {found["status"]["containerStatuses"][0]["restartCount"] for found in _all(world)}
    assert min(holders) >= 1  # each of them has led, and crashed
    assert lease(world)["holderIdentity"] != first


def _all(world: SteppedSandbox) -> list[Json]:
    return list(world.sandbox.cluster.list(PODS).items)


@cases(
    "spec holder",
    {
        "its name": ({}, "pod"),
        "the name of its host": ({"hostname": "db-a"}, "db-a"),
    },
)
def test_what_a_candidate_calls_itself(spec: Json, holder: str) -> None:
    """The host of the pod, and a UUID behind it, as client-go's identities are."""
    world = SteppedSandbox()
    world.run(pod(load=LOAD, **spec), seconds=5)

    host, _, process = str(lease(world)["holderIdentity"]).partition("_")
    assert (host, len(process)) == (holder, 36)


def test_a_start_comes_first() -> None:
    """A program that is still at the work of its start does not stand for election."""
    world = SteppedSandbox()
    world.run(pod(load=f"startup: 1 20, {LOAD}"), seconds=15)
    assert world.sandbox.cluster.list(LEASES, "default").items == []
    world.step(10)

    assert leader(world) == "pod"


def test_equal_seeds_elect_equally() -> None:
    """Who is elected, under which identity, depends on nothing but the seed."""
    first, second = (electing(seconds=90) for _ in range(2))

    assert lease(first) == lease(second)
