"""A cluster in memory with the whole autoscaler at work in it, and what is brought into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from app.admission.certification import Certification, in_cluster
from app.admission.flags import AdmissionSettings
from app.diagnosis.pod_preview import pod_previewer
from app.kube.files import Unreadable, given_objects
from app.kube.manifests import documents as manifests
from app.model import quantity
from app.model.errors import BadObject, BadSetting
from app.model.kinds import BUILT_IN_KINDS
from app.model.workloads import read_workload
from app.ports import Json
from app.recommender import process as recommender
from app.recommender.flags import RecommenderSettings
from app.run.embedded_webhook import EmbeddedWebhook, Listeners
from app.run.simulated import SimulatedRuntime
from app.runtime.clock import SystemClock
from app.sandbox.sandbox import Sandbox
from app.sandbox.scheduler import USUAL_NODES, NodeSize
from app.sandbox.stepped_clock import START, SteppedClock
from app.sandbox.webhook_client import Endpoint, Service, WebhookClient
from app.updater import process as updater
from app.updater.flags import UpdaterSettings

_REGISTERED_SECONDS = 30.0  # of real time, for the first certificate and the registration
_LOOK_SECONDS = 0.02
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where all addresses are listened on
_FORGET_SECONDS = 1800.0  # of the cluster's time; a day of it would remember every amount there was
_MADE_BY_OTHERS: Final = ("Event", "Node", "Lease", "Namespace", "PodMetrics")
_LEAST_NODES: Final = 3
_NODE_CORES: Final = 16
_NODE_GIB: Final = 64
_SPARE: Final = 2.0  # times what is asked for at first, for what will be asked for


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """How the three are told to work."""

    admission: AdmissionSettings
    recommender: RecommenderSettings
    updater: UpdaterSettings


class World:
    """The three on a sandbox; made, started, advanced and stopped by one thread."""

    def __init__(
        self,
        processes: ProcessSettings,
        listeners: Listeners,
        *,
        seed: int = 0,
        start: datetime = START,
        nodes: Sequence[NodeSize] = USUAL_NODES,
    ) -> None:
        settings = processes.admission
        self._clock = SteppedClock(start)
        service = Service(settings.cluster.namespace, settings.registration.service)
        host, self.port = listeners[0].getsockname()[:2]
        client = WebhookClient({service: Endpoint(_LOOPBACK.get(host, host), self.port)})
        self.sandbox = Sandbox(self._clock, seed, nodes=nodes, webhook_client=client)
        self.sandbox.apply(*manifests.objects("crd"))
        runtime = SimulatedRuntime(self.sandbox)

        def certify(problem: Callable[[], str]) -> Certification:
            return in_cluster(settings, self.sandbox.cluster, SystemClock(), problem)

        self.webhook = EmbeddedWebhook(settings, runtime, certify, listeners, beats=True)
        self.recommender = recommender.Process(
            processes.recommender, runtime, pod_previewer(processes.recommender)
        )
        self.updater = updater.Process(processes.updater, runtime)
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

    def _forget(self) -> None:
        quantity.clear_caches()
        self._clock.call_later(_FORGET_SECONDS, self._forget)

    def stop(self) -> None:
        """End everything."""
        self.updater.stop()
        self.recommender.stop()
        self.sandbox.close()  # first, so that no connection to the webhook stays open
        self.webhook.stop()


# --- what is brought into it


def shop_file() -> Path:
    """Return the file with the built-in shop."""
    return Path(str(files("app.run.demo").joinpath("shop.yaml")))


def read_manifests(paths: Sequence[Path]) -> list[Json]:
    """Return the objects of files and folders that people would apply.

    What controllers made of others is left out, for it will be made again; so is what only a
    running cluster has.

    Raises:
        BadSetting: a file cannot be read, or there is nothing in it.
    """
    found: list[Json] = []
    unread: list[Unreadable] = []
    for document in given_objects(paths, unread):
        item = document.item
        metadata = item.get("metadata")
        owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
        if not owners and item.get("kind") not in _MADE_BY_OTHERS:
            found.append(item)
    if unread:
        raise BadSetting(str(unread[0]))
    if not found:
        shown = ", ".join(map(str, paths))
        raise BadSetting(f"--objects: there are no objects to apply in {shown}")
    return found


def nodes_for(items: Iterable[Json]) -> tuple[NodeSize, ...]:
    """Return nodes with room enough for the pods of some objects, and for their growth."""
    millicores, size_bytes = 0, 0
    for item in items:
        with suppress(BadObject):
            if item.get("kind") not in BUILT_IN_KINDS:
                continue
            workload = read_workload(item)
            for container in workload.template:
                count = workload.replicas or 1
                cpu, memory = (container.resources.request(name) for name in ("cpu", "memory"))
                millicores += count * (cpu.milli if cpu is not None else 0)
                size_bytes += count * (memory.units if memory is not None else 0)
    wanted = max(millicores / 1000 / _NODE_CORES, size_bytes / 2**30 / _NODE_GIB) * _SPARE
    count = max(math.ceil(wanted), _LEAST_NODES)
    return tuple(
        NodeSize(f"node-{number}", str(_NODE_CORES), f"{_NODE_GIB}Gi")
        for number in range(1, count + 1)
    )
