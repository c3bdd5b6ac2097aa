"""Both models have one face."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from app.recommender.core.model import Model, RecommenderModel
from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.model import UpstreamModel


@pytest.mark.parametrize("kind", [Model, UpstreamModel])
def test_nothing_comes_of_nothing(kind: Callable[[RecommenderRules], RecommenderModel]) -> None:
    """A model that was told nothing has nothing to say."""
    model, now = kind(RecommenderRules()), datetime(2026, 1, 5, tzinfo=UTC)
    assert (model.awaited(), model.tick(now), model.urgent(now)) == ([], [], [])
    assert (model.checkpoints(now, None), model.abandoned(), model.row_count) == ([], [], 0)
