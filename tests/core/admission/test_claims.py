"""Notes of VPAs that are being stored."""

from __future__ import annotations

from datetime import timedelta

from app.core.admission.claims import LIFETIME, Claims
from tests import make


def test_held() -> None:
    """A claim holds until it must be stored, and is forgotten then."""
    first, second = make.vpa("first"), make.vpa("second")
    later = make.NOW + LIFETIME / 2
    claims = Claims().adding(first, make.NOW).adding(second, later)
    assert claims.held(later) == (first, second)
    assert claims.held(make.NOW + LIFETIME) == (second,)
    assert claims.held(later + LIFETIME) == ()


def test_forgets() -> None:
    """Adding clears what is over, so that nothing piles up."""
    claims = Claims().adding(make.vpa("first"), make.NOW)
    claims = claims.adding(make.vpa("second"), make.NOW + timedelta(hours=1))
    assert len(claims.noted) == 1
