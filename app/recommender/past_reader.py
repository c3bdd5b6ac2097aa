"""Reads usage of the past from Prometheus, in the background, until it is known.

Strategy: what is known of the past is laid ready for the owner of the model; nothing waits for it.
A question that fails is asked again, later and later; what was read before it stays read. As the
model counts live usage from the start of its term, the past ends there, whenever it is read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Final

from app.model.errors import BadObject, ClusterError, Invalid, PlumblineError
from app.ports import Clock, Json, Prometheus
from app.recommender.core.promql import PastRules, cpu_query
from app.recommender.core.reading import Question, Reading, ReadingStage
from app.recommender.core.targets import VpaKey
from app.recommender.core.usage import PastUsage

log = logging.getLogger("recommender.history")

_LOOK_SECONDS: Final = 0.5
_FIRST_RETRY_SECONDS: Final = 5.0
_LONGEST_RETRY_SECONDS: Final = 300.0
_TOO_MUCH: Final = (413, 422, 504)  # status codes
_TRIES_FOR_LABELS: Final = 3  # the rest is worth having without them


@dataclass(frozen=True, slots=True)
class FoundPast:
    """Usage of the past, and whose it is."""

    usage: PastUsage
    only: set[VpaKey] | None = None  # None: of all VPAs


@dataclass(slots=True, eq=False)
class _Wish:
    """A request for the past, until it is answered."""

    reading: Reading
    namespace: str
    only: set[VpaKey] | None = None
    began: float | None = None  # to be read
    questions: int = 0
    without_labels: int = 0  # times that they could not be read


class PastReader:
    """The past of all VPAs at the start of a term, and of those that come later."""

    def __init__(
        self,
        prometheus: Prometheus,
        rules: PastRules,
        clock: Clock,
        namespace: str = "",
        reading: type[Reading] = Reading,
    ) -> None:
        self._prometheus = prometheus
        self._rules = rules
        self._clock = clock
        self._namespace = namespace
        self._reading = reading
        self._lock = Lock()
        self._wishes: list[_Wish] = []
        self._found: list[FoundPast] = []
        self._due = 0.0  # when the next question may be asked
        self._retry_seconds = _FIRST_RETRY_SECONDS

    # --- for the owner of the model

    def begin(self, now: datetime) -> None:
        """Forget what was wanted and found, and read the past of all VPAs for a new term."""
        wish = _Wish(self._begun(now, self._namespace), self._namespace)
        with self._lock:
            self._wishes, self._found = [wish], []
            self._due, self._retry_seconds = 0.0, _FIRST_RETRY_SECONDS

    def end(self) -> None:
        """Forget what was wanted and found; a question that is asked just now is the last one."""
        with self._lock:
            self._wishes, self._found = [], []

    def ask(self, vpas: set[VpaKey], now: datetime) -> None:
        """Read the past for some VPAs, unless it is to come anyway."""
        with self._lock:
            coming = [one.only for one in self._wishes] + [one.only for one in self._found]
            if not self._reading.is_repeated or None in coming:
                return
            for key in vpas.difference(*filter(None, coming)):
                self._wished(key[0], now).add(key)

    def taken(self) -> list[FoundPast]:
        """Return, once, what was found."""
        with self._lock:
            found, self._found = self._found, []
            return found

    def is_settled(self) -> bool:
        """Whether nothing more is to be read."""
        return not self._wishes

    # --- in the background

    def tick(self, now: datetime) -> float:
        """Read what is wanted; return the seconds until the next look."""
        del now
        with self._lock:
            is_due = self._clock.monotonic() >= self._due
            wish = self._wishes[0] if self._wishes and is_due else None
            if wish is not None and wish.began is None:
                wish.began = self._clock.monotonic()
        if wish is not None:
            self._read(wish)
        return _LOOK_SECONDS

    def _read(self, wish: _Wish) -> None:
        """Go on reading until everything is known, something fails, or another term begins."""
        try:
            while wish in self._wishes:
                question = wish.reading.question()
                if question is None:
                    self._done(wish)
                else:
                    wish.questions += 1
                    _ask(self._prometheus, wish.reading, question)
        except (ClusterError, BadObject) as error:
            self._failed(wish, error)

    def _wished(self, namespace: str, now: datetime) -> set[VpaKey]:
        """Return for whom a namespace will be read, as long as that has not begun."""
        for wish in self._wishes:
            if wish.namespace == namespace and wish.began is None and wish.only is not None:
                return wish.only
        wanted = set[VpaKey]()
        self._wishes.append(_Wish(self._begun(now, namespace), namespace, wanted))
        return wanted

    def _begun(self, now: datetime, namespace: str) -> Reading:
        return self._reading(self._rules, now - self._reading.live_age, namespace)

    def _failed(self, wish: _Wish, error: PlumblineError) -> None:
        if not wish.reading.is_repeated:
            log.error("history not read", extra={"error": str(error)})
            self._settle(wish, None)
            return
        if wish.reading.stage is ReadingStage.LABELS:
            wish.without_labels += 1
            if wish.without_labels == _TRIES_FOR_LABELS:
                wish.reading.was_refused(is_too_much=False)
        seconds = self._retry_seconds
        if isinstance(error, ClusterError) and error.retry_after_seconds is not None:
            seconds = max(seconds, min(error.retry_after_seconds, _LONGEST_RETRY_SECONDS))
        extra = {"error": str(error), "retry_seconds": seconds, "namespace": wish.namespace}
        log.warning("history not read", extra=extra)
        with self._lock:
            if wish in self._wishes:
                self._due = self._clock.monotonic() + seconds
                self._retry_seconds = min(self._retry_seconds * 2, _LONGEST_RETRY_SECONDS)

    def _done(self, wish: _Wish) -> None:
        usage, flaws = wish.reading.usage(), wish.reading.flaws
        extra = {
            "namespace": wish.namespace,
            "pods": len(usage.labels),
            "containers": len(usage.containers),
            "questions": wish.questions,
            "seconds": round(self._clock.monotonic() - (wish.began or 0.0), 3),
        }
        log.info("history read", extra=extra)
        if flaws.sentences:
            counts = {"series": flaws.series, "points": flaws.points, "problems": flaws.sentences}
            log.warning("history read in part", extra=counts)
        if not usage.containers:
            query = cpu_query(self._rules, wish.namespace)
            log.warning("history is empty; do its labels have other names?", extra={"query": query})
        self._settle(wish, FoundPast(usage, wish.only))

    def _settle(self, wish: _Wish, found: FoundPast | None) -> None:
        with self._lock:
            if wish in self._wishes:
                self._wishes.remove(wish)
                self._retry_seconds = _FIRST_RETRY_SECONDS
                self._found += [found] if found is not None else []


def read_once(prometheus: Prometheus, reading: Reading) -> PastUsage:
    """Return the past, as far as it can be read at once.

    Raises:
        ClusterError: Prometheus does not answer, or refuses.
        BadObject: an answer is none.
    """
    while (question := reading.question()) is not None:
        _ask(prometheus, reading, question)
    return reading.usage()


def _ask(prometheus: Prometheus, reading: Reading, question: Question) -> None:
    """Ask a question; if there is another way after a refusal, leave it to the next one."""
    try:
        answer = _answer(prometheus, question)
    except ClusterError as error:
        is_too_much = error.status in _TOO_MUCH
        is_final = isinstance(error, Invalid) or reading.stage is not ReadingStage.LABELS
        if not (is_final and reading.was_refused(is_too_much=is_too_much)):
            raise
        log.warning("history queries changed", extra={"error": str(error)})
        return
    reading.take(answer)


def _answer(prometheus: Prometheus, question: Question) -> Json:
    if question.start is None:
        return prometheus.query(question.query, question.end)
    return prometheus.query_range(question.query, question.start, question.end, question.step)
