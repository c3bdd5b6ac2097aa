"""Which model the rules ask for."""

from __future__ import annotations

import pytest

from app.core.recommendation.model import Model
from app.core.recommendation.models import model_for
from app.core.recommendation.rules import RecommenderRules, as_upstream
from app.core.recommendation.upstream.model import UpstreamModel


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(RecommenderRules(), Model, id="ours"),
        pytest.param(as_upstream(RecommenderRules()), UpstreamModel, id="upstream's"),
    ],
)
def test_model_for(rules: RecommenderRules, expected: type) -> None:
    """Rows per VPA are ours, label sets are upstream's."""
    assert isinstance(model_for(rules), expected)
