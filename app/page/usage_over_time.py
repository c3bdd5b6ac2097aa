"""Usage over time: from Prometheus, from what the page itself has seen, or from a recording.

Strategy: a page waits for Prometheus for half a second at most. What comes later is kept, and the
next look finds it; what failed is not asked for again for some seconds. So a Prometheus that is
slow or away costs a sentence in the place of a chart, never the page.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from app.kube.splitting import lines
from app.model.errors import BadObject, ClusterError
from app.page.core.recorded_usage import UsageSamples, read_recorded, read_samples
from app.page.core.usage_queries import range_queries, read_answer
from app.page.core.usage_ring import UsageRing
from app.page.core.usage_series import (
    ChartRange,
    KnownUsage,
    SeriesKey,
    UsageQuestion,
    UsageSeries,
)
from app.page.flags import UsageFlags
from app.ports import Clock, Prometheus
from app.recommender.core.moments import moment
from app.recommender.core.promql import Flaws, PastRules
from app.recommender.core.usage import UsageBatch
from app.recommender.prometheus import PrometheusServer
from app.recommender.prometheus_connection import connection_of
from app.recommender.source_flags import PrometheusAccessFlags

log = logging.getLogger("page.usage")

_SHORT: Final = "only the last 24 hours are kept here; give --prometheus-address to see more"
_LARGEST_ANSWER: Final = 8 * 2**20  # bytes; three series a container take some kilobytes
_KEPT: Final = 256  # answers
_WAITING: Final = 32  # questions at once
_THREADS: Final = 4
_RETRY_SECONDS: Final = 15.0
_LATE: Final = "Prometheus has not answered yet: the chart comes with the next refresh"
_BUSY: Final = "Prometheus is asked too much at once: the chart comes with the next refresh"


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long somebody waits for usage: of one question, and of all together."""

    each_seconds: float = 0.5
    all_seconds: float = inf
    late: str = _LATE  # what is said then


class UsageHistory(Protocol):
    """Where usage of the past is read."""

    def read(self, question: UsageQuestion, /) -> KnownUsage:
        """Return what is known; what is missing is a problem, and no error."""
        ...

    def stop(self) -> None:
        """Read no more."""
        ...


class NoUsageHistory:
    """Where there is nothing to read."""

    def read(self, _question: UsageQuestion, /) -> KnownUsage:
        """Return nothing."""
        return KnownUsage({}, "", "give --events to see usage over time")

    def stop(self) -> None:
        """Do nothing."""


class SeenUsageHistory:
    """What the page itself has seen in the last 24 hours."""

    def __init__(self, ring: UsageRing | None = None) -> None:
        self._ring = UsageRing() if ring is None else ring
        self._lock = Lock()

    def take(self, batch: UsageBatch, now: datetime) -> None:
        """Take in usage as it is now, at least once a minute; any part of it."""
        with self._lock:
            self._ring.take(batch, now)

    def read(self, question: UsageQuestion) -> KnownUsage:
        """Return what was seen."""
        problem = _SHORT if question.range is ChartRange.FORTNIGHT else ""
        with self._lock:
            found, left_out = self._ring.read(question), self._ring.left_out
        if left_out:
            problem = f"usage of {left_out} containers is not kept: there are too many"
        return KnownUsage(found, "metrics.k8s.io", problem)

    def stop(self) -> None:
        """Do nothing."""


class RecordedUsageHistory:
    """What a recording holds."""

    def __init__(self, samples: UsageSamples, name: str) -> None:
        self._samples = samples
        self._name = name

    def read(self, question: UsageQuestion) -> KnownUsage:
        """Return what was recorded, up to its end."""
        if len(self._samples.times):
            end = moment(int(self._samples.times.max()))
            last = end + timedelta(seconds=question.range.step_seconds)
            question = replace(question, end=min(question.end, last))
        return KnownUsage(read_samples(self._samples, question), self._name)

    def stop(self) -> None:
        """Do nothing."""


class PrometheusClient(Prometheus, Protocol):
    """A connection to a Prometheus."""

    def close(self) -> None:
        """Close it."""
        ...


@dataclass(slots=True, eq=False)
class _Answer:
    """What a question found, or will find."""

    coming: Future[KnownUsage]
    until: float  # when it is asked again


