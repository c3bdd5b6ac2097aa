"""The recommender's model is told what is known, and nothing that is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from app.kube.owner_lookup import MOST_FLIGHTS, LookupTurns, OwnerCache
from app.model.role_leases import LeaseStanding, LeaseState
from app.model.snapshot import Collection, Replacement, Snapshot
from app.model.workloads import Absent, Failed, Lookup, LookupResult, scaled_workload
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.core.model import Model
from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.variant import UPSTREAM
from app.recommender.variants import OURS
from app.sandbox.stepped_clock import SteppedClock
from tests import make

T = TypeVar("T")

NOW = datetime(2026, 1, 5, tzinfo=UTC)
SECONDS = 2.0  # for each look-up


class SlowOwners:
    """Custom kinds that are looked up one after the other; what came too late is there later."""

    def __init__(self, clock: SteppedClock, *, broken: bool = False) -> None:
        self._clock = clock
        self._broken = broken
        self._ready_at: dict[Lookup, float] = {}

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return an owner, unless it takes too long."""
        now = self._clock.monotonic()
        begun = max(self._ready_at.values(), default=now)
        ready_at = self._ready_at.setdefault(lookup, max(begun, now) + SECONDS)
        self._clock.advance(max(min(ready_at - now, deadline_seconds), 0.0))
        if self._clock.monotonic() < ready_at:
            return Failed("no answer in time")
        if self._broken:
            del self._ready_at[lookup]
            return Failed("broken")
        return scaled_workload(
            lookup.namespace,
            lookup.api_version,
            lookup.kind,
            {"metadata": {"name": lookup.name}, "status": {"selector": "app=web"}},
        )


class Scene:
    """VPAs of custom kinds."""

    def __init__(self, count: int, *, broken: bool = False, patient: bool = False) -> None:
        self.clock = SteppedClock()
        variant = UPSTREAM if patient else OURS
        self.model = variant.make_model(RecommenderRules())
        owners = SlowOwners(self.clock, broken=broken)
        self.lookout = ClusterFeed(self.model, owners, self.clock, variant=variant)
        vpas = [
            make.vpa(f"web-{number}", target=f"Rollout/web-{number}") for number in range(count)
        ]
        self.snapshot = make.snapshot(*vpas)

    def look(self, snapshot: Snapshot | None = None) -> list[str]:
        """Look, a minute after the last time; return the problems of the VPAs that are told of."""
        found = self.snapshot if snapshot is None else snapshot
        self.lookout.tell_vpas(found, NOW)
        self.lookout.tell_gone_vpas(found, NOW)
        self.clock.advance(60)
        return [one.problem for one in self.lookout.vpas.values()]


def test_targets_that_nobody_had_time_for() -> None:
    """A target that was not looked for is not broken; the VPA waits for a later round."""
    scene = Scene(10)

    assert scene.look() == ["", ""]
    assert scene.look() == [""] * 10


def test_targets_where_history_is_read_once() -> None:
    """As upstream has it whoever comes later gets no history, so the first look takes its time."""
    assert Scene(10, patient=True).look() == [""] * 10


def test_targets_that_never_answer() -> None:
    """After some minutes without an answer the VPAs are told to have a problem."""
    scene = Scene(10, broken=True)
    found = [scene.look() for _ in range(5)]

    assert [len(one) for one in found] == [2, 2, 2, 10, 10]
    assert all("broken" in problem or "no answer" in problem for problem in found[-1])


def test_a_vpa_that_goes_while_it_waits() -> None:
    """It is forgotten; one of its name that comes later has time of its own."""
    scene = Scene(10, broken=True)
    scene.look()
    scene.look(make.snapshot())
    scene.clock.advance(600)

    assert len(scene.look()) == 2


