"""Lists that go on too late."""

from __future__ import annotations

import pytest

from app.model.errors import Gone
from app.ports import SECRETS, Ref
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox


def test_a_list_that_goes_on_too_late_is_gone() -> None:
    """A page whose version is no longer kept cannot be followed by another one."""
    cluster = Sandbox(SteppedClock(), history=5).cluster
    for number in range(3):
        cluster.create(Ref(SECRETS, "default"), {"metadata": {"name": f"s-{number}"}})
    page = cluster.list(SECRETS, limit=1)
    for number in range(10):
        cluster.create(Ref(SECRETS, "default"), {"metadata": {"name": f"later-{number}"}})

    with pytest.raises(Gone, match="start a new list"):
        cluster.list(SECRETS, limit=1, continue_token=page.continue_token)
