"""What VPAs select is known at once, whatever comes first."""

from __future__ import annotations

import pytest

from app.model.selectors import NOTHING, Selector
from app.recommender.upstream.cluster import Selections

WEB, SHOP = {"app": "web"}, {"app": "shop"}
ONE, TWO, ELSEWHERE = ("default", "one"), ("default", "two"), ("other", "one")


@pytest.mark.parametrize("labels_first", [True, False])
def test_selections(labels_first: bool) -> None:
    """VPAs of the namespace that select the labels are found, before and after they change."""
    found = Selections()
    if labels_first:
        assert not found.of("default", WEB, "app=web")
        assert not found.of("default", SHOP, "app=shop")
    found.put(ONE, Selector.of_labels(WEB))
    found.put(TWO, Selector.of_labels({}))
    found.put(ELSEWHERE, Selector.of_labels(WEB))
    assert set(found.of("default", WEB, "app=web")) == {ONE, TWO}
    assert set(found.of("default", SHOP, "app=shop")) == {TWO}
    assert set(found.of("other", WEB, "app=web")) == {ELSEWHERE}

    found.put(ONE, NOTHING)
    assert set(found.of("default", WEB, "app=web")) == {TWO}
    found.drop(TWO)
    assert not found.of("default", WEB, "app=web")
