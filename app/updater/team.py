"""The parts of the updater put together, whatever the cluster is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from app.model.gates import FeatureGate
from app.model.snapshot import Snapshot
from app.ports import Clock, Cluster, Owners
from app.updater.api import Deed
from app.updater.boosts import Boosts
from app.updater.calls import Calls
from app.updater.carrying import Carrier, Doors
from app.updater.core.decisions import Decision
from app.updater.core.rules import UpdateRules
from app.updater.deciding import Decider
from app.updater.doubts import Doubts
from app.updater.flags import UpdaterSettings
from app.updater.journal import Journal
from app.updater.metrics import UpdaterMetrics
from app.updater.notebook import Notebook
from app.updater.pace import Pace, PaceRules
from app.updater.reporting import Counts
from app.updater.rules import lease_rules, update_rules
from app.updater.summaries import Summaries
from app.updater.telling import Teller
from app.updater.trials import Trials
from app.updater.updater import Hands, RoundRules, Sources, Updater
from app.updater.webhook_lease import WebhookLease


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the updater works with."""

    acting: Cluster  # where pods are evicted and resized
    telling: Cluster  # where events and annotations are written
    owners: Owners
    snapshot: Callable[[], Snapshot]
    is_known: Callable[[], bool]  # whether the snapshot is whole
    may_act: Callable[[], bool]  # whether we lead, see the cluster, and nobody told us to stop
    leads: Callable[[], bool]
    clock: Clock
    metrics: UpdaterMetrics
    in_time: Callable[[], Cluster] | None = None  # to act in, with a deadline of now; or `acting`


class Archive:
    """What can be asked about decisions and deeds."""

    def __init__(self, updater: Updater, notebook: Notebook) -> None:
        self._updater = updater
        self._notebook = notebook

    def told_at(self) -> datetime | None:
        """Return the time of the latest round."""
        return self._updater.told_at

    def decisions(self, namespace: str, /) -> Iterable[Decision]:
        """Return the decisions of the latest round."""
        return self._updater.book.decisions(namespace)

    def deeds(self) -> Mapping[str, Deed]:
        """Return the last deed for each pod."""
        return self._notebook.deeds()


@dataclass(frozen=True, slots=True)
class Team:
    """The parts of the updater that work on their own."""

    updater: Updater
    boosts: Boosts | None  # None: boosts are no matter of ours
    journal: Journal | None  # None: the cluster is told nothing
    summaries: Summaries | None
    notebook: Notebook
    carrier: Carrier

    @property
    def archive(self) -> Archive:
        """What can be asked over HTTP."""
        return Archive(self.updater, self.notebook)


def team(settings: UpdaterSettings, around: Surroundings) -> Team:
    """Put the parts together."""
    rules = update_rules(
        settings.deciding,
        settings.disruption,
        settings.thresholds,
        settings.scope,
        settings.loop.interval,
    )
    is_dry = settings.loop.dry_run
    journal = None if is_dry else Journal(around.telling, around.clock)
    summaries = Summaries(around.telling) if settings.acting.summaries and not is_dry else None
    teller = Teller(Counts(around.metrics), around.snapshot, journal=journal, summaries=summaries)
    notebook = Notebook(rules, around.clock)
    lease = WebhookLease(around.acting, lease_rules(settings.admission), around.clock)
    doors = _doors(settings, around, lease, teller, rules)
    hands = Hands(
        _decider(settings, rules, around),
        Carrier(doors, notebook, rules, settings.acting.concurrency),
        notebook,
        teller,
        around.metrics,
    )
    sources = Sources(
        around.snapshot,
        around.is_known,
        around.may_act,
        around.leads,
        lease.look,
        around.clock,
    )
    updater = Updater(sources, hands, RoundRules(settings.loop.interval, is_dry))
    boosts = _boosts(settings, rules, around, doors, notebook)
    return Team(updater, boosts, journal, summaries, notebook, hands.carrier)


def _boosts(
    settings: UpdaterSettings,
    rules: UpdateRules,
    around: Surroundings,
    doors: Doors,
    notebook: Notebook,
) -> Boosts | None:
    """Return what ends boosts, None if nobody is to."""
    if FeatureGate.CPU_STARTUP_BOOST not in settings.deciding.gates or settings.loop.dry_run:
        return None
    acting = settings.acting
    # Pods that start together are due together.
    workers = max(acting.boost_workers, acting.concurrency)
    return Boosts(
        _decider(settings, rules, around),
        Carrier(doors, notebook, rules, workers),
        notebook,
        around.snapshot,
        lambda: around.may_act() and around.is_known(),
        around.clock,
    )


def _decider(settings: UpdaterSettings, rules: UpdateRules, around: Surroundings) -> Decider:
    return Decider(rules, settings.deciding.gates, around.owners, around.clock)


def _doors(
    settings: UpdaterSettings,
    around: Surroundings,
    lease: WebhookLease,
    teller: Teller,
    rules: UpdateRules,
) -> Doors:
    disruption, acting = settings.disruption, settings.acting
    calls = Calls(around.in_time or (lambda: around.acting))
    rates = PaceRules(
        disruption.rate_per_second,
        disruption.burst,
        acting.namespace_rate_per_second,
        acting.namespace_burst,
    )

    def pace() -> Pace:
        return Pace(rates, around.clock)

    return Doors(
        calls,
        Doubts(calls, rules, around.clock, around.snapshot),
        Trials(around.acting),
        evictions=pace(),
        resizes=pace(),
        clock=around.clock,
        snapshot=around.snapshot,
        may_act=around.may_act,
        may_evict=lease.is_fresh,
        told=teller.tried,
    )
