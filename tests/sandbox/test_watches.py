"""What tests may do to watches, and pages that go on too late."""

from __future__ import annotations

from threading import Thread

import pytest

from app.model.errors import ClusterError, Gone, Unavailable
from app.ports import SECRETS, Json
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox

PATIENCE_SECONDS = 10.0


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


def test_all_readers_can_be_waited_for() -> None:
    """When the watches have settled, every reader has dealt with every change."""
    sandbox = Sandbox(SteppedClock())
    readers = [Reader(sandbox) for _ in range(3)]
    sandbox.settle(PATIENCE_SECONDS, watches=3)
    for number in range(20):
        sandbox.cluster.create(SECRETS, "default", secret(f"s-{number}"))
    sandbox.settle(PATIENCE_SECONDS, watches=3)
    seen = [list(reader.names) for reader in readers]
    sandbox.close()
    for reader in readers:
        reader.join()

    assert seen == [[f"s-{number}" for number in range(20)]] * 3


def test_watches_end_when_their_time_is_stepped_over() -> None:
    """A watch in another thread ends by the clock of the sandbox, with a bookmark before."""
    clock = SteppedClock()
    sandbox = Sandbox(clock)
    reader = Reader(sandbox, seconds=100)
    sandbox.settle(PATIENCE_SECONDS, watches=1)
    for _ in range(5):
        clock.advance(25)
        sandbox.settle(PATIENCE_SECONDS)
    reader.join()

    assert reader.error is None
    assert set(reader.names) == {"bookmark"}


@pytest.mark.parametrize("how", ["drop", "close"])
def test_watches_can_be_cut(how: str) -> None:
    """A cut watch breaks like a connection; only a closed cluster refuses new ones."""
    sandbox = Sandbox(SteppedClock())
    reader = Reader(sandbox)
    sandbox.settle(PATIENCE_SECONDS, watches=1)
    if how == "drop":
        sandbox.cluster.watches.drop()
    else:
        sandbox.cluster.close()
    reader.join()

    assert isinstance(reader.error, Unavailable)
    after = sandbox.cluster.watch(SECRETS, resource_version="", timeout_seconds=1)
    if how == "drop":
        assert list(after) == []
    else:
        with pytest.raises(Unavailable, match="closed on our side"):
            list(after)


def test_a_compaction_is_told() -> None:
    """A watch and a list that would go on from before a compaction are gone."""
    sandbox = Sandbox(SteppedClock())
    cluster = sandbox.cluster
    for number in range(3):
        cluster.create(SECRETS, "default", secret(f"s-{number}"))
    page = cluster.list(SECRETS, limit=1)
    cluster.create(SECRETS, "default", secret("later"))
    sandbox.store.compact()

    with pytest.raises(Gone, match="too old resource version"):
        list(cluster.watch(SECRETS, resource_version=page.resource_version))
    with pytest.raises(Gone, match="start a new list"):
        cluster.list(SECRETS, limit=1, continue_token=page.continue_token)
