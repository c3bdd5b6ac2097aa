"""The recommender's model is told what is known, and nothing that is not."""

from __future__ import annotations

from datetime import UTC, datetime

from app.model.snapshot import Snapshot
from app.model.workloads import Failed, Lookup, LookupResult, scaled_workload
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.variant import UPSTREAM
from app.recommender.variants import OURS
from app.sandbox.clock import SteppedClock
from tests import make

NOW = datetime(2026, 1, 5, tzinfo=UTC)
SECONDS = 2.0  # for each look-up


class SlowOwners:
    """Custom kinds that take their time; an answer that came too late is there the next time."""

    def __init__(self, clock: SteppedClock, *, broken: bool = False) -> None:
        self._clock = clock
        self._broken = broken
        self._found: set[Lookup] = set()

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return an owner, unless it takes too long."""
        if lookup in self._found:
            return scaled_workload(
                lookup.namespace,
                lookup.api_version,
                lookup.kind,
                {"metadata": {"name": lookup.name}, "status": {"selector": "app=web"}},
            )
        if not self._broken:
            self._found.add(lookup)
        self._clock.advance(min(SECONDS, deadline_seconds))
        if deadline_seconds >= SECONDS and not self._broken:
            return self.find(lookup, 0.0)
        return Failed("no answer in time")


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
        self.lookout.tell_vpas(self.snapshot if snapshot is None else snapshot, NOW)
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
    assert all("no answer in time" in problem for problem in found[-1])


def test_a_vpa_that_goes_while_it_waits() -> None:
    """It is forgotten; one of its name that comes later has time of its own."""
    scene = Scene(10, broken=True)
    scene.look()
    scene.look(make.snapshot())
    scene.clock.advance(600)

    assert len(scene.look()) == 2
