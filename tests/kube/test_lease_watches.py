"""Leases that VPAs name are watched, and only what they stand for comes into the snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from app.kube.lease_watches import MOST_WATCHES, LeaseWatches
from app.kube.watch_cache import SnapshotFold, Transition, Value
from app.kube.watched_resources import WatchedResource
from app.model.fields import Json
from app.model.role_leases import LeaseStanding, LeaseState
from app.model.snapshot import Snapshot
from app.ports import Delta, Sink
from app.sandbox.stepped_clock import SteppedClock
from tests import make
from tests.cases import cases

SELECTOR: Json = {"matchLabels": {"role": "leader"}}


class Watch:
    """A watch that is told what it sees."""

    def __init__(self, namespace: str, fields: str, sink: Sink) -> None:
        self.namespace, self.fields, self.sink = namespace, fields, sink
        self.is_on = False
        self.refused = 0.0

    def start(self) -> None:
        """Begin."""
        self.is_on = True

    def stop(self) -> None:
        """End."""
        self.is_on = False

    def refused_seconds(self, _now: datetime, /) -> float:
        """Return for how long it was refused."""
        return self.refused

    def lists(self, *leases: Json) -> None:
        """See a whole list."""
        self.sink([self._delta(one) for one in leases], True)

    def loses(self, name: str) -> None:
        """See a deletion."""
        self.sink([Delta(self.namespace, name, None)], True)

    def _delta(self, lease: Json) -> Delta:
        metadata = lease["metadata"]
        return Delta(metadata["namespace"], metadata["name"], lease)


class World:
    """A snapshot with VPAs, and what is watched for them."""

    def __init__(self, *vpas: Json, is_on: bool = True) -> None:
        self.clock = SteppedClock(make.NOW)
        self.watches: list[Watch] = []
        self.told: list[Transition] = []
        self._fold = SnapshotFold()
        self._fold.listen(self.told.extend)
        self._fold.snapshot = make.snapshot(*vpas)
        self.leases = LeaseWatches(
            self._follow if is_on else None, lambda: self.snapshot, self.put, self.clock
        )
        self.leases.tick(self.clock.now())

    @property
    def snapshot(self) -> Snapshot:
        """The newest state."""
        return self._fold.snapshot

    def put(self, source: WatchedResource, values: Sequence[Value], /) -> None:
        """Take in values."""
        self._fold.tell(self._fold.take([(source, values)]))

    def change(self, *items: Json) -> None:
        """Change VPAs, and let them be noticed."""
        self._fold.snapshot = self.snapshot.changed(make.change(item) for item in items)
        self.leases.tick(self.clock.now())

    def passes(self, seconds: float) -> float:
        """Let time pass; return when to look again."""
        self.clock.advance(seconds)
        return self.leases.tick(self.clock.now())

    def on(self) -> list[tuple[str, str]]:
        """Return what is watched."""
        return [(one.namespace, one.fields) for one in self.watches if one.is_on]

    def standing(self, lease: str = "web", namespace: str = "default") -> LeaseStanding | None:
        """Return what is known of a Lease."""
        return self.snapshot.of(namespace).leases.get(lease)

    def _follow(self, namespace: str, fields: str, sink: Sink) -> Watch:
        self.watches.append(Watch(namespace, fields, sink))
        return self.watches[-1]


def vpa(name: str = "web", lease: str | None = "web", namespace: str = "default") -> Json:
    """Return a VPA that names a Lease, of a target of its own."""
    annotations = None if lease is None else {"plumbline/role-lease": f"role={lease}"}
    return make.vpa_json(
        name,
        namespace=namespace,
        target=f"StatefulSet/{name}",
        selector=SELECTOR,
        annotations=annotations,
    )


def many(count: int) -> tuple[Json, ...]:
    """Return VPAs that name so many Leases."""
    return tuple(vpa(f"web-{index}", f"lease-{index:03}") for index in range(count))


def state(world: World, lease: str = "web", namespace: str = "default") -> LeaseState | None:
    """Return whether a Lease is held."""
    found = world.standing(lease, namespace)
    return None if found is None else found.state


def test_what_is_named_is_watched() -> None:
    """Each Lease has its watch, in the namespace of its VPA; what is not named has none."""
    world = World(vpa(), vpa("api", None), vpa("db", "db", "shop"))
    expected = [("default", "metadata.name=web"), ("shop", "metadata.name=db")]
    assert sorted(world.on()) == expected
    assert world.passes(1) == 1.0
    assert len(world.watches) == 2


def test_watches_come_and_go_with_vpas() -> None:
    """What is named no more is forgotten; what is named now is watched."""
    world = World(vpa())
    world.watches[0].lists(make.lease_json())
    world.change(vpa(lease="other"))
    assert world.on() == [("default", "metadata.name=other")]
    assert world.standing() is None
    world.watches[0].lists(make.lease_json("web-1"))  # it was under way
    assert world.standing() is None
    world.change(vpa(lease=None))
    assert world.on() == []


def test_two_vpas_of_one_lease() -> None:
    """A Lease that two VPAs name has one watch, until the last of them is gone."""
    world = World(vpa(), vpa("web-2"))
    assert len(world.on()) == 1
    world.change(vpa(lease=None))
    assert len(world.on()) == 1


SHARED_CASES: dict[str, tuple[tuple[Json, ...], list[tuple[str, str]]]] = {
    "in one namespace": (many(MOST_WATCHES + 1), [("default", "")]),
    "in several": (
        (*many(MOST_WATCHES), vpa("db", "db", "shop")),
        [("", "metadata.namespace!=kube-node-lease")],
    ),
    "among those of nodes": (
        (*many(MOST_WATCHES), vpa("db", "db", "kube-node-lease")),
        [("", "metadata.namespace!=kube-node-lease"), ("kube-node-lease", "metadata.name=db")],
    ),
    "no more than few": (
        (*many(MOST_WATCHES - 1), vpa("db", "db", "shop")),
        [
            *(("default", f"metadata.name=lease-{n:03}") for n in range(MOST_WATCHES - 1)),
            ("shop", "metadata.name=db"),
        ],
    ),
}


@cases("vpas expected", SHARED_CASES)
def test_many_leases_share_a_watch(vpas: tuple[Json, ...], expected: list[tuple[str, str]]) -> None:
    """Beyond 50 there is one watch: of their namespace, or of all but that of the nodes."""
    assert World(*vpas).on() == expected


def test_what_is_not_named_is_dropped() -> None:
    """Of a shared watch only what is named counts, and with fewer Leases each has its own."""
    world = World(*many(MOST_WATCHES), vpa("db", "db", "shop"))
    named, other = make.lease_json(name="lease-007"), make.lease_json(name="node-1")
    elsewhere = make.lease_json(name="lease-007", namespace="shop")
    world.watches[-1].lists(named, other, elsewhere)
    assert len(world.snapshot.of("default").leases) == MOST_WATCHES
    assert list(world.snapshot.of("shop").leases) == ["db"]
    assert (state(world, "lease-007"), state(world, "lease-008")) == (
        LeaseState.HELD,
        LeaseState.MISSING,
    )
    world.change(vpa("db", None, "shop"))
    assert len(world.on()) == MOST_WATCHES
    assert state(world, "lease-007") is LeaseState.HELD


def test_what_is_named_later_is_listed() -> None:
    """A shared watch has dropped what was not named, so it begins anew; nothing seems missing."""
    world = World(*many(MOST_WATCHES + 1))
    first, late = make.lease_json(name="lease-000"), make.lease_json(name="late")
    world.watches[0].lists(first, late)
    world.change(vpa("late", "late"))
    world.watches[0].lists(first)
    assert (world.on(), state(world, "late")) == ([("default", "")], None)
    world.watches[1].lists(late)
    assert (state(world, "late"), state(world, "lease-000")) == (LeaseState.HELD, LeaseState.KEPT)


def test_a_shared_watch_is_refused() -> None:
    """Whoever may not watch all has a watch for each Lease, until the right is there."""
    world = World(*many(MOST_WATCHES), vpa("db", "db", "shop"))
    shared = world.watches[0]
    shared.refused = 10.1
    world.passes(1)
    assert len(world.on()) == MOST_WATCHES + 2
    alone = next(one for one in world.watches if "db" in one.fields)
    alone.lists(make.lease_json(name="db", namespace="shop"))
    assert state(world, "db", "shop") is LeaseState.HELD
    shared.refused = 0.0  # another failure
    world.change(vpa("late", "late"))
    assert len(world.on()) == MOST_WATCHES + 3
    shared.lists()
    world.passes(1)
    assert world.on() == [(shared.namespace, shared.fields)]


def test_a_page_is_no_whole_list() -> None:
    """That a Lease does not exist is known when the list was read to its end."""
    world = World(*many(MOST_WATCHES + 1))
    watch = world.watches[0]
    watch.sink([Delta("default", "lease-000", make.lease_json(name="lease-000"))], False)
    assert list(world.snapshot.of("default").leases) == ["lease-000"]
    watch.sink([], True)
    assert len(world.snapshot.of("default").leases) == MOST_WATCHES + 1


def test_renewals_tell_nothing() -> None:
    """A Lease that is renewed for an hour changes the snapshot once."""
    world = World(vpa())
    before = world.snapshot
    for step in range(1800):
        world.watches[0].lists(make.lease_json(renewed=step))
        before = before if step else world.snapshot
        world.passes(2)
    assert world.snapshot is before
    assert len(world.told) == 1


def test_changes_of_hands_are_told_at_once() -> None:
    """The event of a watch is in the snapshot when it has been seen."""
    world = World(vpa())
    world.watches[0].lists(make.lease_json("web-0"))
    world.passes(5)
    world.watches[0].lists(make.lease_json("web-1"))
    found = world.standing()
    assert found is not None
    assert (found.holder, found.since) == ("web-1", world.clock.now())
    assert [change.after.holder for change in world.told] == ["web-0", "web-1"]


def test_time_is_told_too() -> None:
    """A Lease that expires is told when it does, without any event: it is read again then."""
    world = World(vpa())
    world.watches[0].lists(make.lease_json())
    assert world.passes(14.5) == 0.5
    assert state(world) is LeaseState.HELD
    assert world.passes(0.5) == 1.0
    world.watches[1].lists(make.lease_json())
    assert state(world) is LeaseState.KEPT
    world.passes(30)
    world.watches[2].lists(make.lease_json())
    assert state(world) is LeaseState.VACANT
    world.passes(3600)
    assert len(world.watches) == 3


def test_a_watch_that_is_deaf() -> None:
    """As long as nothing is heard a Lease stays with its holder, and then it may be renewed."""
    world = World(vpa())
    world.watches[0].lists(make.lease_json())
    for _ in range(100):
        world.passes(10)
    assert len(world.on()) == 1
    assert state(world) is LeaseState.HELD
    world.watches[1].lists(make.lease_json(renewed=1000))
    world.passes(14)
    assert (state(world), len(world.watches)) == (LeaseState.HELD, 2)


def test_a_list_that_fails_changes_nothing_back() -> None:
    """What was known of a Lease stays known while it is read again."""
    world = World(vpa())
    world.watches[0].lists(make.lease_json())
    world.passes(15)
    world.watches[1].lists(make.lease_json())
    world.passes(60)
    assert state(world) is LeaseState.KEPT


@cases(
    "pause expected",
    {
        "others are renewed": (1, LeaseState.KEPT),
        "the first news after a silence may be a part": (60, LeaseState.HELD),
    },
)
def test_a_shared_watch_hears_of_one_by_the_others(pause: int, expected: LeaseState) -> None:
    """That a watch tells of other Leases shows that it would have told of this one."""
    world = World(*many(MOST_WATCHES + 1))
    names = [f"lease-{index:03}" for index in range(MOST_WATCHES + 1)]
    world.watches[0].lists(*(make.lease_json(name=name) for name in names))
    for second in range(pause, 17, pause):
        world.clock.advance(pause)
        world.watches[0].lists(make.lease_json(name=names[0], renewed=second))
    world.clock.advance(60 if pause > 17 else 0)
    world.watches[0].lists(make.lease_json(name=names[0], renewed=99))
    world.leases.tick(world.clock.now())
    assert state(world, names[1]) is expected


def test_a_shared_watch_that_is_deaf() -> None:
    """If nothing at all is heard all are listed again, once."""
    world = World(*many(MOST_WATCHES + 1))
    names = [f"lease-{index:03}" for index in range(MOST_WATCHES + 1)]
    world.watches[0].lists(*(make.lease_json(name=name) for name in names))
    for _ in range(60):
        world.passes(1)
    assert len(world.watches) == 2
    world.watches[1].lists(*(make.lease_json(name=name, renewed=1) for name in names))
    world.passes(1)
    assert {state(world, name) for name in names} == {LeaseState.HELD}


def test_a_clock_that_is_set_expires_nothing() -> None:
    """The time of day may be set; how long a Lease was not renewed is not told by it."""
    world = World(vpa())
    world.watches[0].lists(make.lease_json())
    world.leases.tick(world.clock.now().replace(year=2040))
    assert state(world) is LeaseState.HELD


def test_a_lease_that_is_created_again() -> None:
    """Between deletion and creation the last holder is believed, and then it may be another."""
    world = World(vpa())
    world.watches[0].lists(make.lease_json())
    world.watches[0].loses("web")
    assert state(world) is LeaseState.KEPT
    world.passes(30)
    world.watches[1].lists()
    assert state(world) is LeaseState.MISSING
    world.watches[1].lists(make.lease_json("web-2"))
    now = world.clock.now()
    assert world.standing() == LeaseStanding(LeaseState.HELD, "web-2", now, seen_since=now)


def test_no_right() -> None:
    """A right that is missing for ten seconds is said, and what comes after it counts."""
    world = World(vpa(), vpa("db", "db"))
    db, web = sorted(world.watches, key=lambda one: one.fields)
    db.lists(make.lease_json(name="db"))
    web.refused = 10.0
    world.passes(1)
    assert (state(world), world.leases.is_read()) == (None, False)
    web.refused = 10.1
    world.passes(1)
    assert (state(world), state(world, "db")) == (LeaseState.FORBIDDEN, LeaseState.HELD)
    assert world.leases.is_read()
    web.refused = 0.0
    web.lists(make.lease_json())
    assert state(world) is LeaseState.HELD


def test_switched_off() -> None:
    """Without the flag nothing is watched, and that is said."""
    world = World(vpa(), is_on=False)
    found = world.snapshot.of("default").vpas["web"].role_problem
    assert found == ("NoRight", "Lease default/web may not be watched: --role-leases is off")
    assert (world.on(), world.leases.is_read()) == ([], True)


def test_is_read() -> None:
    """All is read when each Lease is known; what is named later delays nothing."""
    world = World()
    later = World(vpa())
    assert (world.leases.is_read(), later.leases.is_read()) == (True, False)
    later.watches[0].lists()
    assert later.leases.is_read()
    later.change(vpa("db", "db"))
    assert later.leases.is_read()


def test_what_cannot_be_read_is_not_awaited_for_ever() -> None:
    """A Lease that is never read holds up the others for half a minute, and stays unknown."""
    world = World(vpa(), vpa("db", "db"))
    assert not world.leases.is_read()
    world.passes(29)
    assert not world.leases.is_read()
    world.passes(1)
    assert world.leases.is_read()
    assert world.standing() is None


def test_the_end() -> None:
    """All watches end, and what they still see is not told."""
    world = World(vpa())
    world.leases.close()
    world.watches[0].lists(make.lease_json())
    assert (world.on(), world.standing()) == ([], None)
