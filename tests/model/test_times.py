"""Times are written as an API server writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.model.times import rfc3339

BERLIN = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC), id="as it is"),
        pytest.param(datetime(2026, 3, 1, 9, 5, 7, 999_999, tzinfo=UTC), id="cut to seconds"),
        pytest.param(datetime(2026, 3, 1, 11, 5, 7, tzinfo=BERLIN), id="of another zone"),
    ],
)
def test_rfc3339(moment: datetime) -> None:
    """Whole seconds, in UTC, with a Z."""
    assert rfc3339(moment) == "2026-03-01T09:05:07Z"
