"""Looks at what programs use, counts it, and ends what uses too much.

Strategy: every few seconds each container uses what its load wants, as far as its cpu limit and
the node let it. Memory cannot be held back: who goes over a limit is killed at once, and when a
node runs out, the pod goes that is furthest above what it asked for.
"""

from __future__ import annotations

from collections import Counter

from app.model.quantity import ZERO, Quantity, QuantityFormat
from app.ports import REPLICA_SETS, Json
from app.sandbox.kubelet.kubelet import Kubelet
from app.sandbox.kubelet.runs import ContainerRun, PodRun
from app.sandbox.load import Moment
from app.sandbox.objects import Key, collection_of, controller_of, member, uid_of
from app.sandbox.pod_control import PodControl
from app.sandbox.resources import quantities

OUT_OF_MEMORY = "OOMKilled"
FIRST_LOOK_SECONDS = 0.5  # after a start

_PERIOD_SECONDS = 5.0  # between two looks at what the programs use
_KILLED = 137
_REPLICA_SETS = collection_of(REPLICA_SETS)
_THRESHOLD_BYTES = 100 * 2**20  # what a node keeps free of pods
_TELLING = (
    "The node was low on resource: memory. Threshold quantity: {}, available: {}. Container {} "
    "was using {}, request is {}, has larger consumption of memory. "
)


class Housekeeping:
    """The regular look at all containers."""

    def __init__(self, control: PodControl, kubelet: Kubelet) -> None:
        self._control = control
        self._clock = control.clock
        self._kubelet = kubelet
        self._epoch_seconds = self._clock.now().timestamp() - self._clock.monotonic()
        self._parts: dict[str, float] = {}  # of the load that is shared, by uid of the pod
        kubelet.on_start.append(self._look_soon)
        self._clock.call_later(_PERIOD_SECONDS, self._tick)

    def _look_soon(self, run: PodRun, container: ContainerRun) -> None:
        self._use(run, container)

        def look() -> None:
            self._use(run, container)
            self._end_if_too_large(run, container)

        self._kubelet.while_running(run, container, FIRST_LOOK_SECONDS, look)

    def _tick(self) -> None:
        self._clock.call_later(_PERIOD_SECONDS, self._tick)
        self._parts = self._shared_out()
        by_node: dict[str, list[tuple[PodRun, ContainerRun]]] = {}
        for run in self._kubelet.runs():
            for container in run.containers.values():
                if container.is_running:
                    self._use(run, container)
                    by_node.setdefault(run.node, []).append((run, container))
        for name, found in by_node.items():
            self._share(name, found)
        for found in by_node.values():
            for run, container in found:
                self._end_if_too_large(run, container)

    def _shared_out(self) -> dict[str, float]:
        """Return the part of each ready pod in the load that its workload's pods share."""
        workloads = {
            run.uid: self._workload(run)
            for run in self._kubelet.runs()
            if run.is_ready and any(one.load.shared for one in run.containers.values())
        }
        ready = Counter(workloads.values())
        return {uid: 1 / ready[workload] for uid, workload in workloads.items()}

    def _workload(self, run: PodRun) -> str:
        """Return the uid of the pod's controller, or of the Deployment above it."""
        owner = controller_of(run.pod)
        if owner is None:
            return run.uid
        above = self._control.store.read(_REPLICA_SETS, Key(run.key.namespace, owner["name"]))
        found = controller_of(above) if above and uid_of(above) == owner["uid"] else None
        return str((found or owner)["uid"])

    def _use(self, run: PodRun, container: ContainerRun) -> None:
        """Count the cpu of the time that passed, and see what is wanted from now on."""
        now = self._clock.monotonic()
        container.cpu_core_seconds += container.cpu_cores * (now - container.counted_at)
        container.counted_at = now
        epoch_seconds = self._epoch_seconds + now
        part = self._parts.get(run.uid, 0.0)
        moment = Moment(epoch_seconds, now - container.started_at, container.who, part)
        wanted = container.load.at(moment, starting=container.useful_at > now)
        container.cpu_cores = min(wanted.cpu_cores, container.cpu_limit)
        container.memory_bytes = wanted.memory_bytes

    def _share(self, name: str, found: list[tuple[PodRun, ContainerRun]]) -> None:
        """Let the containers of a node share what it has."""
        node = self._control.store.read("nodes", Key("", name))
        if node is None:
            return
        capacity = quantities(member(node, "status.capacity"))
        cores = capacity.get("cpu", ZERO).nano / 1e9
        wanted = sum(container.cpu_cores for _, container in found)
        if wanted > cores > 0:
            for _, container in found:
                container.cpu_cores *= cores / wanted
        memory = capacity.get("memory", ZERO).nano / 1e9
        used = sum(container.memory_bytes for _, container in found)
        if used > memory - _THRESHOLD_BYTES and memory:
            self._evict(found, memory - used)

    def _evict(self, found: list[tuple[PodRun, ContainerRun]], left_bytes: float) -> None:
        run = max((run for run, _ in found), key=_excess)
        largest = max(run.containers.values(), key=lambda container: container.memory_bytes)
        request = quantities(largest.allocated.get("requests")).get("memory", ZERO)
        message = _TELLING.format(
            _bytes(_THRESHOLD_BYTES),
            _bytes(left_bytes),
            largest.name,
            _bytes(largest.memory_bytes),
            request,
        )
        running = [container for container in run.containers.values() if container.is_running]
        annotations: Json = {
            "starved_resource": "memory",
            "offending_containers": ",".join(container.name for container in running),
            "offending_containers_usage": ",".join(
                _bytes(container.memory_bytes) for container in running
            ),
        }
        self._kubelet.evict(run, message, annotations)

    def _end_if_too_large(self, run: PodRun, container: ContainerRun) -> None:
        if container.is_running and container.memory_bytes > container.memory_limit:
            self._kubelet.end(run, container, _KILLED, OUT_OF_MEMORY)


def _excess(run: PodRun) -> tuple[bool, int, float, str]:
    """Order pods by how far they are above what they asked for, then by priority."""
    used = sum(container.memory_bytes for container in run.containers.values())
    excess = used - run.allocated().get("memory", ZERO).nano / 1e9
    priority = int(run.pod["spec"].get("priority") or 0)
    return excess > 0, -priority, excess, run.uid


def _bytes(amount: float) -> str:
    kibibytes = max(int(amount) // 1024, 0)
    return str(Quantity.of_units(kibibytes * 1024, QuantityFormat.BINARY_SI))
