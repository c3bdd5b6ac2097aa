"""Plans find the owners that they need, and take over what did not change."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from app.model.fields import Json
from app.model.kinds import owner_key, read_owners
from app.model.pods import read_pod
from app.model.snapshot import Snapshot
from app.model.workloads import Absent, Failed, Lookup, LookupResult, scaled_workload
from app.updater.core.decisions import Action
from app.updater.core.memory import Memory
from app.updater.core.rules import Prove, UpdateRules
from app.updater.updater import OwnerLookupPlanner, find_owners
from tests import make
from tests.make import NO_GATES
from tests.stepped_clock import SteppedClock
from tests.updater.core.scenes import container, recommended, running, several

RULES = UpdateRules(prove=Prove.OFF)


class Owners:
    """Custom owners that take their time to be found."""

    def __init__(self, clock: SteppedClock, seconds: float = 0.0) -> None:
        self.found: dict[str, LookupResult] = {}
        self.asked: list[str] = []
        self._begun: dict[str, float] = {}
        self._clock = clock
        self._seconds = seconds

    def add(self, name: str, owner: str | None = None) -> None:
        """Add a Gadget with three pods, perhaps owned by another one."""
        metadata: Json = {"name": name, "uid": f"uid-{name}"}
        if owner is not None:
            metadata["ownerReferences"] = [make.owner_json(f"example.com/v1/Gadget/{owner}")]
        assert all(found.controller for found in read_owners(metadata))
        scale = {"metadata": metadata, "spec": {"replicas": 3}, "status": {"selector": "app=web"}}
        self.found[name] = scaled_workload("default", "example.com/v1", "Gadget", scale)

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return an owner, if it is found in time."""
        self.asked.append(lookup.name)
        begun = self._begun.setdefault(lookup.name, self._clock.monotonic())
        left = begun + self._seconds - self._clock.monotonic()
        if left > deadline_seconds:
            self._clock.wait(deadline_seconds)
            return Failed("no answer in time")
        self._clock.wait(max(left, 0.0))
        return self.found.get(lookup.name, Absent())


def snapshot(target: str = "web") -> Snapshot:
    """Return pods of a Gadget, and a VPA that targets one."""
    pods = several(running(container("app", "100m/100Mi"), owner="example.com/v1/Gadget/web"), 3)
    vpa = make.vpa_json(
        target=f"example.com/v1/Gadget/{target}",
        recommendations=[recommended("200m/200Mi = =")],
    )
    return make.snapshot(*pods, vpa)


@pytest.fixture
def clock() -> SteppedClock:
    """A clock that stands still."""
    return SteppedClock()


def actions(planner: OwnerLookupPlanner, seen: Snapshot, clock: SteppedClock) -> list[Action]:
    """Return what is planned."""
    made = planner.plan(seen, Memory(), clock.now())
    return [decision.action for decision in made.decisions]


def test_owners_are_looked_up_level_by_level(clock: SteppedClock) -> None:
    """A custom owner of a custom owner is found with it."""
    owners = Owners(clock)
    owners.add("web", owner="platform")
    owners.add("platform")
    planner = OwnerLookupPlanner(RULES, NO_GATES, owners, clock)
    assert len(actions(planner, snapshot("platform"), clock)) == 3
    assert set(owners.asked) == {"web", "platform"}
    owners.asked.clear()
    assert len(actions(planner, snapshot("platform"), clock)) == 3
    assert owners.asked.count("web") == 2  # begun, then waited for; not level by level again


def test_an_owner_that_does_not_answer_delays_others_only_briefly(clock: SteppedClock) -> None:
    """Its pods are left alone this time."""
    owners = Owners(clock, seconds=60)
    owners.add("web")
    planner = OwnerLookupPlanner(RULES, NO_GATES, owners, clock)
    assert actions(planner, snapshot(), clock) == []
    assert clock.monotonic() <= 6
    clock.wait(60)
    assert actions(planner, snapshot(), clock) == [Action.EVICT, Action.WAIT, Action.WAIT]


