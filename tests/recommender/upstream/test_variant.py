"""What is ours is turned back, what flags set is kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.recommender.core.rules import EstimatorRules, PublishRules, RecommenderRules
from app.recommender.upstream.variant import as_upstream


def test_flags_and_gates_are_kept() -> None:
    """Neither flags nor gates change, and every tick is written."""
    publish, estimator = PublishRules(), EstimatorRules(margin_fraction=0.5)
    rules = RecommenderRules(
        name="perf",
        estimator=estimator,
        per_vpa_config=True,
        memory_saver=True,
    )

    found = as_upstream(rules)

    assert (found.name, found.per_vpa_config, found.memory_saver) == ("perf", True, True)
    assert (found.publish.refresh, found.publish.checkpoint_age) == (timedelta(0), timedelta(0))
    assert found.estimator == replace(estimator, omit_unsampled=False, stale_after=None)
    assert replace(found, estimator=estimator, publish=publish) == rules
