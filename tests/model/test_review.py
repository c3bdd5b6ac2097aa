"""Reviews are read for what is needed, and nothing else can spoil them."""

from __future__ import annotations

import pytest
from hypothesis import given

from app.model.errors import BadObject
from app.model.review import GroupVersionWord, read_review, uid_of
from tests import make
from tests.cases import cases
from tests.junk import ANYTHING

FULL = make.review_json(
    old=make.pod_json(name="old"), operation="UPDATE", subresource="resize", dry_run=True
)


def test_a_full_review() -> None:
    """Everything that is looked at is read; the objects stay as they came."""
    request = read_review(FULL)
    assert request.uid == "review-1"
    assert request.kind == GroupVersionWord("", "v1", "Pod")
    assert request.resource == GroupVersionWord("", "v1", "pods")
    assert (request.operation, request.subresource, request.dry_run) == ("UPDATE", "resize", True)
    assert (request.namespace, request.name) == ("default", "web-0")
    assert request.new is FULL["request"]["object"]
    assert request.old is FULL["request"]["oldObject"]


def test_the_kind_that_was_asked_for_counts() -> None:
    """What the user asked for outranks what the API server made of it."""
    asked = {"group": "autoscaling.k8s.io", "version": "v1beta2", "kind": "VerticalPodAutoscaler"}
    request = make.review(make.vpa_json(), requestKind=asked)
    assert request.kind == GroupVersionWord(*asked.values())
    assert make.review(make.vpa_json(), requestKind=None).kind.version == "v1"


def test_the_smallest_review() -> None:
    """A request with nothing in it is a request about nothing."""
    request = read_review({"request": {}})
    assert (request.uid, request.operation, request.new, request.old) == ("", "", None, None)
    assert request.kind == request.resource == GroupVersionWord("", "", "")
    assert not request.dry_run


@cases(
    "namespace item expected",
    {
        "the request's": ("a", make.pod_json(namespace="b"), "a"),
        "the object's": (None, make.pod_json(namespace="b"), "b"),
        "none": ("", make.pod_json(namespace=None), ""),
        "a number": (None, {"metadata": {"namespace": 7}}, ""),
        "no metadata": (None, {"metadata": []}, ""),
        "no object": (None, "x", ""),
    },
)
def test_namespaces(namespace: str | None, item: object, expected: str) -> None:
    """The request says where it happens; a review by hand may leave that to its object."""
    assert read_review({"request": {"namespace": namespace, "object": item}}).namespace == expected


@cases(
    "name item expected",
    {
        "the request's": ("a", make.vpa_json("b"), "a"),
        "the object's": (None, make.vpa_json("b"), "b"),
        "none yet": ("", {"metadata": {"generateName": "b-"}}, ""),
    },
)
def test_names(name: str | None, item: object, expected: str) -> None:
    """The object's own name is the answer's where a review by hand does not say it again."""
    assert read_review({"request": {"name": name, "object": item}}).name == expected


@pytest.mark.parametrize(
    ("review", "sentence"),
    [
        (None, "the body is no AdmissionReview object"),
        ([], "the body is no AdmissionReview object"),
        ("{}", "the body is no AdmissionReview object"),
        ({}, "request: is missing"),
        ({"request": None}, "request: is missing"),
        ({"request": []}, "request: expected an object, found a list"),
        ({"request": {"uid": 7}}, "request.uid: expected a string, found the number 7"),
    ],
)
def test_what_is_no_review(review: object, sentence: str) -> None:
    """A body that cannot be answered is told why."""
    with pytest.raises(BadObject) as caught:
        read_review(review)
    assert str(caught.value) == sentence


@cases(
    "review uid",
    {
        "a review": ({"request": {"uid": "u", "kind": []}}, "u"),
        "no text": ({"request": {"uid": 7}}, ""),
        "no uid": ({"request": {}}, ""),
        "no request": ({"request": 7}, ""),
        "a list": ([], ""),
    },
)
def test_uid_of_what_is_no_review(review: object, uid: str) -> None:
    """An answer can be given under a uid, whatever else is wrong."""
    assert uid_of(review) == uid


@given(ANYTHING)
def test_objects_are_not_looked_into(value: object) -> None:
    """Whatever stands in the objects and beside what is needed does no harm."""
    request = read_review({"request": {"object": value}})
    assert request.new is value
    assert read_review(make.with_value(FULL, "request.userInfo", value)).uid == "review-1"
