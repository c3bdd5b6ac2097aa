"""A source may offer nonsense; what is served stays whole, and the reason is said once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.admission.certificate_stores import Newest
from app.admission.certificates import issue
from app.admission.core.rotation import Material

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ONE, TWO = (issue(("a",), NOW, 90) for _ in range(2))
HALF = replace(TWO, key_pem=ONE.key_pem)


def test_versions() -> None:
    """The version grows with each new set, and only then."""
    newest = Newest("here")
    assert newest.offer(HALF) is None
    assert newest.offer(ONE) == Material(1, ONE)
    assert newest.offer(ONE) == Material(1, ONE)
    assert newest.offer(HALF) == Material(1, ONE)
    assert newest.offer(TWO, "unreadable") == Material(1, ONE)
    assert newest.offer(TWO) == Material(2, TWO)
    rebundled = replace(TWO, ca_pem=ONE.ca_pem)
    assert newest.offer(rebundled) == Material(3, rebundled)


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    """One refusal is one line, until something else happens."""
    newest = Newest("here")
    for offered in (ONE, HALF, HALF, HALF, ONE, HALF):
        newest.offer(offered)
    reasons = [getattr(record, "reason", "") for record in caplog.records]
    assert reasons == ["the private key does not fit the serving certificate"] * 2
    assert {getattr(record, "source", "") for record in caplog.records} == {"here"}
    assert ONE.key_pem not in caplog.text
