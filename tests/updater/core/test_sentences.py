"""The sentences that say why: the resource, from, to, and the rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.quantity import Quantity
from app.updater.core import sentences
from app.updater.core.decisions import Pair
from tests.cases import cases
from tests.updater.core.scenes import NOW

HALF_A_DAY = timedelta(hours=12)
LONGEST = 600  # characters: a list of changes, and what is said around it
MOVED = re.compile(r"(\S+) -> ([^\s;,)]+)")


def pair(text: str, container: str = "app") -> Pair:
    """Read `cpu current target lower upper`; what is not there is written as `-`."""
    resource, *words = text.split()
    has, target, lower, upper = [
        None if word == "-" else Quantity.parse(word) for word in (*words, "-", "-")[:4]
    ]
    assert target is not None
    return Pair(container, resource, has, target, lower, upper, is_controlled=True)


WEB = (pair("cpu 100m 350m 200m 1"), pair("memory 128Mi 400Mi 300Mi 1Gi"))
BIG = (pair("cpu 3 49m 20m 70m"), pair("memory 6Gi 250Mi 100Mi 1Gi"))
SIDE = (pair("cpu 100m 350m 200m 1"), pair("memory 10Mi 20Mi 1Mi 1Gi", "proxy"))


def at_once(pairs: tuple[Pair, ...], *, named: bool = False) -> str:
    """Return why a pod outside of its bounds is updated."""
    cause = sentences.trigger(pairs)
    assert cause is not None
    return sentences.outside_bounds(cause, pairs, named=named)


@cases(
    "pairs named expected",
    {
        "too small": (
            WEB,
            False,
            "cpu 100m is below its lower bound 200m: 100m -> 350m; memory 128Mi -> 400Mi",
        ),
        "too big": (
            BIG,
            False,
            "cpu 3 is above its upper bound 70m: 3 -> 49m; memory 6Gi -> 250Mi",
        ),
        "the cause comes first": (
            (pair("cpu 100m 110m 50m 1"), WEB[1]),
            False,
            "memory 128Mi is below its lower bound 300Mi: 128Mi -> 400Mi; cpu 100m -> 110m",
        ),
        "what stays is not told": (
            (pair("cpu 100m 100m 50m 1"), WEB[1]),
            False,
            "memory 128Mi is below its lower bound 300Mi: 128Mi -> 400Mi",
        ),
        "no request": (
            (WEB[0], pair("memory - 400Mi")),
            False,
            "memory has no request: none -> 400Mi; cpu 100m -> 350m",
        ),
        "several containers": (
            SIDE,
            True,
            "app cpu 100m is below its lower bound 200m: 100m -> 350m; proxy memory 10Mi -> 20Mi",
        ),
        "three digits are not enough": (
            (pair("memory 1000000Ki 1000001Ki 1000001Ki 2Gi"),),
            False,
            "memory 1000000Ki is below its lower bound 1000001Ki: 1000000Ki -> 1000001Ki",
        ),
        "outside of bounds that the target does not know": (
            (pair("cpu 1 1 2 3"), pair("memory 1Gi 2Gi")),
            False,
            "cpu 1 is below its lower bound 2; memory 1Gi -> 2Gi",
        ),
        "a target that runs away comes last": (
            (pair("cpu 1 500m 2 3"), pair("memory 1Gi 1200Mi 1100Mi 2Gi")),
            False,
            "memory 1Gi is below its lower bound 1.07Gi: 1Gi -> 1.17Gi; cpu 1 -> 500m",
        ),
    },
)
def test_outside_of_bounds(pairs: tuple[Pair, ...], named: bool, expected: str) -> None:
    """The resource that is furthest outside has its rule, the others what they become."""
    assert at_once(pairs, named=named) == expected


GROWS = (pair("cpu 100m 140m 50m 1"), pair("memory 128Mi 128Mi 1Mi 1Gi"))


@cases(
    "found expected",
    {
        "old": (
            sentences.outdated(GROWS, HALF_A_DAY, named=False),
            "within bounds, but cpu 100m -> 140m (+40%) and older than 12h",
        ),
        "young": (
            sentences.too_young(GROWS, HALF_A_DAY, NOW, named=False),
            "within bounds, and started or resized less than 12h ago: "
            "cpu 100m -> 140m (+40%) from 2026-01-05T10:00:00Z on",
        ),
        "small": (
            sentences.too_small((pair("cpu 1 1003m"), pair("memory 10Gi 9Gi")), 0.2, named=True),
            "within bounds, and less than 20% over all resources: "
            "app cpu 1 -> 1003m (+0.3%), app memory 10Gi -> 9Gi (-10%)",
        ),
        "of unknown age": (
            sentences.no_start_time(GROWS, named=False),
            "within bounds, and the time of its start is not known: cpu 100m -> 140m (+40%)",
        ),
        "outside, and hardly another": (
            sentences.hardly_outside(WEB[0], 0.01, named=False),
            "cpu 100m is below its lower bound 200m, but the pod would change by less than 1%",
        ),
        "OOM-killed": (
            sentences.oom_killed("app", WEB, named=False),
            "container app was OOM-killed: memory 128Mi -> 400Mi; cpu 100m -> 350m",
        ),
        "OOM-killed, and no more memory": (
            sentences.oom_killed("app", GROWS, named=False),
            "container app was OOM-killed with memory 128Mi: cpu 100m -> 140m",
        ),
        "OOM-killed beside another": (
            sentences.oom_killed("proxy", SIDE, named=True),
            "container proxy was OOM-killed: proxy memory 10Mi -> 20Mi; app cpu 100m -> 350m",
        ),
        "OOM-killed, and nothing to change": (
            sentences.oom_killed_as_recommended("app", 0.01),
            "container app was OOM-killed, but the pod would change by less than 1%",
        ),
        "on no node": (
            sentences.too_big((pair("cpu 1 2"), BIG[1]), named=False),
            "no node has room for it, and less is recommended: memory 6Gi -> 250Mi; cpu 1 -> 2",
        ),
        "a boost that is over": (
            sentences.boost_over(["jvm"], (pair("cpu 1140m 143m", "jvm"),), named=False),
            "boost of jvm is over: cpu 1.14 -> 143m",
        ),
        "a boost of the limit alone": (
            sentences.boost_over(["a", "b"], (), named=True),
            "boost of a and b is over",
        ),
        "what would change": (sentences.changes(WEB), "cpu 100m -> 350m; memory 128Mi -> 400Mi"),
        "what would change in several containers": (
            sentences.changes((*SIDE, pair("cpu 1 1"))),
            "app cpu 100m -> 350m; proxy memory 10Mi -> 20Mi",
        ),
        "nothing would change": (sentences.changes((pair("cpu 1 1"),)), ""),
        "a share of nothing": (
            sentences.outdated((pair("cpu 0 1"),), HALF_A_DAY, named=False),
            "within bounds, but cpu 0 -> 1 and older than 12h",
        ),
        "a huge share": (
            sentences.outdated((pair("cpu 1m 4000"),), HALF_A_DAY, named=False),
            "within bounds, but cpu 1m -> 4000 and older than 12h",
        ),
    },
)
def test_other_sentences(found: str, expected: str) -> None:
    """Each says what rule holds, and from what to what."""
    assert found == expected


def test_a_cause_is_outside_of_its_bounds() -> None:
    """Nothing else has a rule to tell."""
    assert sentences.trigger(GROWS) is None
    with pytest.raises(ValueError, match="cpu is within its bounds"):
        sentences.outside_bounds(GROWS[0], GROWS, named=False)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a", "a"),
        ("ab", "a and b"),
        ("abc", "a, b and c"),
        ("abcde", "a, b, c and 2 more"),
    ],
)
def test_names(names: str, expected: str) -> None:
    """Three are named."""
    assert sentences.names_of(list(names)) == expected


AMOUNTS = st.one_of(
    st.integers(0, 10**6).map(Quantity.of_milli),
    st.integers(0, 2**45).map(Quantity.of_units),
    st.integers(0, 10**30).map(Quantity),
    st.just(Quantity(10**1000)),
)
PAIRS = st.builds(
    Pair,
    st.one_of(st.sampled_from(("app", "proxy")), st.text("abc-", min_size=1, max_size=63)),
    st.sampled_from(("cpu", "memory")),
    st.one_of(st.none(), AMOUNTS),
    AMOUNTS,
    st.one_of(st.none(), AMOUNTS),
    st.one_of(st.none(), AMOUNTS),
    is_controlled=st.booleans(),
)
SAYINGS: tuple[Callable[[tuple[Pair, ...]], str], ...] = (
    lambda pairs: sentences.outdated(pairs, HALF_A_DAY, named=True),
    lambda pairs: sentences.too_young(pairs, HALF_A_DAY, NOW, named=False),
    lambda pairs: sentences.too_small(pairs, 0.1, named=True),
    lambda pairs: sentences.no_start_time(pairs, named=True),
    lambda pairs: sentences.oom_killed("app", pairs, named=True),
    lambda pairs: sentences.too_big(pairs, named=True),
    sentences.changes,
    lambda pairs: sentences.boost_over(["app"], pairs, named=True),
)


@given(st.lists(PAIRS, max_size=60).map(tuple))
def test_no_amount_becomes_itself(pairs: tuple[Pair, ...]) -> None:
    """Whatever is recommended, an arrow stands between amounts that look different."""
    found = [saying(pairs) for saying in SAYINGS]
    if sentences.trigger(pairs) is not None:
        found.append(at_once(pairs, named=True))
    moves = [move for sentence in found for move in MOVED.findall(sentence)]
    assert [move for move in moves if move[0] == move[1] and "..." not in move[0]] == []


@given(
    st.lists(PAIRS, max_size=60)
    .map(tuple)
    .filter(lambda pairs: sentences.trigger(pairs) is not None)
)
def test_the_cause_is_always_named(pairs: tuple[Pair, ...]) -> None:
    """The sentence begins with a container and a resource outside of its bounds, and its rule."""
    sentence = at_once(pairs, named=True)
    outside = [found for found in pairs if found.is_outside]
    begins = tuple(f"{found.container} {found.resource} " for found in outside)
    assert sentence.startswith(begins)
    assert re.search("has no request|is below its lower bound|is above its upper bound", sentence)


@given(st.lists(PAIRS, max_size=60).map(tuple))
def test_a_sentence_fits_an_event(pairs: tuple[Pair, ...]) -> None:
    """Of many containers those that find no room are counted, and none is lost."""
    changed = [
        found
        for found in pairs
        if found.current is None or found.current.milli != found.target.milli
    ]
    sentence = sentences.too_big(pairs, named=True)
    assert len(sentence) <= LONGEST
    more = re.search(r"; and (\d+) more$", sentence)
    assert sentence.count(" -> ") + int(more[1] if more else 0) == len(changed)


def test_equal_pairs_have_one_sentence() -> None:
    """What was said of a pod is said of another one whose amounts are written otherwise."""
    again = (pair("cpu 0.1 350m 200m 1"), pair("memory 131072Ki 400Mi 300Mi 1Gi"))
    assert at_once(again) == at_once(WEB)


def test_amounts_beyond_any_float() -> None:
    """No container has them, but an object may say so; the sentence stays short."""
    found = at_once((pair(f"cpu 1 {'9' * 400} 2"),))
    assert found.startswith("cpu 1 is below its lower bound 2: 1 -> 9999")
    assert len(found) < LONGEST