class PacedOwners:
    """Look-ups of Rollouts as `LiveOwners` makes them, 20 a second; one Rollout exists."""

    def __init__(self, clock: SteppedClock) -> None:
        self._clock = clock
        self._cache = OwnerCache()
        self._turns = LookupTurns(MOST_FLIGHTS)
        self._flights: set[Lookup] = set()
        self._free_at = 0.0

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return what is known before the deadline."""
        until = self._clock.monotonic() + deadline_seconds
        self._work()
        if lookup not in self._flights and self._known(lookup) is None:
            if not self._turns.add(lookup):
                return Failed("too many look-ups are under way")
            self._flights.add(lookup)
        while (found := self._known(lookup)) is None and self._clock.monotonic() < until:
            self._clock.advance(0.05)
            self._work()
        return found or Failed("no answer in time")

    def _known(self, lookup: Lookup) -> LookupResult | None:
        return self._cache.fresh(lookup, self._clock.monotonic())

    def _work(self) -> None:
        """Make the look-ups for which there was time."""
        now = self._clock.monotonic()
        self._cache.due(now)
        while self._free_at <= now:
            lookup = self._turns.take()
            if lookup is None:
                self._free_at = now
                return
            found: LookupResult = Absent()
            if lookup.name == "mine":
                scale = {"metadata": {"name": "mine"}, "status": {"selector": "app=web"}}
                found = scaled_workload(lookup.namespace, lookup.api_version, lookup.kind, scale)
            self._turns.done(lookup)
            self._flights.discard(lookup)
            self._cache.keep(lookup, found, self._free_at)
            self._free_at += 0.05


def flood(make_one: Callable[..., T]) -> list[T]:
    """Return 4,000 objects of one namespace with owners or targets that do not exist."""
    key = "owner" if make_one is make.pod else "target"
    return [
        make_one(name=f"web-{number}", namespace="evil", **{key: f"Rollout/none-{number}"})
        for number in range(4_000)
    ]


def test_one_namespace_does_not_hold_up_the_targets_of_another() -> None:
    """4,000 VPAs of objects that do not exist leave time for the target of one that does."""
    clock = SteppedClock()
    feed = ClusterFeed(Model(RecommenderRules()), PacedOwners(clock), clock)
    mine = make.vpa("mine", namespace="zgood", target="Rollout/mine")
    snapshot = make.snapshot(*flood(make.vpa), mine)
    for _ in range(2):
        feed.tell_vpas(snapshot, NOW)
        clock.advance(60)

    found = feed.vpas.get(("zgood", "mine"))
    assert found is not None
    assert found.selector is not None


def test_one_namespace_does_not_hold_up_the_pods_of_another() -> None:
    """4,000 pods with owners that do not exist leave time for the owner of one that does."""
    clock, model = SteppedClock(), Model(RecommenderRules())
    feed = ClusterFeed(model, PacedOwners(clock), clock)
    pod = make.pod(name="mine", namespace="zgood", owner="Rollout/mine")
    snapshot = make.snapshot(*flood(make.pod), pod)
    for _ in range(2):
        feed.tell_vpas(snapshot, NOW)
        feed.tell_pods(snapshot, NOW)
        clock.advance(60)

    top = model.members.pods["zgood", "mine"].top
    assert top is not None
    assert top.name == "mine"


def test_pods_that_change_between_rounds_do_not_take_all_time() -> None:
    """However often pods are heard of, their look-ups take no more time than those of a round."""
    clock = SteppedClock()
    feed = ClusterFeed(Model(RecommenderRules()), PacedOwners(clock), clock)
    pods = flood(make.pod)
    snapshot = make.snapshot(*pods)
    feed.tell_vpas(snapshot, NOW)
    feed.tell_pods(make.snapshot(pods[0]), NOW)
    began = clock.monotonic()
    for first in range(0, 4_000, 100):
        some = [("evil", pod.name) for pod in pods[first : first + 100]]
        feed.tell_some_pods(snapshot, some, NOW)

    assert clock.monotonic() - began < 6


# --- roles by Leases

LEASED = {"plumbline/role-lease": "role=web"}
ALL_BUT_LEADERS = {"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["leader"]}]}


class RoleScene:
    """A leader and its followers under two VPAs, of which one names the Lease."""

    def __init__(self) -> None:
        self.model = Model(RecommenderRules())
        self._feed = ClusterFeed(self.model, SlowOwners(clock := SteppedClock()), clock)
        self._snapshot = make.snapshot(
            make.vpa_json(
                "leader", selector={"matchLabels": {"role": "leader"}}, annotations=LEASED
            ),
            make.vpa_json("others", selector=ALL_BUT_LEADERS),
            *(make.pod_json(name=f"web-{index}") for index in range(3)),
            make.workload_json(replicas=3),
        )

    def tell(self, state: LeaseState, *, is_unstable: bool = False) -> dict[str, list[str]]:
        """Tell of everything, with the Lease of web-0; return the pods of each VPA."""
        lease = LeaseStanding(state, "web-0", NOW, is_unstable)
        change = Replacement(Collection.LEASES, "default", "web", lease)
        self._snapshot = self._snapshot.changed([change])
        self._feed.tell_vpas(self._snapshot, NOW)
        self._feed.tell_pods(self._snapshot, NOW)
        vpas = self.model.members.vpas.values()
        return {one.vpa.name: sorted(name for _, name in one.pods) for one in vpas}


def test_samples_of_a_pod_of_unknown_role_are_nobodys() -> None:
    """While it is not known who leads, no usage of a leader is learned as that of a follower."""
    scene = RoleScene()
    assert scene.tell(LeaseState.MISSING) == {"leader": [], "others": []}
    assert scene.tell(LeaseState.HELD) == {"leader": ["web-0"], "others": ["web-1", "web-2"]}
    assert scene.tell(LeaseState.FORBIDDEN) == {"leader": [], "others": []}


def test_pods_that_are_only_sized_as_leaders_are_learned_as_followers() -> None:
    """While a Lease is unstable all are sized as leaders, and the holder alone is one."""
    found = RoleScene().tell(LeaseState.HELD, is_unstable=True)
    assert found == {"leader": ["web-0"], "others": ["web-1", "web-2"]}


def test_what_is_not_known_is_published_at_once() -> None:
    """A VPA on which nothing else has changed is written when its role gets known, or unknown."""
    scene = RoleScene()
    scene.tell(LeaseState.MISSING)
    told = {}
    for state in (LeaseState.MISSING, LeaseState.HELD, LeaseState.FORBIDDEN):
        scene.tell(state)
        told[state] = {
            one.vpa.name: one.vpa.role_problem[0] if one.vpa.role_problem else None
            for one in scene.model.members.vpas.values()
        }
    assert told == {
        LeaseState.MISSING: {"leader": "NoLease", "others": "NoLease"},
        LeaseState.HELD: {"leader": None, "others": None},
        LeaseState.FORBIDDEN: {"leader": "NoRight", "others": "NoRight"},
    }
