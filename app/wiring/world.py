"""A cluster in memory with the whole autoscaler at work in it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, sleep

from app.manifests import crd
from app.model import quantity
from app.model.errors import BadSetting
from app.ports import Json
from app.sandbox.carriers import Address, Https, Service
from app.sandbox.clock import START, SteppedClock
from app.sandbox.nodes import USUAL_NODES, NodeSize
from app.sandbox.sandbox import Refusal, Sandbox
from app.settings.admission import AdmissionSettings
from app.settings.recommender import RecommenderSettings
from app.settings.updater import UpdaterSettings
from app.wiring import recommender, updater
from app.wiring.certification import Certification, in_cluster
from app.wiring.clock import SystemClock
from app.wiring.lodge import Lodge
from app.wiring.pod_preview import PodPreviewer
from app.wiring.stage import Stage

_REGISTERED_SECONDS = 30.0  # of real time, for the first certificate and the registration
_LOOK_SECONDS = 0.02
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where all addresses are listened on
_HISTORY = 20  # changes that each collection keeps: nobody watches far behind
_FORGET_SECONDS = 1800.0  # of the cluster's time; a day of it would remember every amount there was


@dataclass(frozen=True, slots=True)
class Cast:
    """How the three are told to work."""

    admission: AdmissionSettings
    recommender: RecommenderSettings
    updater: UpdaterSettings


class World:
    """The three on a sandbox; made, started, advanced and stopped by one thread."""

    def __init__(
        self,
        cast: Cast,
        listeners: tuple[socket.socket, socket.socket],  # of reviews, and of the webhook's health
        *,
        seed: int = 0,
        start: datetime = START,
        nodes: Sequence[NodeSize] = USUAL_NODES,
    ) -> None:
        settings = cast.admission
        self.clock = SteppedClock(start)
        service = Service(settings.cluster.namespace, settings.registration.service)
        host, self.port = listeners[0].getsockname()[:2]
        carrier = Https({service: Address(_LOOPBACK.get(host, host), self.port)})
        self.sandbox = Sandbox(self.clock, seed, nodes=nodes, carrier=carrier, history=_HISTORY)
        self.sandbox.apply(*crd.documents())
        stage = Stage(self.sandbox)

        def certify(problem: Callable[[], str]) -> Certification:
            return in_cluster(settings, self.sandbox.cluster, SystemClock(), problem)

        self.webhook = Lodge(settings, stage, certify, listeners, beats=True)
        self.recommender = recommender.Process(cast.recommender, stage, PodPreviewer)
        self.updater = updater.Process(cast.updater, stage)
        self._forget()

    def start(self) -> None:
        """Begin; return when the cluster asks the webhook.

        Raises:
            BadSetting: it does not come to that.
        """
        self.await_webhook()
        self.recommender.start()
        self.updater.start()

    def await_webhook(self) -> None:
        """Start the webhook, and return when the cluster asks it.

        Raises:
            BadSetting: it does not come to that.
        """
        self.webhook.start()
        until = monotonic() + _REGISTERED_SECONDS
        while problem := self.webhook.reachable():
            if monotonic() > until:
                raise BadSetting(f"the webhook was not registered: {problem}")
            sleep(_LOOK_SECONDS)

    def apply(self, manifests: Iterable[str | Json]) -> list[Refusal]:
        """Bring objects into the cluster; return those that it refused."""
        return self.sandbox.apply(*manifests)

    def advance(self, seconds: float) -> None:
        """Let time pass, and in it all that is due."""
        self.clock.advance(seconds)

    def _forget(self) -> None:
        quantity.forget()
        self.clock.call_later(_FORGET_SECONDS, self._forget)

    def stop(self) -> None:
        """End everything."""
        self.updater.stop()
        self.recommender.stop()
        self.sandbox.close()  # first, so that no connection to the webhook stays open
        self.webhook.stop()
