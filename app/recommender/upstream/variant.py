"""Upstream's way to recommend, weaknesses included.

A checkpoint is written by its name alone, whichever container it belongs to, as upstream does.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import inf
from typing import Final

from app.model.errors import NotFound
from app.ports import CHECKPOINTS, Cluster, Ref
from app.recommender.core.checkpoints import Checkpoint, to_json
from app.recommender.core.oom import evicted
from app.recommender.core.rules import PublishRules, RecommenderRules
from app.recommender.core.targets import resolve_target
from app.recommender.upstream.aggregate_model import UpstreamModel
from app.recommender.upstream.sources import ExternalUsageWhole, ReadingOnce
from app.recommender.variants import Variant

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
