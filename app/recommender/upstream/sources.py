"""Reads usage from external metrics as upstream does: one question that fails spoils the round.

Strategy: questions are asked one after the other, also of pods that have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from app.model.fields import Object
from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.ports import Clock, Cluster
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import ExternalRules, external_questions
from app.recommender.external_usage import asked
from app.recommender.upstream.pod_items import pod_items


class ExternalUsageWhole:
    """Usage of the pods of VPAs, all of it or none."""

    def __init__(
        self, cluster: Cluster, rules: ExternalRules, clock: Clock, *, threads: int, seconds: float
    ) -> None:
        del clock, threads, seconds
        self._cluster = cluster
        self._rules = rules

    def pages(
        self,
        vpas: Iterable[ObservedVpa],
        snapshot: Snapshot,
        may_ask: Callable[[], bool],
        skipped: SkippedObjects,
    ) -> Iterator[Sequence[Object]]:
        """Yield items as `metrics.k8s.io` lists them.

        Raises:
            ClusterError: a question was not answered.
        """
        del may_ask

        def pods_of(namespace: str) -> Collection[Pod]:
            return snapshot.of(namespace).pods.values()

        questions = external_questions(vpas, pods_of, self._rules, skipped)
        answers = [(one, asked(self._cluster, one)) for one in questions]
        yield pod_items(answers, self._rules)
