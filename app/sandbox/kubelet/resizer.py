"""Resizes pods in place, step by step as a real kubelet does.

Strategy: first the node sets the wanted resources aside, or defers that; then the runtime applies
them, or cannot yet. The conditions of the pod tell which of the two is to be waited for. What is
wanted may change at any time: each step looks at what is wanted then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from app.model.quantity import ZERO
from app.ports import Json
from app.sandbox.kubelet.kubelet import Kubelet
from app.sandbox.kubelet.runs import (
    IN_PROGRESS,
    PENDING,
    STOP_SECONDS,
    ContainerRun,
    PodRun,
    Resizing,
    lasting,
    sized,
)
from app.sandbox.objects import Key, member
from app.sandbox.pod_control import PodControl
from app.sandbox.resources import SIZED, Amounts, all_of, quantities, sum_of
from app.sandbox.subresources import counted

# What a real kubelet was seen to take.
_APPLY_SECONDS: Final = 0.015  # until the runtime has applied new resources
_ERROR_SECONDS: Final = 0.3  # until a refusal of the runtime is told
_ERROR_RETRY_SECONDS: Final = 1.0  # until the runtime is asked again
_SHRINK_ERROR_SECONDS: Final = 5.0  # until it is told why memory cannot shrink
_SHRINK_RETRY_SECONDS: Final = 10.0
_DEFERRED_RETRY_SECONDS: Final = 180.0
_ROOM_RETRY_SECONDS: Final = 0.13  # after room became free

_STATIC_CPU = "sandbox.plumbline/cpu-manager"  # label of nodes; `static` makes resizes infeasible
_NEVER = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'


class Resizer:
    """Brings what containers have to what their pods ask for."""

    def __init__(
        self, control: PodControl, kubelet: Kubelet, refuses: Callable[[Json], str]
    ) -> None:
        self._control = control
        self._clock = control.clock
        self._kubelet = kubelet
        self._refuses = refuses  # why the container runtime does not resize a pod, if so
        kubelet.on_change = self.consider
        kubelet.on_room = self.room_is_free

    def consider(self, run: PodRun) -> None:
        """Take in what a pod asks for now."""
        generation = run.pod["metadata"].get("generation", 1)
        if generation == run.observed_generation and run.pending is None:
            return
        run.observed_generation = generation
        wanted = _wanted(run)
        if all(container.allocated == wanted[name] for name, container in run.containers.items()):
            run.pending = None
            self._go_on(run, generation)
        else:
            refusal = self._refusal(run)
            if refusal is None:
                self._allocate(run, wanted, generation)
            else:
                self._defer(run, *refusal, generation)
        self._kubelet.write(run)

    def room_is_free(self, node: str) -> None:
        """A pod went or shrank: try again what was deferred."""
        self._clock.call_later(_ROOM_RETRY_SECONDS, lambda: self._retry(node))

    def _retry(self, node: str) -> None:
        deferred = [
            run
            for run in self._kubelet.runs()
            if run.node == node and run.pending is not None and not run.is_stopping
        ]
        for run in sorted(deferred, key=_urgency):
            self.consider(run)

    def _refusal(self, run: PodRun) -> tuple[str, str] | None:
        """Return why the node cannot take in what a pod asks for now."""
        node = self._control.store.read("nodes", Key("", run.node))
        if node is None:
            return "Deferred", "the node is gone"
        is_static = (node["metadata"].get("labels") or {}).get(_STATIC_CPU) == "static"
        is_guaranteed = member(run.pod, "status.qosClass") == "Guaranteed"
        if is_static and is_guaranteed and _changes_cpu(run):
            return "Infeasible", _NEVER
        wanted, has = sum_of(run.pod["spec"], "requests"), run.allocated()
        room = quantities(member(node, "status.allocatable"))
        used = all_of(
            other.allocated()
            for other in self._kubelet.runs()
            if other is not run and other.node == run.node
        )
        for name in SIZED:
            asked = wanted.get(name, ZERO)
            taken = used.get(name, ZERO)
            if name not in room or asked <= has.get(name, ZERO):
                continue
            if asked.nano + taken.nano > room[name].nano:
                numbers = (counted(name, amount) for amount in (asked, taken, room[name]))
                text = "requested: {}, used: {}, capacity: {}".format(*numbers)
                return "Deferred", f"Node didn't have enough resource: {name}, {text}"
        return None

    def _defer(self, run: PodRun, reason: str, message: str, generation: int) -> None:
        since = run.pending.since if run.pending else self._clock.now()
        is_news = run.pending is None or run.pending.generation != generation
        run.pending = Resizing(PENDING, since, generation, reason, message)
        if is_news:
            told = f"Pod resize {reason}: {message}"
            self._kubelet.tell(run, f"Resize{reason}", told, warning=True)
        self._kubelet.later(run, _DEFERRED_RETRY_SECONDS, lambda: self._reconsider(run))

    def _reconsider(self, run: PodRun) -> None:
        if run.pending is not None:
            self.consider(run)

    def _allocate(self, run: PodRun, wanted: dict[str, Json], generation: int) -> None:
        before = run.allocated()
        run.pending = None
        for name, container in run.containers.items():
            changed = container.allocated != wanted[name]
            container.allocated = wanted[name]
            if changed and container.is_waiting_to_restart:
                self._kubelet.restart(run, container)  # a new size is worth a new try
        after = run.allocated()
        if any(after.get(name, ZERO) < before.get(name, ZERO) for name in SIZED):
            self.room_is_free(run.node)
        self._go_on(run, generation)

    def _go_on(self, run: PodRun, generation: int) -> None:
        """Let the runtime apply what is allocated, if it does not already."""
        if not _to_apply(run):
            run.progress = None
            return
        if run.progress is None:
            self._kubelet.tell(run, "ResizeStarted", "Pod resize started")
        now = self._clock.now()
        run.progress = Resizing(IN_PROGRESS, now, generation)
        self._apply_in(run, _APPLY_SECONDS)

    def _apply_in(self, run: PodRun, seconds: float) -> None:
        run.rounds += 1
        number = run.rounds

        def act() -> None:
            if run.rounds == number and not run.is_stopping:
                self._apply(run)

        self._kubelet.later(run, seconds, act)

    def _apply(self, run: PodRun) -> None:
        refused = self._refuses(run.pod)
        too_large = _usage_above_limit(run)
        if refused or too_large:
            self._fail(run, refused or too_large, is_shrinking=not refused)
            return
        restarting = [found for found in _to_apply(run) if _needs_restart(found)]
        for container in restarting:
            message = f"Container {container.name} resize requires restart, will be restarted"
            self._kubelet.tell(run, "Killing", message)
        if restarting:
            self._kubelet.later(run, STOP_SECONDS, lambda: self._carry_out(run))
        else:
            self._carry_out(run)

    def _carry_out(self, run: PodRun) -> None:
        for container in _to_apply(run):
            old_limit = container.cpu_limit
            if _needs_restart(container):
                self._kubelet.replace(run, container)
            else:
                container.apply()
                self._kubelet.change_pace(run, container, old_limit)
        run.progress = None
        self._kubelet.tell(run, "ResizeCompleted", "Pod resize completed")
        self._kubelet.write(run)

    def _fail(self, run: PodRun, message: str, *, is_shrinking: bool) -> None:
        """Tell that the runtime cannot apply the resize yet, and try again for ever."""
        progress = run.progress
        if progress is None:
            return

        def tell() -> None:
            if run.progress is not progress:
                return
            if not progress.reason:
                self._kubelet.tell(run, "ResizeError", message, warning=True)
            progress.reason, progress.message = "Error", message
            self._kubelet.write(run)
            self._apply_in(run, _SHRINK_RETRY_SECONDS if is_shrinking else _ERROR_RETRY_SECONDS)

        if progress.reason:
            tell()
        else:
            self._kubelet.later(
                run, _SHRINK_ERROR_SECONDS if is_shrinking else _ERROR_SECONDS, tell
            )


def _wanted(run: PodRun) -> dict[str, Json]:
    return {item["name"]: sized(item.get("resources")) for item in lasting(run.pod["spec"])}


def _changes_cpu(run: PodRun) -> bool:
    wanted = _wanted(run)
    return any(
        (wanted[name].get("requests") or {}).get("cpu")
        != (container.allocated.get("requests") or {}).get("cpu")
        for name, container in run.containers.items()
    )


def _to_apply(run: PodRun) -> list[ContainerRun]:
    """Return the running containers whose resources are not yet what was set aside for them."""
    return [
        container
        for container in run.containers.values()
        if container.is_running and container.actual != container.allocated
    ]


def _changed(container: ContainerRun) -> set[str]:
    """Return the resources that a container gets another amount of."""
    return {
        name
        for side in ("requests", "limits")
        for name in SIZED
        if (container.actual.get(side) or {}).get(name)
        != (container.allocated.get(side) or {}).get(name)
    }


def _needs_restart(container: ContainerRun) -> bool:
    changed = _changed(container)
    return any(
        policy.get("restartPolicy") == "RestartContainer" and policy.get("resourceName") in changed
        for policy in container.spec.get("resizePolicy") or ()
    )


def _usage_above_limit(run: PodRun) -> str:
    """Return why memory cannot shrink now, empty if it can."""
    used = int(_used_bytes(run))
    told = [  # a container is judged by what it uses itself, and told what the pod does
        f"attempting to set {whose} memory limit ({limit}) below current usage ({used})"
        for whose, limit, own_bytes in _shrinking(run)
        if own_bytes >= limit
    ]
    if not told:
        return ""
    words = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    return f"cannot decrease memory limits: {words}"


def _used_bytes(run: PodRun) -> float:
    return sum(container.memory_bytes for container in run.containers.values())


def _shrinking(run: PodRun) -> list[tuple[str, float, float]]:
    """Return who gets less memory while running, how much, and what it uses; the pod first."""
    found = [
        (
            f'container "{container.name}"',
            _limit_bytes(container.allocated),
            container.memory_bytes,
        )
        for container in _to_apply(run)
        if _limit_bytes(container.allocated) < _limit_bytes(container.actual)
        and not _needs_restart(container)
    ]
    containers = run.containers.values()
    old = sum(_limit_bytes(container.actual) for container in containers)
    new = sum(_limit_bytes(container.allocated) for container in containers)
    return [("pod", new, _used_bytes(run)), *found] if found and new < old else found


def _limit_bytes(resources: Json) -> float:
    """Return the memory limit of a container; there is none for a pod if one has none."""
    found: Amounts = quantities(resources.get("limits"))
    return found["memory"].units if "memory" in found else math.inf


def _urgency(run: PodRun) -> tuple[bool, int, int, str]:
    """Order deferred pods: those that shrink first, then by priority, quality and waiting time."""
    wanted, has = sum_of(run.pod["spec"], "requests"), run.allocated()
    grows = any(wanted.get(name, ZERO) > has.get(name, ZERO) for name in SIZED)
    quality = ("Guaranteed", "Burstable", "BestEffort")
    qos = member(run.pod, "status.qosClass")
    return (
        grows,
        -int(run.pod["spec"].get("priority") or 0),
        quality.index(qos) if qos in quality else len(quality),
        run.pending.since.isoformat() if run.pending else "",
    )
