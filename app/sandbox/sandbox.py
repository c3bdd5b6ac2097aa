"""A whole cluster in memory, put together."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from app import ports
from app.sandbox.attempts import Gate
from app.sandbox.clock import SandboxClock
from app.sandbox.cluster import SandboxCluster
from app.sandbox.controllers.budgets import Budgets
from app.sandbox.controllers.crew import Crew
from app.sandbox.controllers.hands import Hands
from app.sandbox.garbage import Garbage
from app.sandbox.kinds import Catalogue, custom_kinds
from app.sandbox.limit_ranger import LimitRanger
from app.sandbox.recorder import Recorder
from app.sandbox.resizing import NodeRoom
from app.sandbox.rooms import Rooms
from app.sandbox.scheduler import Scheduler
from app.sandbox.store import HISTORY, Store, Transition
from app.sandbox.writes import Writes

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class Sandbox:
    """A cluster in memory: its API, its controllers, its nodes."""

    def __init__(self, clock: SandboxClock, seed: int = 0, *, history: int = HISTORY) -> None:
        self.clock = clock
        self.random = Random(seed)
        self.store = Store(history=history)
        self.catalogue = Catalogue()
        self.writes = Writes(self.store, clock, self.random)
        self.writes.gates = list(self._gates())
        self.cluster = SandboxCluster(self.store, self.catalogue, self.writes, clock)
        self.store.listen(self._serve)
        self.store.listen(lambda _collection, _change: clock.nudge())
        recorder = Recorder(self.store, self.writes, self.catalogue, clock)
        hands = Hands(self.store, self.writes, self.catalogue, clock, recorder)
        Garbage(self.store, self.writes, self.catalogue, clock)
        Budgets(self.store, self.writes, self.catalogue, clock)
        Crew(hands)
        Scheduler(hands, Rooms(self.store))
        for name in _NAMESPACES:
            self.cluster.create(ports.NAMESPACES, "", {"metadata": {"name": name}})

    def settle(self, patience_seconds: float = 10.0, *, watches: int = 0) -> None:
        """Wait until so many watches are open and all their readers have seen everything.

        Only of use where others watch in threads of their own; the patience is real time.
        """
        if not self.cluster.watches.settle(patience_seconds, watches):
            raise TimeoutError("the readers of the watches are behind")

    def close(self) -> None:
        """End all watches."""
        self.cluster.close()

    def _gates(self) -> Iterable[Gate]:
        yield LimitRanger(self.store)
        yield NodeRoom(self.store)

    def _serve(self, collection: str, change: Transition) -> None:
        """Serve the kinds that definitions of custom resources make."""
        if collection != _DEFINITIONS:
            return
        for definition, act in (
            (change.before, self.catalogue.remove),
            (change.after, self.catalogue.add),
        ):
            for kind in custom_kinds(definition) if definition else ():
                act(kind)
