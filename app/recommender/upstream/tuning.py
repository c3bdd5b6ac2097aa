"""What flags ask for, as far as upstream heeds it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.recommender.core.rules import Extras, PublishRules, RecommenderRules

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
        publish=replace(_EVERY_TICK, least_vpas=rules.publish.least_vpas),
        extras=Extras(),
    )
