"""Pods that elect a leader by a Lease, without any label: the leader has what leaders need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from app.ports import LEASES, PODS, VPAS, Json, PatchKind, Ref
from app.runtime.election import Election, ElectionRules
from tests.flows.autoscaler import MINUTE, NAMESPACE, Autoscaler, autoscaler, vpa, workload
from tests.sandbox_objects import events_in

LEASE = Ref(LEASES, NAMESPACE, "db")
ROLES = ("leader", "follower")
# The label is for the simulated program alone; no VPA selects by it.
LOAD = "noise: 0, cpu: constant 80m, memory: constant 300Mi; busy=yes -> cpu: constant 900m"
RULES = ElectionRules(NAMESPACE, "db")
RETRY_SECONDS = 2.0


@dataclass
class Electing:
    """The processes in the pods of a workload, which elect a leader as client-go does.

    Who leads works more; that is all that anything tells of it but the Lease.
    """

    cluster: Autoscaler
    candidates: dict[str, Election] = field(default_factory=dict)  # by uid
    crashed: set[str] = field(default_factory=set)  # names of pods whose process hangs
    leaders: list[str] = field(default_factory=list)  # one after the other

    def begin(self) -> None:
        """Step all candidates, again and again."""
        sandbox = self.cluster.world.sandbox
        for pod in self.cluster.pods():
            self._step(pod)
        sandbox.clock.call_later(RETRY_SECONDS, self.begin)

    def _step(self, pod: Json) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if name in self.crashed or pod.get("status", {}).get("phase") != "Running":
            return
        sandbox = self.cluster.world.sandbox
        candidate = self.candidates.get(uid)
        if candidate is None:
            identity = f"{name}_{UUID(int=len(self.candidates))}"
            candidate = Election(sandbox.cluster, RULES, identity, sandbox.clock)
            self.candidates[uid] = candidate
        leads = candidate.step(sandbox.clock.now()).leading
        if leads and self.leaders[-1:] != [name]:
            self.leaders.append(name)
        self._works(name, "yes" if leads else "no")

    def _works(self, name: str, busy: str) -> None:
        found = self.cluster.world.sandbox.cluster.get(Ref(PODS, NAMESPACE, name))
        if found["metadata"]["labels"].get("busy") != busy:
            self.cluster.label(name, busy=busy)

    def hand_over(self) -> None:
        """Let the process that leads hang until another one leads."""
        leader = self.leaders[-1]
        self.crashed.add(leader)
        while self.leaders[-1] == leader:
            self.cluster.run(1)
        self.crashed.discard(leader)


def database(mode: str = "InPlaceOrRecreate") -> list[Json]:
    """Return a StatefulSet whose pods have no role label, and VPAs for its leader and followers."""
    found = [workload("db", kind="StatefulSet", load=LOAD, replicas=3)]
    for role in ROLES:
        selector = {"matchLabels": {"role": role}}
        item = vpa(role, target="StatefulSet/db", mode=mode, selector=selector)
        item["metadata"]["annotations"] = {"plumbline/role-lease": "role=db"}
        found.append(item)
    return found


@contextmanager
def electing(mode: str = "InPlaceOrRecreate", *flags: str) -> Iterator[Electing]:
    """Start a database, and what sizes it, and let it run until all is as recommended."""
    # Bounds are wide as long as little is known, so pods are made smaller within them too.
    updater = ["--in-recommendation-bounds-eviction-lifetime-threshold=1m", *flags]
    with autoscaler(*database(mode), flags=["--role-leases"], updater=updater) as cluster:
        cluster.run(20)
        found = Electing(cluster)
        found.begin()
        cluster.run(40 * MINUTE)
        yield found


def sizes(world: Electing) -> dict[str, str]:
    """Return by pod whether it has a leader's size, or one for followers."""
    least = _milli(world.cluster.target("leader")["cpu"]) * 0.8
    return {
        pod["metadata"]["name"]: "leader" if _milli(cpu) >= least else "follower"
        for pod, cpu in zip(world.cluster.pods(), world.cluster.requests(), strict=True)
    }


def _milli(cpu: str) -> int:
    return int(cpu.removesuffix("m"))


def one_leads(leader: str) -> dict[str, str]:
    """Return the sizes when one pod leads."""
    return {
        f"db-{index}": "leader" if leader == f"db-{index}" else "follower" for index in range(3)
    }


def condition(world: Electing, vpa_name: str = "leader") -> str:
    """Return why it is not known which pod leads, empty if it is."""
    found = world.cluster.world.sandbox.cluster.get(Ref(VPAS, NAMESPACE, vpa_name))
    reasons = [
        one["reason"] for one in found["status"]["conditions"] if one["type"] == "RoleUnknown"
    ]
    return "".join(reasons)


