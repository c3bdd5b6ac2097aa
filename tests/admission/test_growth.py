"""The webhook's memory does not depend on how much it has seen."""

from __future__ import annotations

import gc
import logging
import resource
from collections.abc import Callable
from itertools import count
from pathlib import Path

import orjson
import pytest

from app.admission.reviews import BegunReview
from app.model.snapshot import Snapshot
from tests import make
from tests.cases import cases
from tests.runtime.reviewing import desk

pytestmark = pytest.mark.usefixtures("_quiet")
MOST_BYTES = 12_000_000  # more at the end than after a third; what is played has several times that
LONG = "x" * 180


@pytest.fixture
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # what is kept of the log would be all that grows


def resident_bytes() -> int:
    """Return the memory of this process."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * resource.getpagesize()


class Shop:
    """A namespace in which things change all the time."""

    def __init__(self) -> None:
        self.snapshot = make.snapshot(make.vpa(cpu="250m"), make.workload())
        self.desk = desk(snapshot=self._now)
        self._pod = orjson.dumps(
            make.review_json(
                make.pod_json(cpu="100m", labels={**make.LABELS, "n": "NUMBER" + LONG})
            )
        )
        self._owned = orjson.dumps(make.review_json(make.pod_json(owner=f"Job/NUMBER{LONG}")))
        owners = [make.owner_json(f"Job/NUMBER-{i}", controller=False) for i in range(40)]
        shared = make.pod_json(
            make.container_json("cNUMBER", cpu="100m"),
            metadata={"ownerReferences": [*owners, make.owner_json("StatefulSet/web")]},
        )
        self._shared = orjson.dumps(make.review_json(shared))
        self._vpa = orjson.dumps(
            make.review_json(make.vpa_json("vNUMBER", target=f"Job/NUMBER{LONG}"))
        )
        self._same = orjson.dumps(make.review_json(make.pod_json(cpu="100m")))

    def _now(self) -> Snapshot:
        return self.snapshot

    def _review(self, body: bytes) -> None:
        found = self.desk.begun(body)
        if isinstance(found, BegunReview):
            self.desk.reviewer.finish(found, found.arrival.began + 5.0)
        self.desk.numbers.seen.clear()

    def pod(self, number: int) -> None:
        """Create a pod like no other."""
        self._review(self._pod.replace(b"NUMBER", b"%d" % number))

    def shared_pod(self, number: int) -> None:
        """Create a pod with owners like no other's."""
        self._review(self._shared.replace(b"NUMBER", b"%d" % number))

    def owner(self, number: int) -> None:
        """Create a pod of an owner that does not exist."""
        self._review(self._owned.replace(b"NUMBER", b"%d" % number))

    def version(self, number: int) -> None:
        """Change a VPA with some policies, and let it size a pod."""
        policies = [make.policy_json(f"c{number}-{index}") for index in range(100)]
        changed = make.change(make.vpa(cpu=f"{number % 500 + 1}m", policies=policies))
        self.snapshot = self.snapshot.changed([changed])
        self._review(self._same)

    def vpa(self, number: int) -> None:
        """Write a VPA of another target."""
        self._review(self._vpa.replace(b"NUMBER", b"%d" % number))
        self.desk.clock.wait(0.01)


@cases(
    "play times",
    {
        "pods": (Shop.pod, 50_000),
        "owners": (Shop.owner, 50_000),
        "versions of a VPA": (Shop.version, 3_000),
        "pods with many owners": (Shop.shared_pod, 6_000),
        "VPAs": (Shop.vpa, 10_000),
    },
)
def test_memory_ends_as_it_was_after_a_third(play: Callable[[Shop, int], None], times: int) -> None:
    """However many different pods, owners and VPAs come, memory stays where it was."""
    shop, after_a_third = Shop(), 0
    for number in count():
        if number == times // 3:
            after_a_third = resident_bytes()
        if number == times:
            break
        play(shop, number)
    assert resident_bytes() - after_a_third < MOST_BYTES
