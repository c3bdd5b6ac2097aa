"""The three processes on a cluster in memory, several replicas of each, and what may befall them.

Strategy: recommender and updater are the processes that a cluster runs, and the webhook knows the
cluster as its process does; what fails is below them, in the runtime they are put together for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol, Unpack, cast

import orjson
from prometheus_client import CollectorRegistry

from app.admission.core.mutate import FAILED_OPEN
from app.admission.core.validate import Phase
from app.admission.flags import AdmissionSettings
from app.admission.heartbeat import Heartbeat, HeartbeatRules
from app.admission.knowledge import LiveKnowledge, review_rules
from app.admission.metrics import AdmissionMetrics
from app.admission.reviews import Reviewer
from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.kube.watch_cache import WatchState
from app.kube.watched_resources import WatchedResource
from app.model.review import read_review
from app.ports import Cluster, Delta, Json, Sink
from app.recommender import process as recommender
from app.recommender.flags import RecommenderSettings
from app.run.simulated import SimulatedRuntime, SteppedLoop, SteppedWatchCache
from app.runtime.clock import SystemClock
from app.runtime.live import Mirrored
from app.runtime.loop import Loop, LoopRules, Tick
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import Action, SteppedClock
from app.updater import process as updater
from app.updater.flags import UpdaterSettings
from tests.faults import Faults
from tests.reached_limits import ReachedLimits
from tests.updater.stage import Watched

_GATES: Final = "--feature-gates=AllAlpha=true"
_ELECTED: Final = (  # less often than usual: most of a week would be spent on Leases
    _GATES,
    "--address=127.0.0.1:0",
    "--leader-elect=true",
    "--leader-elect-lease-duration=30s",
    "--leader-elect-renew-deadline=20s",
    "--leader-elect-retry-period=8s",
)
_ONE_THREAD: Final = ("--update-concurrency=1", "--concurrent-cpu-startup-boost-syncs=1")
_REVIEW_SECONDS: Final = 3.0


class WrongClock(SteppedClock):
    """The clock of a sandbox, whose time of day is ahead by so much."""

    def __init__(self, clock: SteppedClock) -> None:
        super().__init__()
        self._right = clock
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the time of day as it is set."""
        return self._right.now() + self.ahead

    def monotonic(self) -> float:
        """Return the seconds, which cannot be set."""
        return self._right.monotonic()

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._right.wait(seconds)

    def call_later(self, seconds: float, action: Action) -> None:
        """Let something happen after so many seconds."""
        self._right.call_later(seconds, action)


class LossyWatchCache(SteppedWatchCache):
    """A watch cache that hears nothing for a while, and then all that it missed."""

    def __init__(self, sandbox: Sandbox, sources: Iterable[WatchedResource]) -> None:
        self._time = sandbox.clock
        self._missed: list[Callable[[], None]] = []
        self.lost_at: float | None = None
        super().__init__(sandbox, sources)

    def lose(self) -> None:
        """Hear nothing from now on."""
        if self.lost_at is None:
            self.lost_at = self._time.monotonic()

    def find(self) -> None:
        """Hear again, first of all what was missed."""
        self.lost_at = None
        missed, self._missed = self._missed, []
        for take in missed:
            take()

    def standings(self, now: datetime, /) -> Sequence[WatchState]:
        """Tell how long nothing was heard."""
        found = super().standings(now)
        if self.lost_at is None:
            return found
        silent = self._time.monotonic() - self.lost_at
        return [replace(one, stale_seconds=silent) for one in found]

    def _sink(self, source: WatchedResource) -> Sink:
        take = super()._sink(source)

        def hear(changes: Sequence[Delta], whole: bool) -> None:
            if self.lost_at is None:
                take(changes, whole)
            else:
                self._missed.append(partial(take, changes, whole))

        return hear


