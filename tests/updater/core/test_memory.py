"""What is remembered between two plans, and for how long."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.kinds import ObjectKey
from app.updater.core.decisions import Reason
from app.updater.core.memory import (
    Memory,
    Pause,
    PodMemory,
    Resized,
    SeenRollout,
    after_absence,
    observed,
    unseen_budget,
    with_pods,
    without_breaker_canary,
)
from app.updater.core.proof import Breaker, Proof, ProofVersion
from tests import make
from tests.updater.core.scenes import NOW, OURS, container, running

Json = make.Json
MINUTE = timedelta(minutes=1)
POD = running(container("app", "1"))
OWNER = ObjectKey("", "StatefulSet", "web")
PROOF = Proof(ProofVersion("uid-web", 1, ()), since=NOW)


def after(found: PodMemory, *items: Json, minutes: float = 0) -> PodMemory | None:
    """Return what is still remembered of a pod after looking at the cluster."""
    memory = Memory(pods={"uid-web-0": found})
    snapshot = make.snapshot(*(items or (POD,)))
    return observed(memory, snapshot, OURS, NOW + minutes * MINUTE).pods.get("uid-web-0")


EVICTED = PodMemory("default", "web-0", evicted=NOW)


def test_gone_pods_are_forgotten() -> None:
    """Also when another pod has the name now."""
    assert after(EVICTED) == EVICTED
    assert after(EVICTED, make.vpa_json()) is None
    other = POD | {"metadata": POD["metadata"] | {"uid": "another"}}
    assert after(EVICTED, other) is None


def test_an_eviction_is_believed_for_a_while() -> None:
    """A pod that is still there after two minutes was not evicted after all."""
    assert after(EVICTED, minutes=1.9) == EVICTED
    assert after(EVICTED, minutes=2) is None


@pytest.mark.parametrize(
    ("resized", "metadata", "minutes", "kept"),
    [
        (Resized(NOW, 2, "1"), {"generation": 1}, 0, True),
        (Resized(NOW, 2, "1"), {"generation": 2}, 0, False),
        (Resized(NOW, 2, "1"), {"generation": 1}, 2, False),
        (Resized(NOW, 0, "1"), {"resourceVersion": "1"}, 0, True),
        (Resized(NOW, 0, "1"), {"resourceVersion": "2"}, 0, False),
    ],
)
def test_a_resize_is_remembered_until_it_is_seen(
    resized: Resized, metadata: Json, minutes: float, kept: bool
) -> None:
    """The watch shows it, or should have by now."""
    pod = POD | {"metadata": POD["metadata"] | metadata}
    found = after(PodMemory("default", "web-0", resized=resized), pod, minutes=minutes)
    assert (found is not None) is kept


def test_what_needs_no_time_stays() -> None:
    """Refusals and pauses are kept as long as the pod lives."""
    pause = Pause(Reason.RESIZE_ERROR, "no", 1, NOW)
    found = PodMemory("default", "web-0", pause=pause)
    assert after(found, minutes=10_000) == found


@pytest.mark.parametrize("mark", ["vpaCpuStartupBoost/app", "vpaCpuUnboostPending/app", None])
def test_the_end_of_a_boost_is_remembered_until_it_is_reached(mark: str | None) -> None:
    """A pod that is back and lost its marks is like any other, and costs nothing any more."""
    pod = running(container("app", "1"), annotations={mark: "{}"} if mark else None)
    found = PodMemory("default", "web-0", unboosted=NOW)
    assert after(found, pod) == (found if mark else None)


def test_owners_and_vpas_that_are_gone_are_forgotten() -> None:
    """A custom owner that nobody lists is kept for a day."""
    memory = Memory(
        proofs={("default", OWNER, "web"): PROOF},
        budget_pauses={("default", "web"): Pause(Reason.PDB_BLOCKED, "no", 1, NOW)},
    )
    whole = make.snapshot(make.workload_json(), make.vpa_json(), make.budget_json())
    same = observed(memory, whole, OURS, NOW + timedelta(days=9))
    assert same == memory
    unlisted = make.snapshot(make.vpa_json())
    assert observed(memory, unlisted, OURS, NOW).proofs == memory.proofs
    later = observed(memory, unlisted, OURS, NOW + timedelta(days=1))
    assert (later.proofs, later.budget_pauses) == ({}, {})
    assert observed(memory, make.snapshot(make.workload_json()), OURS, NOW).proofs == {}


@pytest.mark.parametrize(("replicas", "awaited"), [(1, ("x",)), (0, ())])
def test_an_owner_that_wants_no_pods_replaces_none(replicas: int, awaited: tuple[str]) -> None:
    """Such as one of an older template: its namespace would never be quiet again."""
    memory = Memory(proofs={("default", OWNER, "web"): replace(PROOF, awaited=("x",))})
    whole = make.snapshot(make.workload_json(replicas=replicas), make.vpa_json())
    (proof,) = observed(memory, whole, OURS, NOW).proofs.values()
    assert proof.awaited == awaited


def test_who_rests_rests_on() -> None:
    """A VPA that is deleted and made anew does not end the pause after useless evictions."""
    resting = replace(PROOF, failures=1, until=NOW + 5 * MINUTE)
    memory = Memory(proofs={("default", OWNER, "web"): resting})
    gone = make.snapshot(make.workload_json())
    assert observed(memory, gone, OURS, NOW + 4 * MINUTE).proofs == memory.proofs
    assert observed(memory, gone, OURS, NOW + 5 * MINUTE).proofs == {}


def test_a_canary_whose_workload_is_gone_is_let_go() -> None:
    """Nobody would ever answer for it, and all evictions would wait for ever."""
    breaker = Breaker(is_open=True, canary="a")
    proof = replace(PROOF, known=frozenset({"a"}))
    memory = Memory(proofs={("default", OWNER, "web"): proof}, breaker=breaker)
    there = make.snapshot(make.workload_json(), make.vpa_json())
    assert observed(memory, there, OURS, NOW).breaker is breaker
    assert observed(memory, make.snapshot(), OURS, NOW).breaker.canary == ""


def test_empty_memories_take_no_room() -> None:
    """What is no longer worth remembering goes."""
    memory = with_pods(Memory(), {"a": EVICTED, "b": PodMemory("default", "b")})
    assert set(memory.pods) == {"a"}
    assert with_pods(memory, {}) is memory
    assert with_pods(memory, {"a": PodMemory("default", "a")}).pods == {}


def test_namespaces() -> None:
    """Where something is remembered nothing is taken over unseen."""
    memory = Memory(
        pods={"a": PodMemory("one", "a")},
        proofs={
            ("two", OWNER, "web"): Proof(PROOF.version, awaited=("gone",)),
            ("three", OWNER, "web"): PROOF,
        },
        rollouts={("four", "x"): SeenRollout("", NOW)},
    )
    assert memory.namespaces() == {"one", "two", "four"}


def test_a_breakers_canary_is_let_go() -> None:
    """If it is among those that get no answer."""
    memory = Memory(breaker=Breaker(is_open=True, canary="a"))
    assert without_breaker_canary(memory, {"a"}).breaker.canary == ""
    assert without_breaker_canary(memory, {"b"}) is memory
    assert without_breaker_canary(Memory(), {""}) == Memory()


def test_who_was_away_remembers_how_long_to_rest() -> None:
    """Replicas that take turns would evict at each turn; what was proven is proven anew."""
    until = NOW + MINUTE
    failed = replace(PROOF, awaited=("x",), known=frozenset("x"), failures=3, until=until)
    proven = replace(PROOF, is_proven=True)
    other = ("default", OWNER, "other")
    memory = Memory(
        pods={"uid-web-0": EVICTED},
        proofs={("default", OWNER, "web"): failed, other: proven},
        breaker=Breaker(is_open=True, canary="x", until=until, failures=2),
    )
    assert after_absence(memory) == Memory(
        proofs={("default", OWNER, "web"): Proof(PROOF.version, failures=3, until=until)},
        breaker=Breaker(is_open=True, until=until, failures=2, is_trusted=False),
    )


def test_a_budget_that_is_not_seen_rests_a_day_at_most() -> None:
    """It stands under its owner, for nobody knows its name."""
    place = unseen_budget("default", OWNER)
    memory = Memory(budget_pauses={place: Pause(Reason.PDB_BLOCKED, "no", 1, NOW)})
    for hours, kept in ((23, True), (24, False)):
        found = observed(memory, make.snapshot(), OURS, NOW + timedelta(hours=hours))
        assert (place in found.budget_pauses) is kept
