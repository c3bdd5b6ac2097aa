"""Limits keep their ratio to requests, and are told about where they cannot."""

from __future__ import annotations

import pytest

from app.model.quantity import ZERO
from app.sizing.capping import Limit, proportional_limit
from tests.make import quantity

UNLIMITED = "{}: limit NOT set since originalLimit is nil or 0"
UNASKED = "{}: limit NOT set since recommendedRequest is nil or 0"
CUT = "{}: failed to keep limit to request ratio; capping limit to int64"


@pytest.mark.parametrize(
    ("resource", "limit", "request_", "target", "expected", "note"),
    [
        pytest.param("cpu", "150m", "100m", "250m", "375m", "", id="in proportion"),
        pytest.param("memory", "200Mi", "100Mi", "200Mi", "400Mi", "", id="memory in proportion"),
        pytest.param("cpu", "100m", "100m", "250m", "250m", "", id="equal stays equal"),
        pytest.param("memory", "512Mi", "256Mi", "262144k", "500Mi", "", id="the old format"),
        pytest.param("cpu", "1", "100m", "35m", "350m", "", id="down"),
        pytest.param("memory", "512Mi", "256Mi", "104857600", "200Mi", "", id="memory down"),
        pytest.param("cpu", "333m", "100m", "77m", "256m", "", id="down to millicores"),
        pytest.param("memory", "700Mi", "300Mi", "262144k", "611669333", "", id="down to bytes"),
        pytest.param("cpu", "2", "1500m", "1", "1333m", "", id="a third"),
        pytest.param("memory", "200", "150", "100", "133", "", id="memory, a third"),
        pytest.param("cpu", "2", None, "300m", "300m", "", id="no request: as if equal"),
        pytest.param("cpu", "2", "0", "0.3", "300m", "", id="nor one of zero"),
        pytest.param("cpu", "1e0", "1000m", "1.500", "1.500", "", id="equal by value"),
        pytest.param("memory", None, "1", "1", None, UNLIMITED, id="no limit"),
        pytest.param("memory", "0", "1", "1", None, UNLIMITED, id="a limit of zero is none"),
        pytest.param("memory", "1", "1", None, None, UNASKED, id="nothing recommended"),
        pytest.param("memory", "1", "1", "0", None, UNASKED, id="zero recommended"),
        pytest.param("cpu", "10", "1", "1Ei", "9223372036854775807m", CUT, id="cut off"),
        pytest.param("memory", "10", "1", "1Ei", "9223372036854775807", CUT, id="memory cut off"),
    ],
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
