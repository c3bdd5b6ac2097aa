"""Why a status is published."""

from __future__ import annotations

import pytest

from app.model.selectors import EVERYTHING, Selector
from app.model.vpa import ContainerRecommendation
from app.recommender.core.status import Difference, VpaStatus, Why, problem_of, publication
from app.recommender.core.targets import ObservedVpa
from tests import make

ENTRY = ContainerRecommendation("app", {}, {}, {}, {})
WITH, WITHOUT = VpaStatus((ENTRY,), (), 1), VpaStatus(None, (), 1)


@pytest.mark.parametrize(
    ("new", "stands", "found", "killed", "expected"),
    [
        pytest.param(WITH, WITHOUT, Difference.TARGET, True, Why.FIRST, id="the first one"),
        pytest.param(WITH, WITH, Difference.TARGET, True, Why.KILL, id="after a kill"),
        pytest.param(WITH, WITH, Difference.TARGET, False, Why.TARGET, id="a target"),
        pytest.param(WITH, WITH, Difference.BOUNDS, False, Why.BOUNDS, id="a bound"),
        pytest.param(WITH, WITH, Difference.SLIGHT, False, Why.REFRESH, id="its turn"),
        pytest.param(WITHOUT, WITH, Difference.CONDITIONS, False, Why.CONDITIONS, id="conditions"),
        pytest.param(WITH, WITH, Difference.GENERATION, False, Why.GENERATION, id="an edit"),
    ],
)
def test_why(
    new: VpaStatus, stands: VpaStatus, found: Difference, killed: bool, expected: Why
) -> None:
    """A publication says what made it worth a write."""
    observed = ObservedVpa(make.vpa(), EVERYTHING)

    published = publication(observed, new, stands, found, killed=killed)

    assert (published.why, published.namespace, published.name) == (expected, "default", "web")


@pytest.mark.parametrize(
    ("selector", "problem", "expected"),
    [
        pytest.param(EVERYTHING, "", "", id="found"),
        pytest.param(EVERYTHING, "ignored", "", id="found, whatever is said"),
        pytest.param(None, "is gone", "is gone", id="not found"),
        pytest.param(None, "", "Cannot read targetRef", id="not found, and nobody knows why"),
    ],
)
def test_problem(selector: Selector | None, problem: str, expected: str) -> None:
    """A target that is not found is a problem with words."""
    assert problem_of(ObservedVpa(make.vpa(), selector, problem)) == expected
