"""The life of pods on their nodes: they start, become ready, crash, come again, and end.

Strategy: everything is an action at its time on the sandbox's clock; between two actions nothing
happens. What an action finds changed since it was planned (another start of the container, the
pod gone) makes it void. After each action the pod's status is written as a whole, which is no
write at all if nothing in it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final
from zlib import crc32

from app.model.errors import BadObject, ClusterError
from app.model.times import rfc3339
from app.ports import PODS, Json
from app.sandbox.kubelet.runs import (
    STOP_SECONDS,
    ContainerRun,
    PodRun,
    lasting,
    next_probe,
    sized,
    status_of,
)
from app.sandbox.load import load_of
from app.sandbox.objects import Key, has_ended, is_deleted, uid_of
from app.sandbox.pod_control import PodControl
from app.sandbox.stepped_clock import Worklist
from app.sandbox.store import StoredChange

NAME: Final = "kubelet"

_NOTICE_SECONDS: Final = 0.02  # until a change of a pod is seen
_START_SECONDS: Final = 1.0  # from the node to running containers
_FIRST_PAUSE_SECONDS: Final = 10.0  # before the second restart of a container
_LONGEST_PAUSE_SECONDS: Final = 300.0
_GOOD_RUN_SECONDS: Final = 2 * _LONGEST_PAUSE_SECONDS  # after which a crash is the first again


class Kubelet:
    """Runs the pods of all nodes.

    Others hear of pods whose spec changed, of nodes that have room again, and of starts.
    """

    def __init__(self, control: PodControl) -> None:
        self._control = control
        self._clock = control.clock
        self._runs: dict[Key, PodRun] = {}
        self._todo = Worklist(control.clock, self._look)
        self.on_change: Callable[[PodRun], object] = lambda _run: None
        self.on_room: Callable[[str], object] = lambda _node: None
        self.on_start: list[Callable[[PodRun, ContainerRun], object]] = []
        control.store.listen(self._note)

    def runs(self) -> Iterator[PodRun]:
        """Yield all pods that run or will run."""
        return (run for run in list(self._runs.values()) if not run.has_ended)

    def tell(self, run: PodRun, reason: str, message: str, *, warning: bool = False) -> None:
        """Tell something of a pod as an event."""
        self._control.recorder.tell(NAME, PODS, run.pod, reason, message, warning=warning)

    def write(self, run: PodRun) -> None:
        """Write the status of a pod as it is now."""
        now = self._clock.now()

        def renew(pod: Json) -> None:
            pod["status"] = status_of(run, pod.get("status") or {}, now)

        self._control.change(PODS, run.pod, renew, "status")

    def later(self, run: PodRun, seconds: float, action: Callable[[], object]) -> None:
        """Do something in a while, unless the pod is gone by then."""

        def act() -> None:
            if self._runs.get(run.key) is run and not run.has_ended:
                action()

        self._clock.call_later(seconds, act)

    def _note(self, collection: str, change: StoredChange) -> None:
        if collection != "pods":
            return
        pod = change.after
        if pod is None:
            if change.key in self._runs:
                self._todo.note(change.key, _NOTICE_SECONDS)
            return
        run = self._runs.get(change.key)
        node = pod["spec"].get("nodeName")
        if run is None:
            is_news = bool(node) and not has_ended(pod)
        else:
            generation = pod["metadata"].get("generation")
            is_news = (
                run.uid != uid_of(pod)
                or generation != run.observed_generation
                or is_deleted(pod)
                or pod["metadata"].get("labels") != run.pod["metadata"].get("labels")
            )
        if is_news:
            self._todo.note(change.key, _NOTICE_SECONDS)

    def _look(self, key: Key) -> None:
        pod = self._control.store.read("pods", key)
        run = self._runs.get(key)
        if run is not None and (pod is None or uid_of(pod) != run.uid):
            del self._runs[key]
            self.on_room(run.node)
            run = None
        if pod is None or not pod["spec"].get("nodeName"):
            return
        if run is None:
            self._begin(pod)
            return
        self._take_over(run, pod)
        if is_deleted(pod):
            self._stop(run)
        elif not run.has_ended:
            self.on_change(run)

    def _take_over(self, run: PodRun, pod: Json) -> None:
        """Look at the pod as it is now; its labels may ask for another load."""
        labels_changed = run.pod["metadata"].get("labels") != pod["metadata"].get("labels")
        run.pod = pod
        for item in lasting(pod["spec"]):
            container = run.containers.get(item["name"])
            if container is not None:
                container.spec = item
                if labels_changed:
                    container.load = load_of(pod, item, leads=container.leads)

    def _begin(self, pod: Json) -> None:
        node = pod["spec"]["nodeName"]
        if has_ended(pod) or self._control.store.read("nodes", Key("", node)) is None:
            return
        try:
            containers = {item["name"]: _fresh(pod, item) for item in lasting(pod["spec"])}
        except BadObject as error:
            recorder = self._control.recorder
            recorder.tell(NAME, PODS, pod, "BadLoad", str(error), warning=True)
            return
        run = PodRun(
            pod,
            node,
            containers,
            rfc3339(self._clock.now()),
            pod["metadata"].get("generation", 1),
        )
        self._runs[run.key] = run
        self.write(run)
        if is_deleted(pod):
            self._stop(run)
        else:
            self.later(run, _START_SECONDS, lambda: self._start_all(run))

    def _start_all(self, run: PodRun) -> None:
        if run.is_stopping:
            return
        run.phase = "Running"
        for container in run.containers.values():
            self._start(run, container)
        self.write(run)

    def _start(self, run: PodRun, container: ContainerRun) -> None:
        now = self._clock.monotonic()
        container.starts += 1
        container.started_at = container.counted_at = now
        container.apply()
        self.lead(run, container, leads=False)
        container.state = {"running": {"startedAt": rfc3339(self._clock.now())}}
        container.is_waiting_to_restart = False
        container.cpu_core_seconds = container.cpu_cores = container.memory_bytes = 0.0
        startup = container.load.startup
        work = startup.seconds(container.cpu_limit) if startup else 0.0
        container.useful_at = now + work
        container.is_ready = next_probe(container, now) == now
        self.tell(run, "Started", f"Started container {container.name}")
        if not container.is_ready:
            self._await_probe(run, container)
        for listener in self.on_start:
            listener(run, container)
        if container.load.exit is not None:
            end = container.load.exit
            self.while_running(
                run, container, end.after_seconds, lambda: self.end(run, container, end.code)
            )

    def while_running(
        self, run: PodRun, container: ContainerRun, seconds: float, action: Callable[[], object]
    ) -> None:
        """Do something in a while, unless the container does not run any more by then."""
        starts = container.starts

        def act() -> None:
            if container.starts == starts and container.is_running:
                action()

        self.later(run, seconds, act)

    def lead(self, run: PodRun, container: ContainerRun, *, leads: bool) -> None:
        """Let a program do what one does that leads, or that does not."""
        if leads is not container.leads:
            container.leads = leads
            container.load = load_of(run.pod, container.spec, leads=leads)

    def change_pace(self, run: PodRun, container: ContainerRun, old_limit_cores: float) -> None:
        """Let a start that is going on take as long as the new limit lets it."""
        now = self._clock.monotonic()
        startup = container.load.startup
        if startup is None or container.useful_at <= now:
            return
        left = (container.useful_at - now) / startup.seconds(old_limit_cores)
        container.useful_at = now + left * startup.seconds(container.cpu_limit)
        self._await_probe(run, container)

    def _await_probe(self, run: PodRun, container: ContainerRun) -> None:
        due = next_probe(container, self._clock.monotonic())
        self.while_running(
            run, container, due - self._clock.monotonic(), lambda: self._probe(run, container)
        )

    def _probe(self, run: PodRun, container: ContainerRun) -> None:
        now = self._clock.monotonic()
        if container.is_ready or run.is_stopping or next_probe(container, now) > now:
            return  # ready already, or slowed down since
        container.is_ready = True
        self.write(run)

    def end(self, run: PodRun, container: ContainerRun, code: int, reason: str = "") -> None:
        """A program ended: start it again, now or later, or let the pod end with it."""
        now = self._clock.monotonic()
        container.state = _terminated(container, code, reason, self._clock.now())
        container.is_ready = False
        container.cpu_cores = container.memory_bytes = 0.0
        policy = run.pod["spec"].get("restartPolicy")
        is_again = policy == "Always" or (policy == "OnFailure" and code != 0)
        if run.is_stopping or not is_again:
            self._end_pod_if_all_did(run)
        else:
            pause = _pause(container, now)
            container.is_waiting_to_restart = True
            if pause:
                message = f"Back-off restarting failed container {container.name}"
                self.tell(run, "BackOff", message, warning=True)
                starts = container.starts
                self.later(run, pause, lambda: self._restart_once(run, container, starts))
            else:
                self.restart(run, container)
        self.write(run)

    def _restart_once(self, run: PodRun, container: ContainerRun, starts: int) -> None:
        if container.starts == starts and container.is_waiting_to_restart:
            self.restart(run, container)
            self.write(run)

    def restart(self, run: PodRun, container: ContainerRun) -> None:
        """Start a container that ended."""
        container.restarts += 1
        container.last_state = container.state
        self._start(run, container)

    def replace(self, run: PodRun, container: ContainerRun) -> None:
        """Start a container again that was stopped for it, with the resources it is to have."""
        container.state = _terminated(container, 143, "Error", self._clock.now())
        self.restart(run, container)

    def evict(self, run: PodRun, message: str, annotations: Json) -> None:
        """End a pod that the node has no room for."""
        run.phase, run.reason, run.message = "Failed", "Evicted", message
        run.is_disrupted = True
        for container in run.containers.values():
            if container.is_running:
                container.state = _terminated(container, 137, "Error", self._clock.now())
            container.is_ready = False
        recorder = self._control.recorder
        recorder.tell(
            NAME, PODS, run.pod, "Evicted", message, warning=True, annotations=annotations
        )
        self.write(run)
        self.on_room(run.node)

    def _end_pod_if_all_did(self, run: PodRun) -> None:
        main = [run.containers[item["name"]] for item in run.pod["spec"]["containers"]]
        if any(found.is_running or found.is_waiting_to_restart for found in main):
            return
        codes = [found.state.get("terminated", {}).get("exitCode", 0) for found in main]
        run.phase = "Failed" if any(codes) else "Succeeded"
        run.pending = run.progress = None
        self.on_room(run.node)

    def _stop(self, run: PodRun) -> None:
        if run.is_stopping:
            return
        run.is_stopping = True
        grace = run.pod["metadata"].get("deletionGracePeriodSeconds") or 0
        seconds = 0.0 if run.has_ended else min(STOP_SECONDS, grace)
        self._clock.call_later(seconds, lambda: self._gone(run))

    def _gone(self, run: PodRun) -> None:
        if self._runs.get(run.key) is not run:
            return
        if not run.has_ended:
            for container in run.containers.values():
                container.is_waiting_to_restart = container.is_ready = False
                if container.is_running:
                    container.state = _terminated(container, 143, "Error", self._clock.now())
            self._end_pod_if_all_did(run)
            self.write(run)
        with suppress(ClusterError):
            self._control.writes.delete(PODS, run.key, uid=run.uid, grace_seconds=0)


def _fresh(pod: Json, item: Json) -> ContainerRun:
    who = crc32(f"{uid_of(pod)}/{item['name']}".encode())
    return ContainerRun(item, load_of(pod, item), sized(item.get("resources")), who)


def _terminated(container: ContainerRun, code: int, reason: str, now: datetime) -> Json:
    started = (container.state.get("running") or {}).get("startedAt", rfc3339(now))
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "startedAt": started,
            "finishedAt": rfc3339(now),
        }
    }


def _pause(container: ContainerRun, now: float) -> float:
    """Return how long to wait before the next start: nothing at first, then longer each time.

    What is counted is one image with one set of resources, so a resize starts over.
    """
    tried = (container.spec.get("image"), container.allocated)
    is_first = container.tried != tried or now - container.started_at > _GOOD_RUN_SECONDS
    pause = 0.0 if is_first else container.pause_seconds
    container.tried = tried
    container.pause_seconds = min(max(pause * 2, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
    return pause