class PrometheusHistory:
    """What Prometheus knows; `connect` makes a connection, which one thread uses at a time."""

    def __init__(
        self,
        connect: Callable[[], PrometheusClient],
        rules: PastRules,
        clock: Clock,
        patience: Patience = Patience(),  # it never changes
    ) -> None:
        self._connect = connect
        self._rules = rules
        self._clock = clock
        self.patience = patience
        self._waited = 0.0
        self._idle: list[PrometheusClient] = []
        self._is_over = False
        self._answers: OrderedDict[UsageQuestion, _Answer] = OrderedDict()
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(_THREADS, "prometheus")

    def read(self, question: UsageQuestion) -> KnownUsage:
        """Return what Prometheus answers, if that comes soon."""
        question = replace(question, end=_ended(question))
        coming = self._coming(question)
        if coming is None:
            return KnownUsage({}, "Prometheus", _BUSY)
        patience, began = self.patience, self._clock.monotonic()
        try:
            left = max(patience.all_seconds - self._waited, 0.0)
            return coming.result(min(patience.each_seconds, left))
        except TimeoutError:
            return KnownUsage({}, "Prometheus", patience.late)
        finally:
            self._waited += self._clock.monotonic() - began

    def stop(self) -> None:
        """Ask no more; what is just asked ends with its answer."""
        with self._lock:
            self._is_over, idle, self._idle = True, self._idle, []
        for one in idle:
            one.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _coming(self, question: UsageQuestion) -> Future[KnownUsage] | None:
        """Return the answer of now or later, None if too many are waited for."""
        now = self._clock.monotonic()
        with self._lock:
            known = self._answers.get(question)
            if known is not None and (not known.coming.done() or now < known.until):
                self._answers.move_to_end(question)
                return known.coming
            if sum(not one.coming.done() for one in self._answers.values()) >= _WAITING:
                return None
            answer = _Answer(Future(), float("inf"))
            self._answers[question] = answer
            self._answers.move_to_end(question)
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        self._pool.submit(self._ask, question, answer)
        return answer.coming

    def _ask(self, question: UsageQuestion, answer: _Answer) -> None:
        try:
            found = self._answered(question)
        except (ClusterError, BadObject) as error:
            log.warning("usage not read", extra={"error": str(error)})
            found = KnownUsage({}, "Prometheus", str(error))
        except Exception:
            log.exception("reading usage failed unexpectedly")
            found = KnownUsage({}, "Prometheus", "reading usage failed unexpectedly")
        if found.problem:
            answer.until = self._clock.monotonic() + _RETRY_SECONDS
        answer.coming.set_result(found)

    def _answered(self, question: UsageQuestion) -> KnownUsage:
        with self._lock:
            prometheus = self._idle.pop() if self._idle else None
        prometheus = prometheus or self._connect()
        flaws = Flaws()
        found: dict[SeriesKey, UsageSeries] = {}
        try:
            for query in range_queries(question, self._rules):
                body = prometheus.query_range(query.query, query.start, query.end, query.step)
                found |= read_answer(query, body, self._rules, flaws)
        finally:
            self._let_go(prometheus)
        return KnownUsage(found, "Prometheus", "; ".join(flaws.sentences))

    def _let_go(self, prometheus: PrometheusClient) -> None:
        with self._lock:
            if not self._is_over:
                self._idle.append(prometheus)
                return
        prometheus.close()


def prometheus_history(
    flags: UsageFlags, whose: PrometheusAccessFlags, clock: Clock, patience: Patience = Patience()
) -> PrometheusHistory:
    """Return what asks the Prometheus that flags name.

    Raises:
        BadSetting: it cannot be asked so.
    """
    access = connection_of(flags, whose)
    rules = PastRules(
        cadvisor_job=flags.cadvisor_job,
        cpu_metric=flags.cpu_metric,
        memory_metric=flags.memory_metric,
        container_namespace_label=flags.container_namespace_label,
        container_pod_name_label=flags.container_pod_name_label,
        container_name_label=flags.container_name_label,
    )

    def connected() -> PrometheusServer:
        return PrometheusServer(access, _unobserved, largest_answer=_LARGEST_ANSWER)

    connected().close()  # tells at once what is wrong with the address
    return PrometheusHistory(connected, rules, clock, patience)


def _unobserved(_code: str, _method: str, _seconds: float) -> None:
    """Count no request."""


def recorded_history(path: Path) -> tuple[RecordedUsageHistory, Sequence[str]]:
    """Return the usage that a file holds, and what could not be read.

    Raises:
        BadSetting: there is no such file.
    """
    samples, problems = read_recorded(lines(str(path), lambda _share: None), str(path))
    return RecordedUsageHistory(samples, path.name), problems


def _ended(question: UsageQuestion) -> datetime:
    """Return when the last whole step ended, so that equal questions have equal answers."""
    end = question.range.last_step(question.end) + 1
    return datetime.fromtimestamp(end * question.range.step_seconds, UTC)
