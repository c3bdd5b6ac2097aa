"""Upstream's way to recommend, weaknesses included: one failure spoils the whole.

Strategy: external metrics are asked for one after the other, also of pods that have ended; a pod
is one item, dated as its last answer. The past is asked for once: each query once and whole, and
one bad series spoils everything. Amounts that cannot be are bent until they can, but for what is
not a number. What fails is not asked again, and the past of VPAs that come later is never read.
A checkpoint is written by its name alone, whichever container it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import Final

import numpy as np

from app.model.errors import NotFound
from app.model.fields import Json, Object, objects_at
from app.model.pods import Pod
from app.ports import CHECKPOINTS, Cluster, Ref
from app.recommender.core.checkpoints import Checkpoint, to_json
from app.recommender.core.histograms import Amounts, Floats
from app.recommender.core.oom import evicted
from app.recommender.core.promql import PastRules, Series, answer, bent, series_of
from app.recommender.core.reading import Reading
from app.recommender.core.rules import PublishRules, RecommenderRules
from app.recommender.core.targets import resolve_target
from app.recommender.core.usage import (
    ExternalQuestion,
    ExternalRules,
    external_questions,
    named_values,
    usage_item,
)
from app.recommender.upstream.aggregate_model import UpstreamModel
from app.recommender.usage_feed import ExternalUsage, UsageRequest, asked
from app.recommender.variants import Variant


def pod_items(
    answers: Sequence[tuple[ExternalQuestion, Object]], rules: ExternalRules
) -> list[Json]:
    """Return one item for each pod, at the time of the first value of its last answer."""
    found: dict[tuple[str, str], Json] = {}
    for question, body in answers:
        containers = found.get((question.namespace, question.pod), {}).get("containers", [])
        usage = {one["name"]: one["usage"] for one in containers}
        for name, value in named_values(body, rules):
            usage.setdefault(name, {})[question.resource] = value.get("value")
        values = objects_at(body, "items", "")
        if values:
            by_name = [{"name": name, "usage": used} for name, used in usage.items()]
            found[question.namespace, question.pod] = usage_item(question, by_name, values[0])
    return list(found.values())


class ExternalUsageWhole(ExternalUsage):
    """Usage of the pods of VPAs, all of it or none."""

    def _pages(self, request: UsageRequest) -> Iterator[Sequence[Object]]:
        """Yield items as `metrics.k8s.io` lists them.

        Raises:
            ClusterError: a question was not answered.
        """

        def pods_of(namespace: str) -> Collection[Pod]:
            return request.snapshot.of(namespace).pods.values()

        questions = external_questions(request.vpas, pods_of, self._rules, request.skipped)
        answers = [(one, asked(self._cluster, one)) for one in questions]
        yield pod_items(answers, self._rules)


class ReadingOnce(Reading):
    """The past of all containers, or of those in one namespace, up to a moment."""

    is_repeated = False
    live_age = timedelta(0)

    def __init__(self, rules: PastRules, end: datetime, namespace: str = "") -> None:
        super().__init__(rules, end, namespace)
        self._piece = self._most = self._columns

    def was_refused(self, *, is_too_much: bool) -> bool:
        """Know no other way."""
        del is_too_much
        return False

    def _points(self, count: int) -> int:
        del count
        return self._columns

    def _labels_query(self) -> str:
        return self._rules.pod_labels_metric

    def _series(self, body: Object) -> Iterator[Series]:
        kind, items = answer(body, ("matrix",), self.flaws)
        return (series_of(item, kind, index) for index, item in enumerate(items))

    def _amounts(self, values: Floats, scale: float) -> Amounts:
        return bent(values, scale, ~np.isnan(values))

    @contextmanager
    def _doubt(self) -> Iterator[None]:
        yield


_EVERY_TICK = PublishRules(
    bound_tolerance=0.0,
    refresh=timedelta(0),
    checkpoint_change=0.0,
    checkpoint_pause=timedelta(0),
    checkpoint_age=timedelta(0),
    open_windows=0,
)


def as_upstream(rules: RecommenderRules) -> RecommenderRules:
    """Return rules without anything of ours: statuses and checkpoints at every tick."""
    return replace(
        rules,
        estimator=replace(rules.estimator, omit_unsampled=False, stale_after=None),
        publish=_EVERY_TICK,
    )


def put_status(cluster: Cluster, one: Checkpoint) -> None:
    """Replace the status of a checkpoint, or create it.

    Raises:
        ClusterError: it was not written.
    """
    item = to_json(one)
    body = [{"op": "replace", "path": "/status", "value": item["status"]}]
    try:
        cluster.patch(Ref(CHECKPOINTS, one.namespace, one.name), body)
    except NotFound:
        cluster.create(Ref(CHECKPOINTS, one.namespace), item)


UPSTREAM: Final = Variant(
    make_model=UpstreamModel,
    adjust_rules=as_upstream,
    most_usage=inf,
    external_usage=ExternalUsageWhole,
    past_reading=ReadingOnce,
    evicted=partial(evicted, share_resource=False),
    put_checkpoint=put_status,
    checkpoints_by_name=True,
    budgets_checkpoints=False,
    flushes_checkpoints=False,
    resolve=partial(resolve_target, by_kind=True),
    lookup_seconds=60.0,  # checkpoints are read once, for VPAs whose target is known by then
    begins_at_once=False,
    samples_meanwhile=False,
)
