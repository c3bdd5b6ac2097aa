"""The two versions of a VPA that a review carries."""

from __future__ import annotations

from typing import Any

from app.admission.core.field_errors import ErrorKind, FieldError, invalid
from app.admission.core.vpa_review import is_exempt, read_vpa_review
from app.model.review import AdmissionRequest
from tests import make
from tests.cases import cases

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


@cases(
    "request_ expected",
    {
        "creation": (make.review(make.vpa_json()), False),
        "update": (update(make.vpa_json(), make.vpa_json()), False),
        "deletion": (make.review(None, old=make.vpa_json(), operation="DELETE"), True),
        "connection": (make.review(make.vpa_json(), operation="CONNECT"), True),
        "status": (make.review(make.vpa_json(), subresource="status"), True),
        "scale": (make.review(make.vpa_json(), subresource="scale"), True),
        "metadata of an object that stays": (
            update({"metadata": {}, "spec": 5}, {"metadata": TERMINATING, "spec": 5}),
            False,
        ),
        "metadata of an object on its way out": (
            update({"metadata": TERMINATING, "spec": 5}, {"metadata": {}, "spec": 5}),
            True,
        ),
        "spec of an object on its way out": (
            update({"metadata": TERMINATING, "spec": 5}, {"metadata": TERMINATING, "spec": 6}),
            False,
        ),
        "on its way out, old one missing": (update({"metadata": TERMINATING}, None), False),
        "created that way": (update({"metadata": TERMINATING}, {"metadata": {}}, "CREATE"), False),
        "odd metadata": (update({"metadata": 5}, {"metadata": 5}), False),
        "no objects at all": (update([], []), False),
        "too deep to compare": (
            update({"metadata": TERMINATING, "x": deep(9999)}, {"metadata": {}, "x": deep(9999)}),
            False,
        ),
    },
)
def test_is_exempt(request_: AdmissionRequest, expected: bool) -> None:
    """Only what writes no spec, or none that matters, is left alone."""
    assert is_exempt(request_) is expected


NO_OBJECT = "the review carries no object"
NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@cases(
    "new message path",
    {
        "no object": (None, NO_OBJECT, "."),
        "a list": ([], "expected an object, found a list", "."),
        "a string": ("x", 'expected an object, found the string "x"', "."),
        "a quantity, in an API server's words": (
            make.vpa_json(policies=[make.policy_json(oomBumpUpRatio="not-a-number")]),
            NO_QUANTITY,
            "spec.resourcePolicy.containerPolicies[0].oomBumpUpRatio",
        ),
    },
)
def test_unreadable(new: object, message: str, path: str) -> None:
    """What is no VPA at all is an error of the whole, as is the quantity that suites compare."""
    written = read_vpa_review(update(new, None, "CREATE"))
    assert written.unreadable == (FieldError(path, ErrorKind.INTERNAL, None, message),)
    assert written.new is None
    assert str(written.unreadable[0]) == f".: Internal error: {message}"


@cases(
    "new told",
    {
        "a spec that is a list": (
            {"spec": []},
            "spec: Invalid value: expected an object, found a list",
        ),
        "half a factor": (
            make.vpa_json(boost={"cpu": {"type": "Factor", "factor": 1.5}}),
            "spec.startupBoost.cpu.factor: Invalid value: "
            "expected a whole number, found the number 1.5",
        ),
        "a quantity": (
            make.vpa_json(boost=make.boost_json(quantity="much")),
            f"spec.startupBoost.cpu.quantity: Invalid value: {NO_QUANTITY}",
        ),
        "a quantity in a map": (
            make.vpa_json(policies=[{}, make.policy_json(minAllowed={"cpu": "much"})]),
            "spec.resourcePolicy.containerPolicies[1].minAllowed[cpu]: Invalid value: "
            f"{NO_QUANTITY}",
        ),
        "a factor with a unit": (
            make.vpa_json(
                policies=[
                    make.policy_json(startupBoost={"cpu": {"type": "Factor", "factor": "500m"}})
                ]
            ),
            "spec.resourcePolicy.containerPolicies[0].startupBoost.cpu.factor: Invalid value: "
            'expected a whole number, found the string "500m"',
        ),
        "garbage in status": (
            make.vpa_json(status={"conditions": {}}),
            "status.conditions: Invalid value: expected a list, found an object",
        ),
    },
)
def test_values_of_the_wrong_type(new: object, told: str) -> None:
    """A value of the wrong type, or no quantity, is an invalid value of its field."""
    (error,) = read_vpa_review(update(new, None, "CREATE")).unreadable
    assert str(error) == told
    assert (error.path, error.kind) == (told.partition(":")[0], ErrorKind.INVALID)


def test_unreadable_old() -> None:
    """A stored object that cannot be read is told apart."""
    written = read_vpa_review(update(make.vpa_json(), {"spec": []}))
    assert list(map(str, written.unreadable)) == [
        "spec: Invalid value: oldObject: expected an object, found a list"
    ]
    assert written.new is not None
    assert written.old is None


def test_both_unreadable() -> None:
    """Both versions are told about."""
    assert len(read_vpa_review(update(None, 5)).unreadable) == 2


@cases(
    "new old expected",
    {
        "labels": (make.vpa_json(), make.vpa_json(metadata={"labels": {}}), True),
        "spec": (make.vpa_json(), make.vpa_json(mode="Off"), False),
        "status": (make.vpa_json(), make.vpa_json(status={}), False),
        "broken before": ({"spec": 5}, {"spec": 5, "metadata": {}}, True),
        "broken now": ({"metadata": 5, "spec": {}}, {"metadata": {}, "spec": {}}, False),
        "no stored object": (make.vpa_json(), None, False),
    },
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
