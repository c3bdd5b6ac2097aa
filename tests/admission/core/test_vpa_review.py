"""The two versions of a VPA that a review carries."""

from __future__ import annotations

from typing import Any

import pytest

from app.admission.core.field_errors import ErrorKind, FieldError, invalid
from app.admission.core.vpa_review import is_exempt, read_vpa_review
from app.model.review import AdmissionRequest
from tests import make

TERMINATING = {"deletionTimestamp": "2026-01-05T10:00:00Z", "finalizers": ["a/b"]}


def update(new: object, old: object, operation: str = "UPDATE") -> AdmissionRequest:
    """Return a review that carries two versions."""
    return make.review(make.vpa_json(), operation=operation)._replace(new=new, old=old)


def deep(levels: int) -> dict[str, Any]:
    """Return an object nested so many levels."""
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(make.review(make.vpa_json()), False, id="creation"),
        pytest.param(update(make.vpa_json(), make.vpa_json()), False, id="update"),
        pytest.param(
            make.review(None, old=make.vpa_json(), operation="DELETE"), True, id="deletion"
        ),
        pytest.param(make.review(make.vpa_json(), operation="CONNECT"), True, id="connection"),
        pytest.param(make.review(make.vpa_json(), subresource="status"), True, id="status"),
        pytest.param(make.review(make.vpa_json(), subresource="scale"), True, id="scale"),
        pytest.param(
            update({"metadata": {}, "spec": 5}, {"metadata": TERMINATING, "spec": 5}),
            False,
            id="metadata of an object that stays",
        ),
        pytest.param(
            update({"metadata": TERMINATING, "spec": 5}, {"metadata": {}, "spec": 5}),
            True,
            id="metadata of an object on its way out",
        ),
        pytest.param(
            update({"metadata": TERMINATING, "spec": 5}, {"metadata": TERMINATING, "spec": 6}),
            False,
            id="spec of an object on its way out",
        ),
        pytest.param(
            update({"metadata": TERMINATING}, None), False, id="on its way out, old one missing"
        ),
        pytest.param(
            update({"metadata": TERMINATING}, {"metadata": {}}, "CREATE"),
            False,
            id="created on its way out",
        ),
        pytest.param(update({"metadata": 5}, {"metadata": 5}), False, id="odd metadata"),
        pytest.param(update([], []), False, id="no objects at all"),
        pytest.param(
            update({"metadata": TERMINATING, "x": deep(9999)}, {"metadata": {}, "x": deep(9999)}),
            False,
            id="too deep to compare",
        ),
    ],
)
def test_is_exempt(request_: AdmissionRequest, expected: bool) -> None:
    """Only what writes no spec, or none that matters, is left alone."""
    assert is_exempt(request_) is expected


NO_OBJECT = "the review carries no object"


@pytest.mark.parametrize(
    ("new", "message"),
    [
        pytest.param(None, NO_OBJECT, id="no object"),
        pytest.param([], "expected an object, found a list", id="a list"),
        pytest.param("x", 'expected an object, found the string "x"', id="a string"),
        pytest.param(
            {"spec": []}, "spec: expected an object, found a list", id="a spec that is a list"
        ),
        pytest.param(
            make.vpa_json(policies=[make.policy_json(oomBumpUpRatio="not-a-number")]),
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="a quantity of an API server's words",
        ),
        pytest.param(
            make.vpa_json(status={"conditions": {}}),
            "status.conditions: expected a list, found an object",
            id="garbage in status",
        ),
    ],
)
def test_unreadable(new: object, message: str) -> None:
    """What cannot be read is a error of the object as a whole."""
    written = read_vpa_review(update(new, None, "CREATE"))
    assert written.unreadable == (FieldError(".", ErrorKind.INTERNAL, None, message),)
    assert written.new is None


def test_unreadable_old() -> None:
    """A stored object that cannot be read is told apart."""
    written = read_vpa_review(update(make.vpa_json(), {"spec": []}))
    assert [error.detail for error in written.unreadable] == [
        "oldObject: spec: expected an object, found a list"
    ]
    assert written.new is not None
    assert written.old is None


def test_both_unreadable() -> None:
    """Both versions are told about."""
    assert len(read_vpa_review(update(None, 5)).unreadable) == 2


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(make.vpa_json(), make.vpa_json(metadata={"labels": {}}), True, id="labels"),
        pytest.param(make.vpa_json(), make.vpa_json(mode="Off"), False, id="spec"),
        pytest.param(make.vpa_json(), make.vpa_json(status={}), False, id="status"),
        pytest.param({"spec": 5}, {"spec": 5, "metadata": {}}, True, id="broken before"),
        pytest.param(
            {"metadata": 5, "spec": {}}, {"metadata": {}, "spec": {}}, False, id="broken now"
        ),
        pytest.param(make.vpa_json(), None, False, id="no stored object"),
    ],
)
def test_is_tolerable(new: object, old: object, expected: bool) -> None:
    """Only metadata may change, and what cannot be read must have been so before."""
    assert read_vpa_review(update(new, old)).is_tolerable is expected


def test_names_of_the_request() -> None:
    """What an object does not say about itself, the request does."""
    bare = make.review(make.vpa_json("hamster", namespace="zoo"))._replace(new={"spec": {}})
    full = make.review(make.vpa_json("hamster"))._replace(name="", namespace="")
    assert _names(bare) == ("zoo", "hamster")
    assert _names(full) == ("default", "hamster")


def _names(request: AdmissionRequest) -> tuple[str, str]:
    new = read_vpa_review(request).new
    assert new is not None
    return new.vpa.namespace, new.vpa.name


def test_selector_errors() -> None:
    """A selector with flaws is set aside, and the rest is read."""
    selector = {
        "matchLabels": {"role": "not a value"},
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "b", "operator": "Exists", "values": ["x"]},
            {"key": "c", "operator": "Like"},
        ],
    }
    written = read_vpa_review(make.review(make.vpa_json(mode="Off", selector=selector)))
    assert written.new is not None
    assert written.new.vpa.selector is None
    assert written.new.vpa.is_off
    assert [(flaw.path, flaw.kind) for flaw in written.new.selector_errors] == [
        ("spec.selector.matchLabels[role]", ErrorKind.INVALID),
        ("spec.selector.matchExpressions[0].values", ErrorKind.REQUIRED),
        ("spec.selector.matchExpressions[1].values", ErrorKind.FORBIDDEN),
        ("spec.selector.matchExpressions[2].operator", ErrorKind.INVALID),
    ]
    assert written.new.selector_errors[1].body == "Required value: In needs at least one"


def test_selector_of_wrong_shape() -> None:
    """A selector that is none at all has a field of its own to blame."""
    review = make.review(make.vpa_json(spec={"selector": 5}))
    written = read_vpa_review(review)
    assert written.new is not None
    assert written.new.selector_errors == (
        FieldError(
            "spec.selector", ErrorKind.INVALID, None, "expected an object, found the number 5"
        ),
    )
    assert invalid("a", None, "b").body == "Invalid value: b"
