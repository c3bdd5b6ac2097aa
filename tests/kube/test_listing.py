"""A list comes to an end, or is an error."""

from __future__ import annotations

import pytest

from app.kube.listing import LONGEST_LIST_SECONDS, PAGE_SIZE, pages
from app.model.errors import Unavailable
from app.ports import PODS, ListPage
from tests.kube.api_server import serving
from tests.kube.connecting import connected
from tests.kube.endless import Endless
from tests.stepped_clock import SteppedClock


def test_all_pages_are_read() -> None:
    """What does not fit one page comes with the next, for the selectors that were given."""
    with serving(PODS) as server, connected(server) as cluster:
        for number in range(PAGE_SIZE + 1):
            server.put(PODS, f"pod-{number}")
        found = list(pages(cluster, PODS, "default", field_selector="spec.nodeName!="))
        asked = [one.query.get("fieldSelector") for one in server.requests]

    assert [len(page.items) for page in found] == [PAGE_SIZE, 1]
    assert asked == ["spec.nodeName!="] * 2


@pytest.mark.parametrize(
    ("same", "problem", "most"),
    [
        pytest.param(True, "the list of pods goes round in circles", 1, id="the same token"),
        pytest.param(False, "the list of pods did not end within 301 s", 300, id="new tokens"),
    ],
)
def test_a_list_without_end_fails(same: bool, problem: str, most: int) -> None:
    """It is given up when it repeats itself or its time is over, and says of what it was."""
    clock = SteppedClock()
    read: list[ListPage] = []
    with pytest.raises(Unavailable, match=problem):
        read.extend(pages(Endless(clock, same=same), PODS, seconds=clock.monotonic))
    assert clock.monotonic() <= LONGEST_LIST_SECONDS + 1
    assert len(read) <= most
