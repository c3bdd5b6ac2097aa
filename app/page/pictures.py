"""Makes pictures of a cluster, again whenever something changed, and answers what is behind one.

Strategy: a picture is made by one thread, whoever asks; who asks gets the latest. Where none can be
made any more, the last one stays, with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Final

from app.admission.core.mutate import PodRules
from app.diagnosis.core.checkup import checkup
from app.diagnosis.core.facts import Check, Findings
from app.diagnosis.core.uncovered import TopWorkload, top_workloads
from app.diagnosis.explainer import DecisionRules
from app.diagnosis.gathering import ask_with_lookups
from app.model.snapshot import NamespaceView, Snapshot
from app.page.core.installation import mistakes
from app.page.core.picture import Picture, fleet_of
from app.page.core.rows import by_vpa, controlled_pods
from app.page.core.workload_log import WorkloadLog
from app.page.flags import LookSettings
from app.page.sources import Source
from app.updater.core.memory import Memory
from app.updater.core.plan import Plan
from app.updater.flags import update_rules
from app.updater.updater import OwnerLookupPlanner
from app.updater.watches import HEALTHY

log = logging.getLogger("page.pictures")

_LOOK_SECONDS: Final = 0.2  # until the cluster is known
_CHECK_SECONDS: Final = 300.0
_PATIENCE_INTERVALS: Final = 10  # without a picture, then the process counts as dead
_PATIENCE_SECONDS: Final = 120.0


def decision_rules(settings: LookSettings) -> DecisionRules:
    """Return by which rules webhook and updater decide, as far as flags tell."""
    deciding, asking = settings.deciding, settings.asking
    updates = update_rules(
        deciding, settings.disruption, settings.thresholds, settings.scope, asking.interval
    )
    webhook = PodRules(deciding.gates, asking.max_cpu_boost, deciding.native_sidecars)
    return DecisionRules(updates, webhook, deciding.gates)


class Pictures:
    """The latest picture; `tick` is for a loop."""

    def __init__(
        self,
        source: Source,
        rules: DecisionRules,
        refresh_seconds: float,
        at: datetime | None,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self.source, self.rules = source, rules
        self.refresh_seconds = refresh_seconds
        self._at = at
        self._monotonic = seconds
        self._ticked_at: float | None = None
        self._planner = OwnerLookupPlanner(rules.updates, rules.gates, source.owners, source.clock)
        self.log = WorkloadLog()
        self._tops: dict[str, tuple[NamespaceView, Sequence[TopWorkload]]] = {}
        self.latest: Picture | None = None
        self.webhook = HEALTHY  # as the latest picture has it
        self._findings: Findings | None = None

    def problem(self) -> str:
        """Return why there is no picture yet, empty if there is one."""
        if self.latest is not None:
            return ""
        return self.source.problem() or "the first picture is being made"

    def dead(self) -> str:
        """Return why the process should be restarted, empty if it works."""
        if self._ticked_at is None:
            return ""
        silent = self._monotonic() - self._ticked_at
        longest = max(_PATIENCE_INTERVALS * self.refresh_seconds, _PATIENCE_SECONDS)
        return f"no picture was made for {silent:.0f} s" if silent > longest else ""

    def tick(self, _now: datetime) -> float:
        """Make a picture; return the seconds until the next one."""
        self._ticked_at = self._monotonic()
        problem = self.source.problem()
        if problem and self.latest is None:
            return _LOOK_SECONDS
        if not problem:
            self.latest = self._picture(self._at or self.source.clock.now())
        return self.refresh_seconds

    def shown(self) -> Picture | None:
        """Return the latest picture, with its age if none can be made that is newer."""
        latest, problem = self.latest, self.source.problem()
        if latest is None or not problem:
            return latest
        return replace(latest, problem=problem, age=self.source.clock.now() - latest.now)

    def check(self, _now: datetime) -> float:
        """Check the installation; return the seconds until the next time."""
        if self.latest is None:
            return _LOOK_SECONDS
        found = checkup(self.source.facts())
        # Of files nothing but VPAs is known.
        is_offline = not self.latest.watches
        self._findings = {Check.VPAS: found[Check.VPAS]} if is_offline else found
        return _CHECK_SECONDS

    def _picture(self, now: datetime) -> Picture:
        source, snapshot = self.source, self.source.snapshot
        webhook = self.webhook = source.webhook(now)
        plan = self._planner.plan(
            snapshot, Memory(), now, webhook_is_healthy=webhook.is_healthy, outage=webhook.outage
        )
        tops, measured = self._top_workloads(snapshot), source.measured()
        self._note(snapshot, plan)
        wrong = mistakes(self._findings)
        return Picture(
            now=now,
            snapshot=snapshot,
            plan=plan,
            tops=tops,
            measured=measured,
            fleet=fleet_of(snapshot, plan, tops, measured, self.latest, wrong),
            mistakes=wrong,
            webhook=webhook.message,
            notes=source.notes(),
            events=source.events,
            kills=self.log.kills(),
            findings=self._findings,
            watches=source.watches(),
        )

    def _note(self, snapshot: Snapshot, plan: Plan) -> None:
        """Note what changed since the latest picture."""
        for name, view in snapshot.namespaces.items():
            part = plan.namespaces.get(name)
            before = self.latest
            if before is not None and before.snapshot.of(name) is view:
                continue
            decided = by_vpa(part.decisions if part is not None else ())
            found = (
                (vpa, controlled_pods(view, decided.get(vpa.name, ())))
                for vpa in view.vpas.values()
            )
            self.log.note(name, found, plan.now)
        self.log.keep(snapshot.namespaces)

    def _top_workloads(self, snapshot: Snapshot) -> Mapping[str, Sequence[TopWorkload]]:
        """Return the topmost controllers; those of namespaces that did not change stay."""
        known, self._tops = self._tops, {}
        for name, view in snapshot.namespaces.items():
            before = known.get(name)
            if before is None or before[0] is not view:
                alone = Snapshot({name: view})
                source = self.source
                found = ask_with_lookups(source.owners, source.clock, partial(top_workloads, alone))
                before = view, found.found
            self._tops[name] = before
        return {name: found for name, (_, found) in self._tops.items()}
