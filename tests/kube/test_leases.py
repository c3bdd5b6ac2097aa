"""A Lease is written as client-go writes it, and read whatever is in it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.kube.leases import lease, lease_spec, micro_time
from tests.cases import cases


@cases(
    "microsecond expected",
    {
        "zeros stay": (0, "2026-03-01T12:00:00.000000Z"),
        "six digits": (1, "2026-03-01T12:00:00.000001Z"),
    },
)
def test_micro_time(microsecond: int, expected: str) -> None:
    """A MicroTime always has six digits and no offset."""
    assert micro_time(datetime(2026, 3, 1, 12, 0, 0, microsecond, tzinfo=UTC)) == expected


def test_lease() -> None:
    """What is written is read."""
    assert lease_spec(lease("kube-system", "a", {"holderIdentity": "x"})) == {"holderIdentity": "x"}


@pytest.mark.parametrize("found", [{}, {"spec": None}, {"spec": "?"}])
def test_lease_without_spec(found: dict[str, object]) -> None:
    """A Lease without a usable spec is an empty one."""
    assert lease_spec(found) == {}
