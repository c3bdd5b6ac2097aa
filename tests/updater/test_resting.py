"""A namespace in which writes fail rests for a while; a server in trouble is another matter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.model.errors import Unavailable
from app.updater.resting import Resting

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "holds"),
    [(0, True), (29, True), (30, False), (-29, True), (-30, False)],
)
def test_a_namespace_rests_for_half_a_minute(seconds: int, holds: bool) -> None:
    """Nor does it rest for longer when the clock is set back."""
    resting = Resting()

    assert resting.begin("shop", Unavailable("failed calling webhook", status=500), NOW)
    assert resting.holds("shop", NOW + timedelta(seconds=seconds)) is holds
    assert not resting.holds("bank", NOW)


@pytest.mark.parametrize("status", [0, 429, 503, 504])
def test_what_is_no_namespace_s_own_lets_none_rest(status: int) -> None:
    """An API server that is down or busy is so for all."""
    resting = Resting()

    assert not resting.begin("shop", Unavailable("down", status=status), NOW)
    assert not resting.holds("shop", NOW)
