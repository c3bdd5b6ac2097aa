"""What the updater knows of its cluster, by watching it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from app.kube.watch_cache import Transition, WatchedResource
from app.model.limits import read_disruption_budget, read_limit_range, read_node
from app.model.pods import read_pod
from app.model.snapshot import Collection, Snapshot
from app.ports import LIMIT_RANGES, NODES, POD_DISRUPTION_BUDGETS, PODS, VPAS
from app.runtime.live import Connection, Runtime
from app.runtime.watched import watch_ages, watched_vpas, watched_workloads
from app.updater.boosts import Change
from app.updater.core.rules import UpdateRules

log = logging.getLogger("updater.watches")

_LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
# Without these less is known beforehand; upstream's rights do not include all of them.
_HELPFUL: Final = (LIMIT_RANGES, POD_DISRUPTION_BUDGETS, NODES)
_HELPFUL_SECONDS: Final = 10.0
_LOOKUP_SECONDS: Final = 3.0
# Own deeds are believed no longer; a watch that works tells something, if only a bookmark, or is
# opened anew before that.
_UNSEEN_SECONDS: Final = UpdateRules().watch_lag.total_seconds()


class UpdaterKnowledge:
    """The cluster, mirrored, and owners that are looked up."""

    def __init__(
        self, watched: Connection, asked: Connection, namespace: str, place: Runtime
    ) -> None:
        self._clock = place.clock
        self._mirror = place.mirror(watched, sources(namespace))
        self.owners = place.owners(asked.within(_LOOKUP_SECONDS))
        self._is_known = False

    def listen(self, listener: Callable[[Sequence[Change]], None]) -> None:
        """Have what happens to pods and VPAs told."""

        def hear(transitions: Sequence[Transition]) -> None:
            listener(
                [
                    Change(found.namespace, found.name, found.before, found.after)
                    for found in transitions
                    if found.resource in (PODS, VPAS)
                ]
            )

        self._mirror.listen(hear)

    def start(self) -> None:
        """Begin to watch."""
        self._mirror.start()
        self.owners.start()

    def stop(self) -> None:
        """Watch no more."""
        self._mirror.stop()
        self.owners.close()

    def snapshot(self) -> Snapshot:
        """Return what is known."""
        return self._mirror.snapshot

    def is_known(self) -> bool:
        """Whether all that is needed was read once, and what helps was, or is refused."""
        if not self._is_known and not self.problem():
            self._is_known = True
            for found in self._mirror.standings(self._clock.now()):
                if not found.is_read:
                    extra = {"resource": found.resource.plural, "problem": found.problem}
                    log.warning("decided without it, for it cannot be read", extra=extra)
        return self._is_known

    def problem(self) -> str:
        """Say what is not known yet, empty if all is."""
        for found in self._mirror.standings(self._clock.now()):
            if found.is_read:
                continue
            is_helpful = found.resource in _HELPFUL
            if is_helpful and found.problem and found.stale_seconds > _HELPFUL_SECONDS:
                continue
            return found.unread
        return ""

    def unseen(self) -> str:
        """Say what was not seen for so long that nobody may act upon it, empty if nothing."""
        for found in self._mirror.standings(self._clock.now()):
            if found.missing or found.resource in _HELPFUL:
                continue
            if found.stale_seconds > _UNSEEN_SECONDS:
                seen = f"{found.resource.plural} were last seen {found.stale_seconds:.0f} s ago"
                return f"{seen}: {found.problem}" if found.problem else seen
        return ""

    def watch_ages(self) -> Mapping[str, float]:
        """Return for each watched resource how long nothing was heard, in seconds."""
        return watch_ages(self._mirror, self._clock)


def sources(namespace: str) -> Iterator[WatchedResource]:
    """Yield what is watched, in one namespace or in all."""
    yield watched_vpas(namespace, log)
    yield WatchedResource(
        PODS, Collection.PODS, read_pod, namespace=namespace, field_selector=_LIVE_PODS
    )
    yield WatchedResource(
        LIMIT_RANGES, Collection.LIMIT_RANGES, read_limit_range, namespace=namespace
    )
    yield WatchedResource(
        POD_DISRUPTION_BUDGETS, Collection.BUDGETS, read_disruption_budget, namespace=namespace
    )
    yield WatchedResource(NODES, Collection.NODES, read_node)
    yield from watched_workloads(namespace)
