"""How the pods of a VPA are doing: one status for all of them, in words that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from app.diagnosis.core.attention import Attention, status_of, upcoming_text, without_pods
from app.model.snapshot import NamespaceView, Snapshot
from app.updater.core.decisions import Action, Decision, Reason
from tests import make
from tests.cases import cases
from tests.run.views import NOW

NARROW = 24  # columns of the status where a terminal has eighty
DECISION = Decision("one", "default", "web-1", "web", Action.WAIT, Reason.PDB_BLOCKED, "a sentence")


def decision(reason: Reason, action: Action = Action.WAIT, pod: str = "web-1") -> Decision:
    """Return a decision about a pod."""
    return replace(DECISION, action=action, reason=reason, pod=pod)


def view(*items: dict[str, object]) -> NamespaceView:
    """Return a namespace with a pod and some more."""
    snapshot: Snapshot = make.snapshot(make.pod_json(name="web-1", labels={"app": "web"}), *items)
    return snapshot.of("default")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_fits_a_narrow_terminal(reason: Reason) -> None:
    """Its words are whole on eighty columns, and say more than the reason does."""
    status = status_of(NamespaceView(), [decision(reason)])

    assert 0 < len(status.text) <= NARROW
    assert str(reason) not in status.text
    assert status.why == "a sentence"


@cases(
    "decided text level",
    {
        "what is done": (
            [decision(Reason.PROOF_PENDING), decision(Reason.EVICTED, Action.EVICT)],
            "evicting 1 of 2 pods",
            Attention.UPDATING,
        ),
        "what blocks": (
            [decision(Reason.PROOF_PENDING), decision(Reason.TOO_FEW_REPLICAS)],
            "blocked: minReplicas, too few pods",
            Attention.BLOCKED,
        ),
        "what takes its time": (
            [decision(Reason.NO_CHANGE, Action.NONE), decision(Reason.PROOF_PENDING)],
            "waits: canary goes first",
            Attention.WAITING,
        ),
        "what most wait for": (
            [
                decision(Reason.PROOF_PENDING),
                decision(Reason.RATE_LIMITED),
                decision(Reason.RATE_LIMITED),
            ],
            "waits: rate limit",
            Attention.WAITING,
        ),
        "nothing": ([decision(Reason.NO_CHANGE, Action.NONE)], "ok", Attention.FINE),
        "off": ([decision(Reason.MODE_OFF, Action.NONE)], "recommends only", Attention.IDLE),
    },
)
def test_one_status_for_all_pods(decided: Sequence[Decision], text: str, level: Attention) -> None:
    """What is done comes before what blocks, and that before what only takes its time."""
    status = status_of(NamespaceView(), decided)

    assert (status.text + status.more, status.level) == (text, level)


@cases(
    "budgets text",
    {
        "one": (["web"], "blocked: PDB web"),
        "two": (["b", "a"], "blocked: PDB a, b"),
        "none any more": ([], "blocked: PDB"),
    },
)
def test_the_disruption_budget_is_named(budgets: list[str], text: str) -> None:
    """The PodDisruptionBudgets that match the pod are named, and no other."""
    other = make.budget_json("other", labels={"app": "other"})
    items = [make.budget_json(name, labels={"app": "web"}) for name in budgets]

    assert status_of(view(other, *items), [decision(Reason.PDB_BLOCKED)]).text == text


def test_a_disruption_budget_of_a_role() -> None:
    """A budget does not see the label that a pod has by a Lease, so it is not named."""
    items = [
        make.workload_json(),
        make.vpa_json(
            annotations={"plumbline/role-lease": "role=web"},
            selector={"matchLabels": {"role": "leader"}},
        ),
        make.pod_json(name="web-1"),
        make.lease_json("web-1_4f5c"),
        make.budget_json("of-leaders", labels={"role": "leader"}),
        make.budget_json("of-all", labels=make.LABELS),
    ]
    found = make.snapshot(*items).of("default")

    assert found.pods["web-1"].labels["role"] == "leader"
    assert status_of(found, [decision(Reason.PDB_BLOCKED)]).text == "blocked: PDB of-all"


def test_until_when_it_waits() -> None:
    """What passes by itself says when."""
    waiting = replace(decision(Reason.TOO_YOUNG, Action.NONE), until=NOW + timedelta(hours=12))
    status = status_of(NamespaceView(), [waiting])

    assert status.text + status.more == "waits: within bounds, until 22:42"
    assert upcoming_text(waiting) == "web may be updated within its bounds"
    boosted = replace(waiting, reason=Reason.BOOST_RUNNING)
    assert upcoming_text(boosted) == "the startup boost of web ends"
    assert upcoming_text(replace(waiting, reason=Reason.RATE_LIMITED)) == ""


@cases(
    "created decided text",
    {
        "before the last round": (timedelta(minutes=-1), True, "no pods"),
        "after it": (timedelta(minutes=1), True, "not yet seen"),
        "before any round": (timedelta(minutes=-1), False, "not yet seen"),
    },
)
def test_without_pods(created: timedelta, *, decided: bool, text: str) -> None:
    """That there are no pods is said only once the updater has looked."""
    vpa = make.vpa(created=NOW + created)

    assert without_pods(vpa, NOW if decided else None).text == text


@cases(
    "status text",
    {
        "it is not known who leads": ("True", "blocked: role unknown"),
        "it is": ("False", "no pods"),
    },
)
def test_without_a_known_leader(status: str, text: str) -> None:
    """A VPA has no pods as long as nobody knows which of them leads, and says why."""
    told = {"type": "RoleUnknown", "status": status, "reason": "NoLease", "message": "no Lease"}
    vpa = make.vpa(created=NOW - timedelta(minutes=1), status={"conditions": [told]})
    found = without_pods(vpa, NOW)

    assert (found.text, found.why) == (text, "no Lease" if status == "True" else "")
