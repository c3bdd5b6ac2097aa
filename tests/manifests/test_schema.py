"""How schemas are written down."""

import pytest

from app.manifests.schema import QUANTITY_PATTERN, prose, record, string, without
from tests.manifests.structural import problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("  One.  ", "One.", id="one line"),
        pytest.param("\n  One\n  two.\n  ", "One two.", id="a wrapped sentence"),
        pytest.param("One.\n\nTwo\nthree.", "One.\nTwo three.", id="a blank line parts"),
        pytest.param("One:\n- two\nthree\n- four", "One:\n- two three\n- four", id="a list"),
        pytest.param("One-\ntwo -\nthree.", "One- two - three.", id="a dash inside a sentence"),
    ],
)
def test_prose(text: str, expected: str) -> None:
    """Descriptions are paragraphs, however they are wrapped in the code."""
    assert prose(text) == expected


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        pytest.param("100m", True, id="millis"),
        pytest.param("187500u", True, id="micros"),
        pytest.param("1.5", True, id="a fraction"),
        pytest.param(".5Gi", True, id="a bare fraction"),
        pytest.param("1e3", True, id="an exponent"),
        pytest.param("-1", True, id="a negative number, which is left to the webhook"),
        pytest.param("", False, id="nothing"),
        pytest.param("1 Gi", False, id="a blank"),
        pytest.param("1mi", False, id="a suffix that is none"),
        pytest.param("not-a-number", False, id="words"),
    ],
)
def test_quantity(text: str, accepted: bool) -> None:
    """The quantity pattern takes what Kubernetes takes."""
    schema = string("", pattern=QUANTITY_PATTERN)

    assert (not problems(schema, text)) == accepted


def test_without_leaves_the_original_alone() -> None:
    """A field is left out of the copy at any depth, also below a list."""
    item = record("an item", {"kept": string("kept"), "gone": string("gone")})
    schema = record(
        "all", {"list": {"type": "array", "items": item}, "one": item, "gone": string("gone")}
    )

    copy = without(schema, "list[].gone", "one.gone", "gone")

    only_kept = record("an item", {"kept": string("kept")})
    assert copy == record("all", {"list": {"type": "array", "items": only_kept}, "one": only_kept})
    assert schema["properties"]["list"]["items"] == item
    assert list(schema["properties"]) == ["list", "one", "gone"]
