"""How much work a review is, is told by what is in it and not by its bytes alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.core.effort import effort
from app.model.fields import Json
from app.model.review import read_review
from tests import make
from tests.cases import cases
from tests.junk import ANYTHING, objects_like


def pod_of(count: int) -> Json:
    """Return a pod of so many containers."""
    return make.pod_json(*(make.container_json(f"c{i}") for i in range(count)))


def vpa_of(count: int) -> Json:
    """Return a VPA of so many policies."""
    return make.vpa_json(policies=[make.policy_json(f"c{i}") for i in range(count)])


OWNED = {"ownerReferences": [make.owner_json(f"Job/{i}") for i in range(320)]}


@cases(
    "review size_bytes least most",
    {
        "a usual pod": (make.review_json(pod_of(2)), 4_000, 2, 2),
        "long": (make.review_json(pod_of(2)), 40_960, 12, 12),
        "containers": (make.review_json(pod_of(500)), 0, 500, 500),
        "init containers": (
            make.review_json(make.pod_json(init=[make.container_json()] * 99)),
            0,
            100,
            100,
        ),
        "owners": (make.review_json(make.pod_json(metadata=OWNED)), 0, 21, 21),
        "a usual VPA": (make.review_json(vpa_of(2)), 4_000, 1, 10),
        "policies": (make.review_json(vpa_of(1_000)), 0, 500, 2_500),
        "policies before": (make.review_json(vpa_of(0), old=vpa_of(1_000)), 0, 500, 2_500),
        "more than is counted": (make.review_json(vpa_of(20_000)), 0, 2_500, 2_500),
        "nothing": ({"request": {}}, 0, 0, 0),
    },
)
def test_effort(review: object, size_bytes: int, least: int, most: int) -> None:
    """Containers, owners and what VPAs say are counted, and bytes a little."""
    assert least <= effort(read_review(review), size_bytes) <= most


@given(ANYTHING, st.sampled_from([make.review_json(pod_of(2)), make.review_json(vpa_of(2))]))
def test_anything_has_an_effort(item: object, review: Json) -> None:
    """No object has been checked yet when it is asked for."""
    assert effort(read_review(review)._replace(new=item, old=item), 0) >= 0


@pytest.mark.parametrize("item", [pod_of(2), vpa_of(2)])
def test_what_is_like_a_review_has_an_effort(item: Json) -> None:
    """Whatever is wrong in a review, its effort can be told."""

    @given(objects_like(item))
    def check(changed: Json) -> None:
        request = read_review(make.review_json(item))
        assert effort(request._replace(new=changed), 0) >= 0

    check()
