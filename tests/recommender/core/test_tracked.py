"""Which pods a VPA claims, and where a pod belonged when."""

from __future__ import annotations

import pytest

from app.model.kinds import ObjectKey
from app.model.selectors import EVERYTHING, NOTHING, Selector
from app.recommender.core.moments import HOUR
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.tracked import NO_OWNER, Claim, Claims, TrackedPod, TrackedVpa, claim_of
from tests import make
from tests.cases import cases

WEB = ObjectKey("", "StatefulSet", "web")
DB = ObjectKey("", "StatefulSet", "db")
OF_WEB = Selector.of_labels({"app": "web"})
LEADERS = Selector.of_labels({"role": "leader"})
LABELS = {"app": "web", "role": "leader", "zone": "a"}


@cases(
    "claim top before expected",
    {
        "labels alone": (Claim("ns", OF_WEB), None, False, True),
        "labels alone, with any owner": (Claim("ns", OF_WEB), DB, False, True),
        "a target that selects nothing": (Claim("ns", NOTHING), WEB, True, False),
        "owned and selected": (Claim("ns", OF_WEB, LEADERS, WEB), WEB, False, True),
        "owned by another": (Claim("ns", OF_WEB, LEADERS, WEB), DB, True, False),
        "owned by none": (Claim("ns", OF_WEB, LEADERS, WEB), NO_OWNER, True, False),
        "owner unknown": (Claim("ns", OF_WEB, LEADERS, WEB), None, False, False),
        "owner unknown, member before": (Claim("ns", OF_WEB, LEADERS, WEB), None, True, True),
        "not selected": (
            Claim("ns", OF_WEB, Selector.of_labels({"role": "follower"}), WEB),
            WEB,
            True,
            False,
        ),
        "catch-all": (Claim("ns", OF_WEB, EVERYTHING, WEB), WEB, False, True),
        "a target that selects all": (Claim("ns", EVERYTHING), None, False, True),
    },
)
def test_admits(claim: Claim, top: ObjectKey | None, before: bool, expected: bool) -> None:
    """Labels decide; a selector of the VPA's own also asks for the owner."""
    claims = Claims()
    claims.put(1, claim)

    assert claim.admits(LABELS, top, before=before) is expected
    found = claims.of("ns", LABELS, top, frozenset({1} if before else ()))
    assert found == (frozenset({1}) if expected else frozenset())


def test_claims_stay_in_their_namespace() -> None:
    """A pod meets only the VPAs of its namespace."""
    claims = Claims()
    claims.put(1, Claim("ns", OF_WEB))
    claims.put(2, Claim("other", OF_WEB))
    claims.put(3, Claim("other", EVERYTHING))

    assert claims.of("ns", LABELS, None, frozenset()) == {1}


def test_claims_change_and_go() -> None:
    """A claim that changed is found by its new labels only; one that went is not found."""
    claims = Claims()
    claims.put(1, Claim("ns", OF_WEB))
    claims.put(1, Claim("ns", Selector.of_labels({"zone": "b"})))
    claims.put(2, Claim("ns", OF_WEB, LEADERS, WEB))
    assert claims.of("ns", LABELS, WEB, frozenset()) == {2}
    assert (claims.has_own_selector(1), claims.has_own_selector(2)) == (False, True)

    claims.remove(2)
    claims.remove(2)

    assert claims.of("ns", LABELS, WEB, frozenset()) == frozenset()


def test_many_claims_on_one_label() -> None:
    """However many VPAs share a label, each is found by what sets it apart."""
    claims = Claims()
    for number in range(50):
        shard = Selector.of_labels({"app": "web", "shard": str(number)})
        claims.put(number, Claim("ns", shard))

    assert claims.of("ns", {"app": "web", "shard": "7"}, None, frozenset()) == {7}


def moved_pod() -> TrackedPod:
    """Return a pod that moved at times 10, 20 and 30."""
    pod = TrackedPod(make.pod(), None, frozenset({1}))
    for number, time_ns in ((2, 10), (3, 20), (4, 30)):
        pod.move(frozenset({number}), time_ns)
    return pod


@cases(
    "time_ns expected",
    {
        "now": (40, 4),
        "from the move on": (30, 4),
        "before the last move": (29, 3),
        "at the one before": (20, 3),
        "before that": (19, 2),
        "further back is not remembered": (0, 2),
    },
)
def test_vpas_at(time_ns: int, expected: int) -> None:
    """A pod remembers where it belonged, two moves back."""
    assert moved_pod().vpas_at(time_ns) == {expected}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(21, 29, False), (25, 35, True), (30, 35, False), (25, 30, False), (0, 40, True)],
)
def test_moved_within(start: int, end: int, expected: bool) -> None:
    """Only a move strictly inside a window mixes two roles."""
    assert moved_pod().moved_within(start, end) is expected


def test_forgotten_vpas_are_gone_from_the_past() -> None:
    """A line that may be given to another VPA is nowhere remembered."""
    pod = moved_pod()
    for number in (3, 4):
        pod.forget(number)

    assert [pod.vpas_at(time_ns) for time_ns in (40, 25, 15)] == [set(), set(), {2}]


@cases(
    "selector since now expected",
    {
        "resolved": (OF_WEB, None, HOUR, OF_WEB),
        "just broken": (None, 0, None, OF_WEB),
        "within the grace": (None, 0, HOUR - 1, OF_WEB),
        "for too long": (None, 0, HOUR, NOTHING),
    },
)
def test_claim_of(
    selector: Selector | None,
    since: int | None,
    now: int | None,
    expected: Selector,
) -> None:
    """A target that cannot be resolved keeps its last selector for a while."""
    observed = ObservedVpa(make.vpa(selector={"matchLabels": {"role": "leader"}}), selector)
    tracked = TrackedVpa(0, observed, Claim("default", OF_WEB), 0, broken_since_ns=since)

    claim = claim_of(tracked, now)

    assert claim.of_target == expected
    assert claim.own == Selector.of_labels({"role": "leader"})
    assert claim.target is not None


def test_claim_without_target() -> None:
    """A VPA without target claims nothing."""
    observed = ObservedVpa(make.vpa(target=None), None)
    tracked = TrackedVpa(0, observed, Claim("default"), 0)

    claim = claim_of(tracked, None)

    assert claim == Claim("default", NOTHING)