class UnreliableRuntime(SimulatedRuntime):
    """Calls fail as ordered, watches can be lost, the time of day can be wrong."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.faults = Faults()
        self.accepted = Watched(sandbox.cluster)  # the calls that reach the cluster
        super().__init__(sandbox, self.faults.before(cast("Cluster", self.accepted)))
        self.clock = self.set_clock = WrongClock(sandbox.clock)
        self.caches: list[LossyWatchCache] = []
        self._loops: list[_KillableLoop] = []

    def mirror(self, _cluster: Cluster, sources: Iterable[WatchedResource], /) -> Mirrored:
        """Return a watch cache that can be lost."""
        self.caches.append(LossyWatchCache(self._sandbox, sources))
        return self.caches[-1]

    def loop(self, name: str, tick: Tick, **rules: Unpack[LoopRules]) -> Loop:
        """Return a loop that can be killed."""
        self._loops.append(_KillableLoop(name, tick, self.clock, **rules))
        return self._loops[-1]

    def kill(self) -> None:
        """Let nothing of the process happen any more, not even its end."""
        for loop in self._loops:
            loop.kill()

    def recover(self) -> None:
        """Let all be well again."""
        self.faults.clear()
        self.set_clock.ahead = timedelta()
        for cache in self.caches:
            cache.find()

    def unseen_seconds(self) -> float:
        """Return for how long nothing was heard from the cluster."""
        lost = [found.lost_at for found in self.caches if found.lost_at is not None]
        return self.clock.monotonic() - min(lost) if lost else 0.0


class _KillableLoop(SteppedLoop):
    def kill(self) -> None:
        self._over.set()


class Process(Protocol):
    """What a replica runs."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End in good order."""
        ...


class WebhookProcess:
    """The part of the webhook's process that answers reviews and says that it does."""

    def __init__(self, runtime: UnreliableRuntime) -> None:
        settings = parse(AdmissionSettings, [_GATES], {})
        self._knowledge = LiveKnowledge(
            lambda: runtime.connect(settings.cluster), settings.scope, runtime, ReachedLimits()
        )
        self._numbers = AdmissionMetrics(CollectorRegistry(), FAILED_OPEN)
        sources, given = self._knowledge.sources, review_rules(settings.decisions)
        # However fast the time of the sandbox runs, a review takes real time.
        self._reviewer = Reviewer(sources, given, self._numbers, SystemClock())
        beat = settings.heartbeat
        rules = HeartbeatRules(beat.lease_namespace, beat.lease_name, "webhook", 10.0)
        cluster = runtime.connect(settings.cluster)
        heartbeat = Heartbeat(cluster, rules, self._knowledge.problem, runtime.clock)
        self._beats = runtime.loop("heartbeat", heartbeat.tick, longest_retry_seconds=10.0)

    def start(self) -> None:
        """Begin."""
        self._beats.start()

    def stop(self) -> None:
        """End."""
        self._beats.stop()
        self._knowledge.close()

    def review(self, phase: Phase, review: Json) -> Json:
        """Answer a review."""
        found = self._reviewer.answer(read_review(review), _REVIEW_SECONDS, phase)
        self._numbers.settle()  # as the process does once a second
        answer: Json = orjson.loads(found)
        return answer


def _recommender(runtime: UnreliableRuntime) -> Process:
    settings = parse(RecommenderSettings, _ELECTED, {})
    return recommender.Process(settings, runtime, PodPreviewer)


def _updater(runtime: UnreliableRuntime) -> Process:
    return updater.Process(parse(UpdaterSettings, [*_ELECTED, *_ONE_THREAD], {}), runtime)


PROCESSES: Final[dict[str, Callable[[UnreliableRuntime], Process]]] = {
    "webhook": WebhookProcess,
    "recommender": _recommender,
    "updater": _updater,
}


@dataclass
class Replica:
    """A place for a process: it works, or is away."""

    sandbox: Sandbox
    role: str
    runtime: UnreliableRuntime
    process: Process | None = None

    def start(self) -> None:
        """Start a process that knows nothing."""
        self.runtime = UnreliableRuntime(self.sandbox)
        self.process = PROCESSES[self.role](self.runtime)
        self.process.start()

    def stop(self) -> None:
        """End the process as after SIGTERM."""
        process, self.process = self.process, None
        if process is not None:
            process.stop()

    def kill(self) -> None:
        """End the process without a word."""
        self.runtime.kill()
        self.stop()
