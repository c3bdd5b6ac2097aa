"""Limits keep their ratio to requests, and are told about where they cannot."""

from __future__ import annotations

from app.model.quantity import ZERO
from app.sizing.capping import Limit, proportional_limit
from tests.cases import cases
from tests.make import quantity

UNLIMITED = "{}: limit NOT set since originalLimit is nil or 0"
UNASKED = "{}: limit NOT set since recommendedRequest is nil or 0"
CUT = "{}: failed to keep limit to request ratio; capping limit to int64"


@cases(
    "resource limit request_ target expected note",
    {
        "in proportion": ("cpu", "150m", "100m", "250m", "375m", ""),
        "memory in proportion": ("memory", "200Mi", "100Mi", "200Mi", "400Mi", ""),
        "equal stays equal": ("cpu", "100m", "100m", "250m", "250m", ""),
        "the old format": ("memory", "512Mi", "256Mi", "262144k", "500Mi", ""),
        "down": ("cpu", "1", "100m", "35m", "350m", ""),
        "memory down": ("memory", "512Mi", "256Mi", "104857600", "200Mi", ""),
        "down to millicores": ("cpu", "333m", "100m", "77m", "256m", ""),
        "down to bytes": ("memory", "700Mi", "300Mi", "262144k", "611669333", ""),
        "a third": ("cpu", "2", "1500m", "1", "1333m", ""),
        "memory, a third": ("memory", "200", "150", "100", "133", ""),
        "no request: as if equal": ("cpu", "2", None, "300m", "300m", ""),
        "nor one of zero": ("cpu", "2", "0", "0.3", "300m", ""),
        "equal by value": ("cpu", "1e0", "1000m", "1.500", "1.500", ""),
        "no limit": ("memory", None, "1", "1", None, UNLIMITED),
        "a limit of zero is none": ("memory", "0", "1", "1", None, UNLIMITED),
        "nothing recommended": ("memory", "1", "1", None, None, UNASKED),
        "zero recommended": ("memory", "1", "1", "0", None, UNASKED),
        "cut off": ("cpu", "10", "1", "1Ei", "9223372036854775807m", CUT),
        "memory cut off": ("memory", "10", "1", "1Ei", "9223372036854775807", CUT),
    },
)
def test_proportional_limit(
    resource: str,
    limit: str | None,
    request_: str | None,
    target: str | None,
    expected: str | None,
    note: str,
) -> None:
    """The limit grows as the request does, printed as the old one was."""
    had, asked, wanted = (None if x is None else quantity(x) for x in (limit, request_, target))
    found = proportional_limit(resource, had, asked, wanted)
    assert (found.amount and str(found.amount), found.note) == (expected, note.format(resource))


def test_usual_limit() -> None:
    """A usual limit stands in for a missing one, and none for none."""
    asked, wanted = quantity("1"), quantity("10")
    assert proportional_limit("cpu", None, asked, wanted, quantity("2")).amount == quantity("20")
    assert proportional_limit("cpu", ZERO, asked, wanted, quantity("2")).amount == quantity("20")
    assert proportional_limit("cpu", asked, asked, wanted, quantity("2")) == Limit(wanted, "")