def told(world: Electing) -> list[str]:
    """Return what the VPA of leaders was told of changes."""
    found = events_in(world.cluster.world.sandbox, NAMESPACE, "RoleChanged")
    return [one["message"] for one in found if one["involvedObject"]["name"] == "leader"]


def test_the_holder_of_the_lease_has_a_leaders_size() -> None:
    """Each VPA learns from its own pods, though no pod has a label, and none is evicted."""
    with electing() as world:
        assert sizes(world) == one_leads("db-0")
        leader, follower = (world.cluster.target(role)["cpu"] for role in ROLES)
        assert _milli(leader) > 5 * _milli(follower)
        assert world.cluster.events("EvictedByVPA") == []
        assert all("role" not in pod["metadata"]["labels"] for pod in world.cluster.pods())


def test_promotion() -> None:
    """The next leader grows within two seconds, and the last one shrinks ten minutes later."""
    with electing() as world:
        world.hand_over()
        world.cluster.run(2)
        leader = world.leaders[-1]
        assert leader != "db-0"
        assert sizes(world) == one_leads(leader) | {"db-0": "leader"}
        (message,) = told(world)
        assert message.startswith(
            f"Now pod {leader} leads, because Lease shop/db is held by {leader}_"
        )
        world.cluster.run(9 * MINUTE)
        assert sizes(world)["db-0"] == "leader"
        assert "RoleSettling" in world.cluster.reasons("follower")
        world.cluster.run(3 * MINUTE)
        assert sizes(world) == one_leads(leader)
        assert world.cluster.events("EvictedByVPA") == []


def test_crash_of_the_leader() -> None:
    """The pod that takes its place is created as a follower, and the next leader grows at once."""
    with electing() as world:
        before = world.cluster.target("leader")
        world.cluster.world.sandbox.cluster.delete(Ref(PODS, NAMESPACE, "db-0"))
        while world.leaders[-1] == "db-0":
            world.cluster.run(1)
        world.cluster.run(2)
        leader = world.leaders[-1]
        assert sizes(world) == one_leads(leader)
        world.cluster.run(20 * MINUTE)
        assert world.cluster.events("EvictedByVPA") == []
        after = world.cluster.target("leader")
        assert _milli(after["cpu"]) >= 0.9 * _milli(before["cpu"])
        assert sizes(world) == one_leads(world.leaders[-1])


def test_flapping() -> None:
    """When the Lease changes hands too often all pods get a leader's size, until it is quiet."""
    with electing() as world:
        for _ in range(4):
            world.hand_over()
        world.cluster.run(2 * MINUTE)
        assert sizes(world) == dict.fromkeys(one_leads(""), "leader")
        assert condition(world) == "RoleUnstable"
        assert len(told(world)) < 4
        world.cluster.run(25 * MINUTE)
        assert sizes(world) == one_leads(world.leaders[-1])
        assert condition(world) == ""
        assert world.cluster.events("EvictedByVPA") == []


def test_a_lease_that_is_created_again() -> None:
    """A Lease that is deleted comes back with the next renewal, and no pod notices."""
    with electing() as world:
        cluster = world.cluster.world.sandbox.cluster
        cluster.delete(LEASE)
        world.cluster.run(20)
        assert sizes(world) == one_leads(world.leaders[-1])
        world.crashed |= set(one_leads(""))
        cluster.delete(LEASE)
        world.cluster.run(5 * MINUTE)
        assert condition(world) == "NoLease"
        assert sizes(world) == one_leads(world.leaders[-1])
        world.crashed.clear()
        world.cluster.run(5 * MINUTE)
        assert condition(world) == ""


def test_a_clock_that_is_wrong() -> None:
    """What holders write as times counts for nothing: a Lease is held while it is renewed."""
    with electing() as world:
        cluster = world.cluster.world.sandbox.cluster
        for year in range(2027, 2047):
            times = dict.fromkeys(("renewTime", "acquireTime"), f"{year}-01-01T00:00:00.000000Z")
            world.crashed |= set(one_leads(""))
            cluster.patch(LEASE, {"spec": times}, kind=PatchKind.MERGE)
            world.cluster.run(10)
            assert sizes(world) == one_leads("db-0")


def test_no_lease_at_all() -> None:
    """Before anything was elected no pod has a role, and the VPAs say why."""
    with autoscaler(*database(), flags=["--role-leases"]) as cluster:
        cluster.run(5 * MINUTE)
        found = cluster.world.sandbox.cluster.get(Ref(VPAS, NAMESPACE, "leader"))
        said = {one["type"]: one["message"] for one in found["status"]["conditions"]}
        assert said["RoleUnknown"] == "Lease shop/db does not exist"
        assert cluster.reasons("") == {"RoleUnknown"}
