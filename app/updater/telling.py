"""Tell of calls and rounds: to counters, to events, to the log, to the VPAs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from app.model.snapshot import Snapshot
from app.ports import VPAS
from app.updater.carrying import Done
from app.updater.core.decisions import Reason
from app.updater.core.events import Severity, UpdateEvent, decision_events, outcome_events
from app.updater.core.outcomes import Outcome
from app.updater.core.owners import Overlap
from app.updater.core.plan import Plan
from app.updater.journal import Journal
from app.updater.reporting import Book, Counts, waiting
from app.updater.summaries import Summaries

log = logging.getLogger("updater.report")


class Teller:
    """Tells; without a journal or summaries the cluster is told nothing.

    Args:
        counts: what counts.
        snapshot: returns what the watch shows.
        journal: takes events, None to send none.
        summaries: take what is written to VPAs, None to write nothing.
    """

    def __init__(
        self,
        counts: Counts,
        snapshot: Callable[[], Snapshot],
        *,
        journal: Journal | None = None,
        summaries: Summaries | None = None,
    ) -> None:
        self._counts = counts
        self._snapshot = snapshot
        self._journal = journal
        self._summaries = summaries
        self._waiting: Mapping[str, Reason] = {}
        self._overlaps: frozenset[Overlap] = frozenset()

    def tried(self, outcome: Outcome) -> None:
        """Tell of a call as soon as it was made; from any thread."""
        self._counts.tried(outcome)
        self._write(outcome_events(outcome), self._snapshot(), outcome.at)
        decision, error = outcome.step.decision, outcome.error
        extra = {
            "action": str(outcome.action),
            "pod": f"{decision.namespace}/{decision.pod}",
            "vpa": decision.vpa,
            "reason": decision.message,
        }
        if error is None:
            log.info("pod updated", extra=extra)
        else:
            log.warning("pod not updated", extra={**extra, "error": error.message})

    def decided(self, made: Plan, snapshot: Snapshot) -> None:
        """Tell of a plan before it is carried out."""
        self._counts.begin(made, snapshot)
        self._write(self._troubles(made), snapshot, made.now)

    def ended(self, book: Book, before: Book, done: Done, snapshot: Snapshot) -> None:
        """Tell of a round that is over."""
        self._counts.limited(done.limited)
        self._counts.end(book)
        if self._summaries is not None:
            for namespace, decisions in book.news(before):
                self._summaries.offer(snapshot.of(namespace).vpas, decisions)

    def stand_by(self) -> None:
        """Tell of nothing that is going on, for others know better."""
        self._counts.clear()

    def _write(self, notices: Iterable[UpdateEvent], snapshot: Snapshot, now: datetime) -> None:
        if self._journal is not None:
            self._journal.tell(notices, snapshot, now)

    def _troubles(self, made: Plan) -> Iterator[UpdateEvent]:
        """Yield what is told of troubles that begin."""
        yield from decision_events(made.decisions, self._waiting)
        self._waiting = waiting(made.decisions)
        overlaps = frozenset(made.overlaps)
        for found in sorted(overlaps - self._overlaps, key=_place):
            yield UpdateEvent(
                VPAS.kind,
                found.namespace,
                found.weaker,
                "",
                Severity.WARNING,
                "SelectorOverlap",
                f"VPA {found.stronger} claims the same pods and comes first",
            )
        self._overlaps = overlaps


def _place(overlap: Overlap) -> tuple[str, str, str]:
    return overlap.namespace, overlap.weaker, overlap.stronger
