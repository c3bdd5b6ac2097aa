"""Proof that evicting helps."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from app.updater.core.decisions import Pair
from app.updater.core.pod_targets import measure
from app.updater.core.proof import (
    Breaker,
    Breakers,
    Outage,
    Proof,
    ProofVersion,
    current_proof,
    expected_requests,
    has_expected,
)
from tests import make
from tests.cases import cases
from tests.updater.core.scenes import MINUTE, NOW, OURS, UNPROVEN, amounts, container, read, running

VERSION = ProofVersion("uid-web", 1, ())
PODS = frozenset({"a", "b"})


def test_a_canary_goes_first() -> None:
    """One pod may go; the next one only when its replacement helped."""
    fresh = Proof(VERSION)
    assert fresh.allows(OURS, NOW)
    waiting = fresh.after_eviction("a", PODS, {}, NOW)
    assert not waiting.allows(OURS, NOW)
    proven = waiting.after_replacement("c", helped=True, rules=OURS, now=NOW)
    assert proven.allows(OURS, NOW)
    assert proven.is_proven
    assert proven.known == {"a", "b", "c"}


def test_without_proving_everybody_may_go() -> None:
    """Nothing is waited for."""
    waiting = Proof(VERSION).after_eviction("a", PODS, {}, NOW)
    assert waiting.allows(UNPROVEN, NOW)


def test_useless_evictions_pause_longer_each_time() -> None:
    """Five minutes, ten, twenty, up to six hours; a success ends it."""
    proof, pauses = Proof(VERSION), []
    for number in range(8):
        proof = proof.after_eviction("a", PODS, {}, NOW)
        proof = proof.after_replacement(f"n{number}", helped=False, rules=OURS, now=NOW)
        assert proof.until is not None
        pauses.append((proof.until - NOW) / MINUTE)
        assert not proof.allows(OURS, proof.until - MINUTE)
        assert proof.allows(OURS, proof.until)
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 360]
    assert proof.has_failed
    good = proof.after_replacement("good", helped=True, rules=OURS, now=NOW)
    assert (good.has_failed, good.until, good.is_proven) == (False, None, True)


def test_no_answer_is_no_proof() -> None:
    """An owner that has all its pods replaces none; another canary may go."""
    waiting = Proof(VERSION).after_eviction("a", PODS, {}, NOW)
    silent = waiting.without_replacement()
    assert (silent.is_proven, silent.allows(OURS, NOW)) == (False, True)


def test_several_evictions_are_awaited_together() -> None:
    """Of a proven workload many go at once, and what was there before is no replacement."""
    proven = replace(Proof(VERSION), is_proven=True)
    twice = proven.after_eviction("a", PODS, {}, NOW).after_eviction("b", PODS | {"c"}, {}, NOW)
    assert twice.awaited == ("a", "b")
    assert twice.known == {"a", "b", "c"}


def test_a_pod_that_was_not_evicted_after_all_is_not_awaited() -> None:
    """The others still are; and nobody is awaited twice."""
    twice = Proof(VERSION).after_eviction("a", PODS, {}, NOW).after_eviction("b", PODS, {}, NOW)
    assert twice.after_eviction("a", PODS, {}, NOW).awaited == ("b", "a")
    assert twice.without("a").awaited == ("b",)
    assert twice.without("c") == twice


def test_another_version_needs_another_proof() -> None:
    """After a change of the VPA or the template; what is awaited and what failed stays."""
    assert current_proof(None, VERSION) == Proof(VERSION)
    proven = Proof(VERSION, is_proven=True, awaited=("a",))
    assert current_proof(proven, VERSION) is proven
    later = current_proof(proven, replace(VERSION, vpa_generation=2))
    assert (later.is_proven, later.awaited) == (False, ("a",))
    failed = proven.after_replacement("new", helped=False, rules=OURS, now=NOW)
    edited = current_proof(failed, replace(VERSION, vpa_generation=2))
    assert (edited.failures, edited.until) == (1, NOW + 5 * MINUTE)


def pair(target: str, name: str = "cpu", *, controlled: bool = True) -> Pair:
    """Return a pair of the container `app`."""
    return Pair("app", name, None, make.quantity(target), None, None, is_controlled=controlled)


@pytest.mark.parametrize(
    ("has", "target", "expected", "result"),
    [
        ("200m", "200m", "200m", True),
        ("219m", "200m", "200m", True),
        ("230m", "200m", "200m", False),
        ("100m", "200m", "200m", False),
        ("100m", "200m", "100m", True),
        ("150m", "200m", "100m", True),
        ("-", "200m", "200m", False),
    ],
)
def test_helped(has: str, target: str, expected: str, result: bool) -> None:
    """A replacement has what was recommended at the eviction, or is now, or in between."""
    pod = read(running(container("app", has)))
    then = {("app", name): make.quantity(text) for name, text in amounts(expected).items()}
    assert has_expected(pod, (pair(target),), then) is result


def test_only_what_is_controlled_is_expected() -> None:
    """A container that makes room for others may be what it likes."""
    pod = read(running(container("app", "1")))
    assert has_expected(pod, (pair("9", controlled=False),), {})
    numbers = measure((pair("9", controlled=False), pair("1Gi", "memory")))
    assert expected_requests(numbers) == {("app", "memory"): make.quantity("1Gi")}


def after(breaker: Breaker, verdicts: str, now: datetime = NOW) -> Breaker:
    """Return the breaker after replacements that helped (+) or not (-)."""
    for word in verdicts:
        breaker = breaker.after(OURS, now, helped=word == "+")
    return breaker


@pytest.mark.parametrize(
    ("verdicts", "is_open"),
    [("---", False), ("----", True), ("++--", False), ("+---", True), ("++++---", False)],
)
def test_breaker_opens(verdicts: str, is_open: bool) -> None:
    """More than half of the latest evictions were useless, and there were enough of them."""
    assert after(Breaker(), verdicts).is_open is is_open


def test_breaker_forgets_what_is_long_ago() -> None:
    """Only the last ten minutes count."""
    old = after(Breaker(), "---", NOW - 11 * MINUTE)
    assert not after(old, "-").is_open


def test_breaker_lets_one_canary_go() -> None:
    """While it is open one pod goes at a time, with growing pauses, until one helped."""
    found = after(Breaker(), "----")
    assert not found.allows(NOW)
    later = NOW + 5 * MINUTE
    assert found.allows(later)
    out = found.after_eviction("x", OURS, later)
    assert (out.canary, out.allows(later)) == ("x", False)
    assert out.after_eviction("y", OURS, later).canary == "x"
    other = out.after(OURS, later, helped=True, evicted={"y"})
    assert other == replace(out, judged=(*out.judged, (later, True)))
    failed = out.after(OURS, later, helped=False, evicted={"x"})
    assert failed.until == later + 10 * MINUTE
    assert failed.allows(later + 10 * MINUTE)
    helped = out.after(OURS, later, helped=True, evicted={"x", "y"})
    assert helped == Breaker(((later, True),))


def test_canaries_of_the_breaker_that_nobody_replaces() -> None:
    """The next one goes after a pause, which doubles as after one that did not help."""
    found, pauses, now = after(Breaker(), "----"), [], NOW + 5 * MINUTE
    for name in "abcd":
        found = found.after_eviction(name, OURS, now)
        assert (found.canary, found.allows(now)) == (name, False)
        assert found.until is not None
        pauses.append((found.until - now) / MINUTE)
        now = found.until
    assert pauses == [5, 10, 20, 40]
    assert found.without_canary().allows(NOW)


def judged(breakers: Breakers, *verdicts: str, now: datetime = NOW) -> Breakers:
    """Return the breakers after replacements, such as `a+++` or `b-`, in this order."""
    for text in verdicts:
        for word in text[1:]:
            breakers = breakers.after(text[0], OURS, now, helped=word == "+")
    return breakers


@cases(
    "verdicts expected stopped",
    {
        "one namespace, however often": (["a" + "-" * 50], False, "a"),
        "two": (["a----", "b----"], False, "ab"),
        "three": (["a----", "b----", "c-"], True, "ab"),
        "three, once each": (["a-", "b-", "c-"], True, ""),
        "three of seven": (["d+", "e+", "f+", "g+", "a-", "b-", "c-"], False, ""),
        "four of seven": (["d+", "e+", "f+", "a-", "b-", "c-", "g-"], True, ""),
        "a good one has as many votes as a bad one": (
            ["a-", "b-", "d++++++++", "c-"],
            True,
            "",
        ),
        "most helped in each": (["a++-", "b++-", "c++-"], False, ""),
    },
)
def test_each_namespace_has_one_vote(verdicts: list[str], expected: bool, stopped: str) -> None:
    """All stop for three namespaces, if they are more than half of those that were heard."""
    found = judged(Breakers(), *verdicts)
    assert list(found.stopped()) == [""] * expected + list(stopped)


def test_namespaces_that_were_heard_long_ago_have_no_vote() -> None:
    """Nor does the cluster stop for a verdict that is good."""
    old = judged(Breakers(), "a----", "b----", now=NOW - 11 * MINUTE)
    assert not judged(old, "c-").cluster.is_open
    most = judged(Breakers(), "a-", "b-", "c+")
    assert not judged(most, "c+").cluster.is_open


def test_one_namespace_may_go_on_after_its_canary() -> None:
    """The answer to the canary of a namespace says nothing about another."""
    found = judged(Breakers(), "a----", "b----")
    later = NOW + 5 * MINUTE
    assert not found.of("a").allows(NOW)
    assert found.of("a").allows(later)
    assert found.of("c").allows(NOW)
    out = found.after_eviction("a", "x", OURS, later).after_eviction("c", "y", OURS, later)
    assert out.canaries == {"x"}
    done = out.after("a", OURS, later, helped=True, evicted={"x"})
    assert [name for name, one in done.namespaces.items() if one.is_open] == ["b"]
    assert done.without_canaries({"y"}) is done


def test_one_canary_for_all_namespaces() -> None:
    """When it helped all others are heard anew; those that stopped alone wait for their own."""
    found = judged(Breakers(), "a----", "b-", "c-")
    later = NOW + 5 * MINUTE
    out = found.after_eviction("c", "x", OURS, later)
    assert not out.cluster.allows(later)
    assert judged(out, "d+", now=later).cluster.is_open
    failed = out.after("c", OURS, later, helped=False, evicted={"x"})
    assert failed.cluster.until == later + 10 * MINUTE
    helped = out.after("c", OURS, later, helped=True, evicted={"x"})
    assert not helped.cluster.is_open
    assert {name: one.is_open for name, one in helped.namespaces.items()} == {
        "a": True,
        "b": False,
        "c": False,
    }
    assert not judged(helped, "b-", now=later).cluster.is_open
    assert out.without_canaries({"x"}).cluster.allows(later)


def test_breakers_without_a_use_are_forgotten() -> None:
    """Of namespaces in which nothing is evicted nothing is kept, but a pause that goes on."""
    found = judged(Breakers(), "a----", "b-", "c----")
    later = NOW + 11 * MINUTE
    assert found.living((), OURS, NOW) is found
    assert list(found.living({"a", "b"}, OURS, later).namespaces) == ["a"]
    resting = found.after_eviction("c", "x", OURS, later)
    assert list(resting.living((), OURS, later).namespaces) == ["c"]


def test_one_eviction_that_helped_is_trusted_for_all() -> None:
    """After a start none has helped yet; those that do not change nothing about that."""
    fresh = Breakers().after_absence()
    assert not judged(fresh, "a--").is_trusted
    assert judged(fresh, "a-+-").is_trusted


OUTAGE = Outage(NOW, NOW + 2 * MINUTE)
BACK = NOW + 3 * MINUTE


@cases(
    "since explained",
    {
        "long before": (NOW - MINUTE, False),
        "just before": (NOW - MINUTE / 2, True),
        "meanwhile": (NOW + MINUTE, True),
        "at its end": (NOW + 2 * MINUTE, True),
        "afterwards": (BACK, False),
    },
)
def test_pauses_that_began_in_an_outage_end_with_it(since: datetime, explained: bool) -> None:
    """Of a workload, a namespace and the cluster; what was judged then does not count."""
    failed = Proof(VERSION).after_eviction("a", PODS, {}, since)
    failed = failed.after_replacement("b", helped=False, rules=OURS, now=since)
    again = failed.after_outage(OUTAGE, OURS)
    assert again.allows(OURS, since) is explained
    assert again.after_outage(OUTAGE, OURS) == again
    stopped = judged(Breakers(), "a----", "b----", "c--", now=since)
    going = stopped.after_outage(OUTAGE, OURS)
    assert list(going.stopped()) == ([] if explained else list(stopped.stopped()))
    assert going.of("c") == (Breaker() if explained else stopped.of("c"))
    assert going.is_trusted is not explained
    assert going.after_outage(OUTAGE, OURS) == going


def test_an_outage_ends_no_pause_that_is_over() -> None:
    """Nor does it say anything about what was never evicted."""
    assert not OUTAGE.explains(None, OURS)
    fresh = Proof(VERSION)
    assert fresh.after_outage(OUTAGE, OURS) is fresh
