"""Reads usage from external metrics, a question for each pod and resource.

Strategy: several questions side by side, none begun after its deadline. Whatever is answered
counts; what is not is told of in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import quote

from app.model.errors import BadObject, ClusterError, PlumblineError, Unavailable
from app.model.fields import Object
from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.ports import Clock, Cluster, Json
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import (
    ExternalQuestion,
    ExternalRules,
    external_items,
    external_questions,
    unfinished,
)

_ROOT: Final = "/apis/external.metrics.k8s.io/v1beta1/namespaces"


class ExternalUsage:
    """Usage of the pods of VPAs."""

    def __init__(
        self, cluster: Cluster, rules: ExternalRules, clock: Clock, *, threads: int, seconds: float
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self._clock = clock
        self._threads = threads
        self._seconds = seconds

    def pages(
        self,
        vpas: Iterable[ObservedVpa],
        snapshot: Snapshot,
        may_ask: Callable[[], bool],
        skipped: SkippedObjects,
    ) -> Iterator[Sequence[Object]]:
        """Yield items as `metrics.k8s.io` lists them.

        Raises:
            Unavailable: not everything could be read; what could has been yielded.
        """

        def pods_of(namespace: str) -> Collection[Pod]:
            return unfinished(snapshot.of(namespace).pods.values())

        questions = external_questions(vpas, pods_of, self._rules, skipped)
        items: list[Object] = []
        errors: list[PlumblineError] = []
        for found in self._found(questions, may_ask, skipped):
            if isinstance(found, PlumblineError):
                errors.append(found)
            else:
                items += found
        yield items
        if errors:
            count = f"{len(errors)} of {len(questions)} external metrics were not read"
            raise Unavailable(f"{count}: {errors[0]}")

    def _found(
        self,
        questions: Sequence[ExternalQuestion],
        may_ask: Callable[[], bool],
        skipped: SkippedObjects,
    ) -> Iterator[Sequence[Object] | PlumblineError]:
        """Yield what each answer tells, or why there is none."""
        until = self._clock.monotonic() + self._seconds

        def ask(question: ExternalQuestion) -> Sequence[Object] | PlumblineError:
            if self._clock.monotonic() >= until or not may_ask():
                return Unavailable(f"{path_of(question)}: the time for it was over")
            try:
                return external_items(question, asked(self._cluster, question), self._rules)
            except ClusterError as error:
                return error
            except BadObject as error:
                return Unavailable(f"{path_of(question)}: {error}")

        def attempt(question: ExternalQuestion) -> Sequence[Object] | PlumblineError:
            with skipped.guard("external metric", question, name=path_of):
                return ask(question)
            return Unavailable(f"{path_of(question)}: it failed unexpectedly")

        with ThreadPoolExecutor(self._threads, "usage") as pool:
            yield from pool.map(attempt, questions)


def asked(cluster: Cluster, question: ExternalQuestion) -> Json:
    """Return the answer to a question.

    Raises:
        ClusterError: there is none.
    """
    return cluster.request("GET", path_of(question), {"labelSelector": question.selector})


def path_of(question: ExternalQuestion) -> str:
    """Return where a question is asked."""
    return f"{_ROOT}/{quote(question.namespace, safe='')}/{quote(question.metric, safe='')}"
