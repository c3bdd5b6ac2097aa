"""Assessments: a pod with a decision or a wish."""

from __future__ import annotations

from app.model.limits import NO_LIMITS
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import NOTHING, Memory
from app.updater.core.proposals import Assessment, PlanInputs, PodContext
from app.updater.core.targets import OwnerTargets
from tests import make
from tests.make import NO_GATES
from tests.updater.core.scenes import NOW, OURS

POD, VPA = make.pod(), make.vpa()


def test_decisions_name_pod_and_vpa() -> None:
    """By uid, namespace and name."""
    found = Assessment(POD, VPA).decided(Action.WAIT, Reason.LEASE_STALE, "why")
    assert (found.uid, found.namespace, found.pod, found.vpa) == (
        "uid-web-0",
        "default",
        "web-0",
        "web",
    )


def test_cases_decide_for_good() -> None:
    """The assessment holds the decision, and until when."""
    targets = OwnerTargets(VPA, None, NO_LIMITS, OURS)
    case = PodContext(POD, VPA, targets, PlanInputs(OURS, NO_GATES, Memory(), NOW), NOTHING)
    assert case.rules is OURS
    found = case.decided(Action.NONE, Reason.TOO_YOUNG, "young", until=NOW)
    assert found.proposal is None
    assert found.until == NOW
    assert found.decision is not None
    assert found.decision.reason is Reason.TOO_YOUNG
