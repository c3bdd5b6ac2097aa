"""What is remembered between two plans, and for how long."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta

import pytest

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.updater.core.decisions import Pair, Reason
from app.updater.core.memory import (
    Infeasible,
    Memory,
    Pause,
    PodMemory,
    Resized,
    SeenRollout,
    Wanted,
    after_absence,
    blamed_resources,
    is_remembered,
    observed,
    shifted,
    unseen_pdb_key,
    wanted_requests,
    with_pods,
    without_breaker_canaries,
)
from app.updater.core.proof import Breaker, Breakers, Proof, ProofVersion
from tests import make
from tests.updater.core.scenes import MINUTE, NOW, OURS, amounts, container, running, with_metadata

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
    other = with_metadata(POD, uid="another")
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
    pod = with_metadata(POD, **metadata)
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
    found = PodMemory("default", "web-0", unboost_tried_at=NOW)
    assert after(found, pod) == (found if mark else None)


def test_owners_and_vpas_that_are_gone_are_forgotten() -> None:
    """A custom owner that nobody lists is kept for a day."""
    memory = Memory(
        proofs={("default", OWNER, "web"): PROOF},
        pdb_pauses={("default", "web"): Pause(Reason.PDB_BLOCKED, "no", 1, NOW)},
    )
    whole = make.snapshot(make.workload_json(), make.vpa_json(), make.budget_json())
    same = observed(memory, whole, OURS, NOW + timedelta(days=9))
    assert same == memory
    unlisted = make.snapshot(make.vpa_json())
    assert observed(memory, unlisted, OURS, NOW).proofs == memory.proofs
    later = observed(memory, unlisted, OURS, NOW + timedelta(days=1))
    assert (later.proofs, later.pdb_pauses) == ({}, {})
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
    breakers = Breakers(Breaker(is_open=True, canary="a"))
    proof = replace(PROOF, awaited=("a",))
    memory = Memory(proofs={("default", OWNER, "web"): proof}, breakers=breakers)
    there = make.snapshot(make.workload_json(), make.vpa_json())
    assert observed(memory, there, OURS, NOW).breakers is breakers
    assert observed(memory, make.snapshot(), OURS, NOW).breakers.canaries == frozenset()
    other = replace(proof, awaited=(), known=frozenset({"a"}))  # it has merely seen the pod
    memory = replace(memory, proofs={("default", OWNER, "web"): other})
    assert observed(memory, there, OURS, NOW).breakers.canaries == frozenset()


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
        rollouts={("four", OWNER): SeenRollout("", NOW)},
    )
    assert memory.namespaces() == {"one", "two", "four"}


def test_a_breakers_canary_is_let_go() -> None:
    """If it is among those that get no answer."""
    memory = Memory(breakers=Breakers(Breaker(is_open=True, canary="a")))
    assert without_breaker_canaries(memory, {"a"}).breakers.canaries == frozenset()
    assert without_breaker_canaries(memory, {"b"}) is memory
    assert without_breaker_canaries(Memory(), {""}) == Memory()


def test_who_was_away_remembers_how_long_to_rest() -> None:
    """Replicas that take turns would evict at each turn; what was proven is proven anew."""
    until = NOW + MINUTE
    failed = replace(PROOF, awaited=("x",), known=frozenset("x"), failures=3, until=until)
    proven = replace(PROOF, is_proven=True)
    other = ("default", OWNER, "other")
    memory = Memory(
        pods={"uid-web-0": EVICTED},
        proofs={("default", OWNER, "web"): failed, other: proven},
        breakers=Breakers(Breaker(is_open=True, canary="x", until=until, failures=2)),
    )
    assert after_absence(memory) == Memory(
        proofs={("default", OWNER, "web"): Proof(PROOF.version, failures=3, until=until)},
        breakers=Breakers(Breaker(is_open=True, until=until, failures=2), is_trusted=False),
    )


def test_a_budget_that_is_not_seen_rests_a_day_at_most() -> None:
    """It stands under its owner, for nobody knows its name."""
    place = unseen_pdb_key("default", OWNER)
    memory = Memory(pdb_pauses={place: Pause(Reason.PDB_BLOCKED, "no", 1, NOW)})
    for hours, kept in ((23, True), (24, False)):
        found = observed(memory, make.snapshot(), OURS, NOW + timedelta(hours=hours))
        assert (place in found.pdb_pauses) is kept


PAUSE = Pause(Reason.RESIZE_ERROR, "no", 1, NOW)
FULL = Memory(
    pods={
        "a": PodMemory(
            "default",
            "a",
            evicted=NOW,
            resized=Resized(NOW, 1, "1"),
            resizing_since=NOW,
            infeasible=Infeasible({}, frozenset(), NOW, None),
            pause=PAUSE,
            unboost_tried_at=NOW,
        ),
        "b": PodMemory("default", "b", evicted=NOW),
    },
    proofs={
        ("default", ObjectKey("", "StatefulSet", "web"), "web"): Proof(
            ProofVersion("", 1, ()), since=NOW, until=NOW
        )
    },
    breakers=Breakers(namespaces={"default": Breaker(((NOW, True),), is_open=True, until=NOW)}),
    pdb_pauses={("default", "web"): PAUSE},
    rollouts={("default", OWNER): SeenRollout("", NOW)},
)


def moments(value: object) -> list[datetime]:
    """Return every moment in a value."""
    if isinstance(value, datetime):
        return [value]
    if is_dataclass(value):
        return [found for item in fields(value) for found in moments(getattr(value, item.name))]
    if isinstance(value, dict):
        return [found for item in value.values() for found in moments(item)]
    if isinstance(value, tuple):
        return [found for item in value for found in moments(item)]
    return []


@pytest.mark.parametrize("hours", [1, -1])
def test_every_moment_moves(hours: int) -> None:
    """Whatever is remembered counts as long as before; and back again nothing is lost."""
    by = timedelta(hours=hours)
    found = shifted(FULL, by)
    assert moments(FULL) == [NOW] * 13
    assert moments(found) == [NOW + by] * 13
    assert shifted(found, -by) == FULL


def test_a_clock_that_was_not_set() -> None:
    """Nothing is made anew for it."""
    assert shifted(FULL, timedelta()) is FULL
    assert shifted(Memory(), timedelta(days=1)) == Memory()


NODE = make.quantities(cpu="4", memory="8Gi")


def wanted(text: str, container: str = "app") -> Wanted:
    """Read `cpu/memory` of one container."""
    return {(container, name): make.quantity(word) for name, word in amounts(text).items()}


@pytest.mark.parametrize(
    ("past", "now", "blamed", "expected"),
    [
        ("1/1Gi", "1/1Gi", "", True),
        ("1/1Gi", "2/2Gi", "", True),
        ("1/1Gi", "900m/2Gi", "", False),
        ("1/1Gi", "900m/2Gi", "memory", True),
        ("1/1Gi", "2/900Mi", "memory", False),
        ("1/1Gi", "999m/1Gi", "", True),
        ("1", "-/900Mi", "", True),
    ],
)
def test_only_clearly_less_is_worth_a_try(past: str, now: str, blamed: str, expected: bool) -> None:
    """Less of what was blamed, and not just a little."""
    remembered = Infeasible(wanted(past), frozenset(filter(None, [blamed])), NOW, NODE)
    assert is_remembered(remembered, wanted(now), NODE, OURS, NOW) is expected


def test_containers_are_compared_with_themselves() -> None:
    """A container that is less than another one once was tells nothing."""
    remembered = Infeasible(wanted("1/1Gi"), frozenset(), NOW, NODE)
    assert is_remembered(remembered, wanted("1m/1Mi", "b"), NODE, OURS, NOW)


def test_time_and_another_node_make_forget() -> None:
    """After a while, or when the node changed, it is tried again."""
    past = Infeasible(wanted("1/1Gi"), frozenset(), NOW, NODE)
    later = NOW + timedelta(hours=6)
    bigger = make.quantities(cpu="8", memory="8Gi")
    assert is_remembered(past, wanted("1/1Gi"), NODE, OURS, later - timedelta(seconds=1))
    assert not is_remembered(past, wanted("1/1Gi"), NODE, OURS, later)
    assert not is_remembered(past, wanted("1/1Gi"), bigger, OURS, NOW)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "node didn't have enough allocatable resources: cpu, requested: 16050, allocatable: 8",
            {"cpu"},
        ),
        ("Node didn't have enough resource: memory, requested: 6050, used: 52", {"memory"}),
        ("Node didn't have enough capacity: cpu, requested: 9, capacity: 8", {"cpu"}),
        ("In-place resize of containers with swap is not supported", set()),
    ],
)
def test_blamed_resources(message: str, expected: set[str]) -> None:
    """A refusal may name what is missing."""
    assert blamed_resources(message) == expected


def test_what_is_asked_for() -> None:
    """Capped targets of cpu and memory."""
    amount = make.quantity("1")
    pairs = [
        Pair("app", name, None, amount, None, None, is_controlled=True)
        for name in ("cpu", "example.com/gpu")
    ]
    assert wanted_requests(pairs) == {("app", "cpu"): amount}
