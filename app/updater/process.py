"""The updater's process: what it watches, who leads, its port, and its end.

Strategy: everything periodic is a loop of its own: rounds, ends of boosts, doubts, events,
annotations, election. A standby watches as the leader does, so it can take over at once. Whoever
ends finishes the calls that are under way, tells what is left to tell, and then lets go of the
Lease.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Final

from app.ports import Cluster
from app.runtime.candidacy import election
from app.runtime.election import Campaign
from app.runtime.exposition import new_registry, render
from app.runtime.lifecycle import run_until_signal
from app.runtime.live import LiveRuntime, Runtime
from app.runtime.loop import Loop, Tick
from app.runtime.probes import probes
from app.runtime.process_metrics import ProcessMetrics
from app.runtime.server import Server, bound
from app.updater.api import add_decisions
from app.updater.boosts import Change
from app.updater.flags import UpdaterSettings
from app.updater.knowledge import UpdaterKnowledge
from app.updater.metrics import UpdaterMetrics
from app.updater.team import Archive, Surroundings, team

log = logging.getLogger("updater.process")

_CALL_SECONDS: Final = 10.0  # after which an eviction or a patch is given up
_LEAST_CALL_SECONDS: Final = 1.0  # for less no call is begun
_PATIENCE_INTERVALS: Final = 5  # without a round, then the process counts as dead
_TEND_SECONDS: Final = 1.0
_ROUND_SECONDS: Final = 15.0  # for the calls that are under way
_LOOP_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 10.0


def serve(settings: UpdaterSettings) -> int:
    """Update pods until a signal; return the exit code."""
    return run_until_signal(
        lambda: Process(settings, LiveRuntime()), settings.logging.verbosity, log
    )


class Process:
    """Starts everything, and ends it."""

    def __init__(self, settings: UpdaterSettings, place: Runtime) -> None:
        self._settings = settings
        self._place = place
        self._clock = clock = place.clock
        # Watches, actions, what is told and the Lease do not wait for one another.
        self._clusters = [place.connect(settings.cluster) for _ in range(4)]
        watched, acting, telling, leased = self._clusters
        self._acting = acting
        self._known = UpdaterKnowledge(watched, acting, settings.scope.namespace, place)
        registry = new_registry()
        self._numbers = ProcessMetrics(registry, version("plumbline"))
        self._stopping = self._leads = self._is_tidied = self._is_blind = False
        self._election = election(settings.election, leased, clock)
        self._term = 0
        around = Surroundings(
            acting=acting.within(_CALL_SECONDS),
            telling=telling.within(_CALL_SECONDS),
            owners=self._known.owners,
            snapshot=self._known.snapshot,
            is_known=self._known.is_known,
            may_act=self._may_act,
            leads=lambda: self._leads,
            clock=clock,
            metrics=UpdaterMetrics(registry),
            in_time=self._in_time,
        )
        self._team = team(settings, around)
        self._known.listen(self._note)
        self._working = list(self._workers())
        self._telling = list(self._tellers())
        self._tending = place.loop("tending", self._tend)
        campaign = Campaign(self._election, self._begin, self._end)
        self._campaign = place.loop("election", campaign.tick, at_end=campaign.close)
        app = probes(self._dead, self._known.problem, lambda: render(registry))
        add_decisions(app, self._team.archive)
        host, port = settings.loop.address
        self._health = Server(app, bound(host, port, "--address"))

    @property
    def archive(self) -> Archive:
        """What was decided and done."""
        return self._team.archive

    def start(self) -> None:
        """Begin."""
        self._health.start("health")
        self._known.start()
        if self._is_elected:
            self._campaign.start()
        else:
            self._begin()
        for loop in (self._tending, *self._telling, *self._working):
            loop.start()
        log.info("updater starts", extra={"dryRun": self._settings.loop.dry_run})

    def stop(self) -> None:
        """Finish what is under way, tell of it, let go of the Lease, and end."""
        self._stopping = True
        self._tending.stop(_LOOP_SECONDS)
        for loop in self._working:
            loop.stop(_ROUND_SECONDS)
        for loop in self._telling:
            loop.stop(_LOOP_SECONDS)
        if self._is_elected:
            self._campaign.stop()
        self._known.stop()
        for cluster in self._clusters:
            cluster.close()
        self._health.end()

    # --- who leads

    @property
    def _is_elected(self) -> bool:
        # Whoever touches nothing needs not lead.
        return self._settings.election.is_on and not self._settings.loop.dry_run

    def _may_act(self) -> bool:
        if self._stopping or not self._leads or self._is_blind:
            return False
        if not self._is_elected:
            return True
        return self._election.is_leading() and self._election.call_seconds() > _LEAST_CALL_SECONDS

    def _in_time(self) -> Cluster:
        """Return the cluster; calls that begin now are given up before somebody else may lead."""
        if not self._is_elected:
            return self._acting.within(_CALL_SECONDS)
        seconds = min(self._election.call_seconds(), _CALL_SECONDS)
        return self._acting.within(max(seconds, _LEAST_CALL_SECONDS))

    def _begin(self) -> None:
        """Begin to lead: if others led meanwhile, what was known before is out of date."""
        if self._term != self._election.term:
            self._term = self._election.term
            self._team.carrier.forget()
        if self._team.boosts is not None:
            self._team.boosts.refill()
        self._leads = True

    def _end(self) -> None:
        self._leads = False

    # --- loops

    def _workers(self) -> Iterator[Loop]:
        loop, longest = self._place.loop, _RETRY_SECONDS
        if self._team.boosts is not None:
            yield loop("boosts", self._team.boosts.tick, longest_retry_seconds=longest)
        yield loop("rounds", self._team.updater.tick, longest_retry_seconds=longest)
        yield loop("doubts", self._team.carrier.settle_doubts, longest_retry_seconds=longest)

    def _tellers(self) -> Iterator[Loop]:
        if self._team.journal is not None:
            yield _telling_loop("events", self._team.journal.tick, self._place)
        if self._team.summaries is not None:
            yield _telling_loop("summaries", self._team.summaries.tick, self._place)

    def _note(self, changes: Sequence[Change]) -> None:
        if self._team.boosts is not None:
            self._team.boosts.note(changes)

    def _tend(self, _now: datetime) -> float:
        """Tell how old our knowledge is; leave what was read first out of garbage collection."""
        for resource, seconds in self._known.watch_ages().items():
            self._numbers.watch_age(resource, seconds)
        self._look_whether_we_see()
        if not self._is_tidied and self._known.is_known():
            gc.collect()
            gc.freeze()
            self._is_tidied = True
        return _TEND_SECONDS

    def _look_whether_we_see(self) -> None:
        """Let nothing be done while the cluster is not seen: budgets would be guessed."""
        why = self._known.unseen()
        if why and not self._is_blind:
            log.warning("nothing is done, for the cluster is not seen", extra={"reason": why})
        elif self._is_blind and not why:
            log.info("the cluster is seen again")
        self._is_blind = bool(why)

    # --- health

    def _dead(self) -> str:
        """Say why the process should be started anew, empty if it works."""
        ended = self._team.updater.ended_at
        if ended is None:
            return ""
        silent = self._clock.monotonic() - ended
        if silent <= _PATIENCE_INTERVALS * self._settings.loop.interval.total_seconds():
            return ""
        return f"no round ended for {silent:.0f} s"


def _telling_loop(name: str, tick: Tick, place: Runtime) -> Loop:
    """Return a loop that tells what is left when it ends."""

    def last(now: datetime) -> None:
        tick(now)

    return place.loop(name, tick, longest_retry_seconds=_RETRY_SECONDS, at_end=last)
