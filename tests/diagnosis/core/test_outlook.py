"""What will be decided about a pod."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.diagnosis.core.outlook import (
    MATCHES,
    UPDATES,
    UpcomingDecision,
    outlook,
    upcoming_json,
)
from app.model.fields import Json
from app.model.gates import FeatureGates
from app.sizing.matching import MatchReason
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.memory import Memory
from app.updater.core.plan import Plan, plan
from app.updater.core.rules import UpdateRules
from tests import make
from tests.updater.core.scenes import container, recommended, running, several

RULES = UpdateRules()


def turns(*items: Json, name: str = "web-0") -> list[UpcomingDecision]:
    """Return what is decided about a pod, now and later."""
    snapshot = make.snapshot(*items)

    def plan_at(now: datetime) -> Plan:
        return plan(snapshot, RULES, FeatureGates(), Memory(), now)

    return list(outlook(plan_at, snapshot.of("default").pods[name], make.NOW))


def cluster(
    *, started: timedelta, bounds: str, count: int = 2, mode: str | None = None
) -> list[Json]:
    """Return a StatefulSet whose pods should be twice as big."""
    pods = several(running(container("app", "100m/100Mi")), count)
    for pod in pods:
        pod["status"]["startTime"] = make.time(started)
    told = make.vpa_json(mode=mode, recommendations=[recommended(f"200m/200Mi {bounds}")])
    return [*pods, make.workload_json(replicas=count), told]


def test_what_is_done_at_once_ends_the_story() -> None:
    """An action now is all that there is to tell."""
    (turn,) = turns(*cluster(started=timedelta(hours=1), bounds="= ="))
    assert (turn.decision.action, turn.at) == (Action.EVICT, make.NOW)


def test_a_young_pod_is_evicted_when_it_is_old_enough() -> None:
    """The moment at which the answer changes is told with what happens then."""
    now, later = turns(*cluster(started=timedelta(hours=3), bounds="50m/50Mi 1/1Gi"))
    assert (now.decision.reason, now.until) == (Reason.TOO_YOUNG, later.at)
    assert (later.decision.action, later.at) == (Action.EVICT, make.NOW + timedelta(hours=9))


def test_what_time_does_not_change_is_told_once() -> None:
    """A pod that is left alone for good has one turn without an end."""
    (turn,) = turns(*cluster(started=timedelta(days=3), bounds="= =", mode="Off"))
    assert (turn.decision.reason, turn.until) == (Reason.MODE_OFF, None)


def test_a_hindrance_comes_after_the_time() -> None:
    """Later the pod is old enough, and then something else is in the way."""
    items = cluster(started=timedelta(hours=3), bounds="50m/50Mi 1/1Gi", count=1)
    reasons = [turn.decision.reason for turn in turns(*items)]
    assert reasons == [Reason.TOO_YOUNG, Reason.TOO_FEW_REPLICAS]


def test_pods_without_a_vpa_have_no_outlook() -> None:
    """Neither in a namespace without VPAs nor beside one."""
    assert turns(make.pod_json()) == []
    other = make.pod_json(name="other", owner=None)
    assert turns(other, *cluster(started=timedelta(hours=1), bounds="= ="), name="other") == []


def test_an_upcoming_decision_as_json() -> None:
    """A decision comes with its time, and with what helps if something does."""
    few = Decision("u", "default", "web-0", "web", Action.WAIT, Reason.TOO_FEW_REPLICAS, "few")
    none = Decision("u", "default", "web-0", "web", Action.NONE, Reason.NO_CHANGE, "fine")
    told = upcoming_json(UpcomingDecision(make.NOW, few, make.NOW))
    assert told["advice"].startswith("run more replicas")
    assert told["until"] == told["at"] == "2026-01-05T10:00:00+00:00"
    assert upcoming_json(UpcomingDecision(make.NOW, none, None)).keys() == {
        "at",
        "action",
        "reason",
        "message",
    }


def test_every_reason_has_its_advice() -> None:
    """No reason is forgotten; an empty advice says that nothing needs to be done."""
    assert set(UPDATES) == set(Reason)
    assert set(MATCHES) == set(MatchReason)
