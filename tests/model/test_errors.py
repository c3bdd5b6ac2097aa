"""Errors carry their data and read as sentences."""

from __future__ import annotations

import pytest

from app.model.errors import BadObject, ClusterError, PlumblineError, TooMany


@pytest.mark.parametrize(
    ("path", "text"),
    [("spec.a", "spec.a: is missing"), ("", "is missing")],
)
def test_bad_objects_name_their_field(path: str, text: str) -> None:
    """A field's path stands in front of what is wrong with it, if there is one."""
    error = BadObject(path, "is missing")
    assert str(error) == text
    assert (error.path, error.message) == (path, "is missing")


def test_cluster_errors_carry_what_the_server_said() -> None:
    """Status, reason, causes and the time to wait travel with the message."""
    error = TooMany(
        "wait",
        status=429,
        reason="TooManyRequests",
        causes=(("DisruptionBudget", "needs 1"),),
        retry_after_seconds=2.5,
    )
    assert isinstance(error, ClusterError)
    assert isinstance(error, PlumblineError)
    assert str(error) == error.message == "wait"
    assert (error.status, error.reason, error.retry_after_seconds) == (429, "TooManyRequests", 2.5)
    assert error.causes == (("DisruptionBudget", "needs 1"),)
