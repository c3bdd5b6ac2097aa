"""Usage of now: the port of a source, its implementations, and what feeds the model with it.

Strategy: another source is a class with `read`, which yields columns; if what it reads looks like
`metrics.k8s.io`, `read_pages` makes columns of items. What was read counts even if the rest
cannot be. External metrics are a question for each pod and resource, several side by side, none
begun after its deadline; what is not answered is reported in one sentence. The past comes when it
is known, for each VPA once and as soon as its target is known; nothing waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from urllib.parse import quote

from app.model.errors import BadObject, ClusterError, PlumblineError, Unavailable
from app.model.fields import Object
from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.ports import POD_METRICS, Clock, Cluster, Json
from app.recommender.core.model import RecommenderModel
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import ObservedVpa, VpaKey
from app.recommender.core.usage import (
    ExternalQuestion,
    ExternalRules,
    UsageBatch,
    external_items,
    external_questions,
    read_metrics,
    unfinished,
)
from app.recommender.metrics import RecommenderMetrics
from app.recommender.paging import leavable, listed
from app.recommender.past_reader import PastReader

_ROOT: Final = "/apis/external.metrics.k8s.io/v1beta1/namespaces"

log = logging.getLogger("recommender.usage")

_MOST_TOLD: Final = 5  # sentences about one list


@dataclass(frozen=True, slots=True)
class UsageRequest:
    """What usage is read for, and what it may be read with."""

    vpas: Iterable[ObservedVpa]
    snapshot: Snapshot
    may_continue: Callable[[], bool]
    skipped: SkippedObjects


class UsageSource(Protocol):
    """Where usage is read."""

    def read(self, request: UsageRequest) -> Iterator[UsageBatch]:
        """Yield usage, at least that of the pods of the VPAs, page by page.

        Raises:
            ClusterError: not everything could be read; what could has been yielded.
        """
        ...


def read_pages(
    pages: Iterator[Sequence[Object]], most: float, request: UsageRequest
) -> Iterator[UsageBatch]:
    """Yield the usage of pages of items; a page that does not come is given up with leadership.

    Raises:
        ClusterError: not everything could be read; what could has been yielded.
    """
    for page in leavable("usage", pages, request.may_continue):
        yield read_metrics({"items": page}, most, skipped=request.skipped)


class PodMetricsUsage:
    """Usage of all pods, from `metrics.k8s.io`."""

    def __init__(self, cluster: Cluster, namespace: str, most: float) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._most = most  # greater amounts cannot be

    def read(self, request: UsageRequest) -> Iterator[UsageBatch]:
        """Yield the usage of each page."""
        pages = listed(self._cluster, POD_METRICS, self._namespace, request.may_continue)
        return read_pages(pages, self._most, request)


class ExternalUsage:
    """Usage of the pods of VPAs."""

    def __init__(
        self,
        cluster: Cluster,
        rules: ExternalRules,
        most: float,
        clock: Clock,
        threads: int,
        seconds: float,
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self._most = most  # greater amounts cannot be
        self._clock = clock
        self._threads = threads
        self._seconds = seconds

    def read(self, request: UsageRequest) -> Iterator[UsageBatch]:
        """Yield the usage of all pods as one page."""
        return read_pages(self._pages(request), self._most, request)

    def _pages(self, request: UsageRequest) -> Iterator[Sequence[Object]]:
        """Yield items as `metrics.k8s.io` lists them.

        Raises:
            Unavailable: not everything could be read; what could has been yielded.
        """

        def pods_of(namespace: str) -> Collection[Pod]:
            return unfinished(request.snapshot.of(namespace).pods.values())

        questions = external_questions(request.vpas, pods_of, self._rules, request.skipped)
        items: list[Object] = []
        errors: list[PlumblineError] = []
        for found in self._found(questions, request):
            if isinstance(found, PlumblineError):
                errors.append(found)
            else:
                items += found
        yield items
        if errors:
            count = f"{len(errors)} of {len(questions)} external metrics were not read"
            raise Unavailable(f"{count}: {errors[0]}")

    def _found(
        self, questions: Sequence[ExternalQuestion], request: UsageRequest
    ) -> Iterator[Sequence[Object] | PlumblineError]:
        """Yield what each answer tells, or why there is none."""
        until = self._clock.monotonic() + self._seconds

        def ask(question: ExternalQuestion) -> Sequence[Object] | PlumblineError:
            if self._clock.monotonic() >= until or not request.may_continue():
                return Unavailable(f"{path_of(question)}: the time for it was over")
            with request.skipped.guard("external metric", question, name=path_of):
                try:
                    return external_items(question, asked(self._cluster, question), self._rules)
                except ClusterError as error:
                    return error
                except BadObject as error:
                    return Unavailable(f"{path_of(question)}: {error}")
            return Unavailable(f"{path_of(question)}: it failed unexpectedly")

        with ThreadPoolExecutor(self._threads, "usage") as pool:
            yield from pool.map(ask, questions)


def asked(cluster: Cluster, question: ExternalQuestion) -> Json:
    """Return the answer to a question.

    Raises:
        ClusterError: there is none.
    """
    return cluster.request("GET", path_of(question), {"labelSelector": question.selector})


def path_of(question: ExternalQuestion) -> str:
    """Return where a question is asked."""
    return f"{_ROOT}/{quote(question.namespace, safe='')}/{quote(question.metric, safe='')}"


class UsageFeed:
    """What feeds one model."""

    def __init__(
        self,
        model: RecommenderModel,
        vpas: Mapping[VpaKey, ObservedVpa],  # those that the model knows
        source: UsageSource,
        metrics: RecommenderMetrics,
        past: PastReader | None,
    ) -> None:
        self._model = model
        self._vpas = vpas
        self._source = source
        self._metrics = metrics
        self._past = past
        self._wanting_past: set[VpaKey] = set()  # whose past is not known yet

    def want_past_of(self, vpas: Iterable[VpaKey]) -> None:
        """Note VPAs whose past shall be read, once their targets are known."""
        self._wanting_past.update(vpas)

    def learn_past(self, now: datetime) -> None:
        """Ask for the past of VPAs, and learn what was found."""
        known = self._vpas
        self._wanting_past &= known.keys()
        if self._past is None:
            return
        ready = {key for key in self._wanting_past if known[key].selector is not None}
        self._past.ask(ready, now)
        for found in self._past.taken():
            only = None if found.only is None else ready & found.only
            self._wanting_past -= ready if only is None else only
            with self._model.skipped.guard("past", "of all pods"):
                self._model.learn_past(found.usage, now, only=only)

    def read(self, snapshot: Snapshot, may_continue: Callable[[], bool], now: datetime) -> int:
        """Give usage to the model, page by page; return how many containers were read."""
        request = UsageRequest(self._vpas.values(), snapshot, may_continue, self._model.skipped)
        count, problems, error = 0, list[str](), ""
        try:
            for batch in self._source.read(request):
                self._model.usage(batch, now)
                count += len(batch)
                problems += batch.problems
        except (ClusterError, BadObject) as caught:
            error = str(caught)
            log.warning("usage not read", extra={"error": error, "samples": count})
        self._metrics.usage_answer("default-metrics-client", is_error=bool(error))
        for problem in problems[:_MOST_TOLD]:
            extra = {"problem": problem, "problems": len(problems)}
            log.warning("usage cannot be counted", extra=extra)
        return count
