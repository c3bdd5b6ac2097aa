"""Which VPAs a pod feeds."""

from __future__ import annotations

import pytest

from app.model.kinds import ObjectKey
from app.model.selectors import EVERYTHING, NOTHING, Selector
from app.recommender.core.tracked import NO_OWNER, Claim, Claims

WEB = ObjectKey("", "StatefulSet", "web")
DB = ObjectKey("", "StatefulSet", "db")
OF_WEB = Selector.of_labels({"app": "web"})
LEADERS = Selector.of_labels({"role": "leader"})
LABELS = {"app": "web", "role": "leader", "zone": "a"}


@pytest.mark.parametrize(
    ("claim", "top", "before", "expected"),
    [
        pytest.param(Claim("ns", OF_WEB), None, False, True, id="labels alone"),
        pytest.param(Claim("ns", OF_WEB), DB, False, True, id="labels alone, whoever owns it"),
        pytest.param(Claim("ns", NOTHING), WEB, True, False, id="a target that selects nothing"),
        pytest.param(Claim("ns", OF_WEB, LEADERS, WEB), WEB, False, True, id="owned and selected"),
        pytest.param(Claim("ns", OF_WEB, LEADERS, WEB), DB, True, False, id="owned by another"),
        pytest.param(Claim("ns", OF_WEB, LEADERS, WEB), NO_OWNER, True, False, id="owned by none"),
        pytest.param(Claim("ns", OF_WEB, LEADERS, WEB), None, False, False, id="owner unknown"),
        pytest.param(
            Claim("ns", OF_WEB, LEADERS, WEB), None, True, True, id="owner unknown, member before"
        ),
        pytest.param(
            Claim("ns", OF_WEB, Selector.of_labels({"role": "follower"}), WEB),
            WEB,
            True,
            False,
            id="not selected",
        ),
        pytest.param(Claim("ns", OF_WEB, EVERYTHING, WEB), WEB, False, True, id="catch-all"),
        pytest.param(Claim("ns", EVERYTHING), None, False, True, id="a target that selects all"),
    ],
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