@pytest.mark.parametrize(("namespace", "seconds"), [("default", 0.3), ("other", 0.0)])
def test_an_owner_that_does_not_answer_delays_no_ends_of_boosts(
    clock: SteppedClock, namespace: str, seconds: float
) -> None:
    """Pods that are due are looked at in haste, and do not wait for those of other namespaces."""
    owners = Owners(clock, seconds=60)
    owners.add("web")
    planner = OwnerLookupPlanner(RULES, NO_GATES, owners, clock)
    actions(planner, snapshot(), clock)
    before = clock.monotonic()
    only = frozenset({(namespace, "web-1")})
    planner.plan(snapshot(), Memory(), clock.now(), only=only)
    assert clock.monotonic() - before == pytest.approx(seconds)


def test_owners_that_are_not_needed_are_forgotten(clock: SteppedClock) -> None:
    """After some minutes it is collected again which owners are needed."""
    owners = Owners(clock)
    owners.add("web")
    planner = OwnerLookupPlanner(RULES, NO_GATES, owners, clock)
    actions(planner, snapshot(), clock)
    owners.asked.clear()
    clock.wait(timedelta(minutes=11).total_seconds())
    assert actions(planner, make.snapshot(), clock) == []
    assert owners.asked == []


def test_a_plan_about_some_pods_is_no_beginning(clock: SteppedClock) -> None:
    """What was decided about all pods is taken over after a plan about a few, too."""
    pods = several(running(container("app", "200m/200Mi")), 3)
    vpa = make.vpa_json(recommendations=[recommended("200m/200Mi = =")])
    seen = make.snapshot(*pods, vpa, make.workload_json(replicas=3))
    planner = OwnerLookupPlanner(RULES, NO_GATES, Owners(clock), clock)
    first = planner.plan(seen, Memory(), clock.now())
    only = frozenset({("default", "web-1")})
    some = planner.plan(seen, Memory(), clock.now(), only=only)
    again = planner.plan(seen, Memory(), clock.now())
    assert [decision.pod for decision in some.decisions] == ["web-1"]
    assert again.namespaces["default"] is first.namespaces["default"]


def test_a_namespace_that_cannot_be_planned_spoils_no_other(
    clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect of ours costs its own pods their decisions, and is logged with a trace."""
    items = [
        *several(running(container("app", "100m/100Mi")), 3),
        make.workload_json(replicas=3),
        make.vpa_json(recommendations=[recommended("200m/200Mi = =")]),
    ]
    other = [item | {"metadata": item["metadata"] | {"namespace": "other"}} for item in items]
    seen = make.snapshot(*items, *other)
    impossible = replace(read_pod(other[0]), phase=cast("str", 1), conditions=cast("Any", None))
    broken = seen.changed([make.change(impossible)])
    planner = OwnerLookupPlanner(RULES, NO_GATES, Owners(clock), clock)
    made = planner.plan(broken, Memory(), clock.now())
    assert [decision.namespace for decision in made.decisions] == ["default"] * 3
    (record,) = caplog.records
    assert record.exc_info
    assert vars(record)["namespace"] == "other"
    mended = planner.plan(seen, Memory(), clock.now())
    assert len(mended.decisions) == 6


def gadget(namespace: str, name: str) -> Lookup:
    """Return the look-up of a custom owner."""
    key = owner_key("example.com/v1", "Gadget", name)
    return Lookup(namespace, "example.com/v1", "Gadget", name, key)


def test_namespaces_take_turns(clock: SteppedClock) -> None:
    """Each has a look-up begun before any has two, and another one is the first each time."""
    owners, lookups = Owners(clock), [gadget("a", "a1"), gadget("a", "a2"), gadget("b", "b1")]
    find_owners(owners, clock, lookups, first=1)
    assert owners.asked[:3] == ["b1", "a1", "a2"]
