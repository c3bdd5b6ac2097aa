"""Watches that are read in threads, and pages that go on too late."""

from __future__ import annotations

from threading import Thread

import pytest

from app.model.errors import ClusterError, Gone, Unavailable
from app.ports import SECRETS, Json, Ref
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from tests.waiting import eventually


def secret(name: str) -> Json:
    """The plainest of objects."""
    return {"metadata": {"name": name}}


class Reader(Thread):
    """Watches in a thread of its own, until the watch ends or breaks."""

    def __init__(self, sandbox: Sandbox, seconds: int = 100) -> None:
        super().__init__()
        self.sandbox = sandbox
        self.seconds = seconds
        self.version = str(sandbox.store.version)
        self.names: list[str] = []
        self.error: ClusterError | None = None
        self.start()

    def run(self) -> None:
        """Note every name that is told."""
        events = self.sandbox.cluster.watch(
            SECRETS, resource_version=self.version, timeout_seconds=self.seconds
        )
        try:
            for event in events:
                self.names.append(event.object["metadata"].get("name", "bookmark"))
        except ClusterError as error:
            self.error = error


def test_all_readers_are_told_everything() -> None:
    """Every reader in a thread of its own is told every change, in order."""
    sandbox = Sandbox(SteppedClock())
    readers = [Reader(sandbox) for _ in range(3)]
    names = [f"s-{number}" for number in range(20)]
    for name in names:
        sandbox.cluster.create(Ref(SECRETS, "default"), secret(name))
    eventually(lambda: all(len(reader.names) >= len(names) for reader in readers))
    sandbox.close()
    for reader in readers:
        reader.join()

    assert [reader.names for reader in readers] == [names] * 3


def test_watches_end_when_their_time_is_stepped_over() -> None:
    """A watch in another thread ends by the clock of the sandbox, in silence but for bookmarks."""
    clock = SteppedClock()
    reader = Reader(Sandbox(clock), seconds=100)
    while reader.is_alive():  # it may have begun to wait only after a step
        clock.advance(25)
        reader.join(0.01)

    assert reader.error is None
    assert set(reader.names) <= {"bookmark"}


def test_a_closed_cluster_cuts_watches() -> None:
    """An open watch breaks like a connection, and a new one is refused."""
    sandbox = Sandbox(SteppedClock())
    reader = Reader(sandbox)
    sandbox.cluster.create(Ref(SECRETS, "default"), secret("first"))
    assert eventually(lambda: bool(reader.names))
    sandbox.cluster.close()
    reader.join()

    assert isinstance(reader.error, Unavailable)
    with pytest.raises(Unavailable, match="closed on our side"):
        list(sandbox.cluster.watch(SECRETS, resource_version="", timeout_seconds=1))


def test_a_compaction_is_told() -> None:
    """A watch and a list that would go on from before a compaction are gone."""
    sandbox = Sandbox(SteppedClock())
    cluster = sandbox.cluster
    for number in range(3):
        cluster.create(Ref(SECRETS, "default"), secret(f"s-{number}"))
    page = cluster.list(SECRETS, limit=1)
    cluster.create(Ref(SECRETS, "default"), secret("later"))
    sandbox.store.compact()

    with pytest.raises(Gone, match="too old resource version"):
        list(cluster.watch(SECRETS, resource_version=page.resource_version))
    with pytest.raises(Gone, match="start a new list"):
        cluster.list(SECRETS, limit=1, continue_token=page.continue_token)
