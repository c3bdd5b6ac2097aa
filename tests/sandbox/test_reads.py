"""Lists that go on too late."""

from __future__ import annotations

import pytest

from app.model.errors import Gone
from app.ports import SECRETS, Ref
from app.sandbox.clock import SteppedClock
from app.sandbox.reads import UNFINISHED_LISTS
from app.sandbox.sandbox import Sandbox


def test_a_list_that_goes_on_too_late_is_gone() -> None:
    """A list that many others followed before it was read to its end is not kept."""
    cluster = Sandbox(SteppedClock()).cluster
    for number in range(3):
        cluster.create(Ref(SECRETS, "default"), {"metadata": {"name": f"s-{number}"}})
    page = cluster.list(SECRETS, limit=1)
    for _ in range(UNFINISHED_LISTS):
        cluster.list(SECRETS, limit=1)

    with pytest.raises(Gone, match="start a new list"):
        cluster.list(SECRETS, limit=1, continue_token=page.continue_token)
