"""Fields are read by type; what is wrong is told with its path."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model import fields
from app.model.errors import BadObject, BadQuantity
from app.model.fields import Object, shared, shared_text
from app.model.quantity import Quantity

Reader = Callable[[Object, str, str], object]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
READERS: list[Reader] = [
    fields.object_at,
    fields.optional_object,
    fields.objects_at,
    fields.text_at,
    fields.optional_text,
    fields.texts_at,
    fields.labels_at,
    fields.integer_at,
    fields.flag_at,
    fields.time_at,
    fields.quantity_at,
    fields.quantities_at,
]


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (fields.object_at, {"a": 1}, {"a": 1}),
        (fields.object_at, None, {}),
        (fields.optional_object, {"a": 1}, {"a": 1}),
        (fields.optional_object, None, None),
        (fields.objects_at, [{}, {"a": 1}], [{}, {"a": 1}]),
        (fields.objects_at, None, []),
        (fields.items_at, [{}, {"a": 1}], [({}, "spec.f[0]"), ({"a": 1}, "spec.f[1]")]),
        (fields.text_at, "x", "x"),
        (fields.text_at, None, ""),
        (fields.optional_text, "", ""),
        (fields.optional_text, None, None),
        (fields.texts_at, ["a", "b"], ("a", "b")),
        (fields.texts_at, [], ()),
        (fields.texts_at, None, None),
        (fields.labels_at, {"a": "b"}, {"a": "b"}),
        (fields.labels_at, {"a": None, "b": "c"}, {"a": "", "b": "c"}),
        (fields.labels_at, None, {}),
        (fields.integer_at, 7, 7),
        (fields.integer_at, 7.0, 7),
        (fields.integer_at, -(2**31), -(2**31)),
        (fields.integer_at, None, None),
        (fields.flag_at, True, True),
        (fields.flag_at, None, False),
        (fields.quantity_at, "1500m", Quantity.parse("1500m")),
        (fields.quantity_at, 2, Quantity.parse("2")),
        (fields.quantity_at, None, None),
        (fields.quantities_at, {"cpu": "1", "x": None},
            {"cpu": Quantity.parse("1"), "x": Quantity.parse("0")}),
        (fields.quantities_at, {}, {}),
        (fields.quantities_at, None, None),
    ],
)  # fmt: skip
def test_right_values(read: Reader, value: object, expected: object) -> None:
    """A value of the right type is returned; absent and null are the same."""
    assert read({"f": value}, "f", "spec") == expected
    if value is None:
        assert read({}, "f", "spec") == expected


@pytest.mark.parametrize(
    ("read", "value", "error"),
    [
        (fields.object_at, [], "spec.f: expected an object, found a list"),
        (fields.object_at, False, "spec.f: expected an object, found a boolean"),
        (fields.optional_object, "x", 'spec.f: expected an object, found the string "x"'),
        (fields.objects_at, {}, "spec.f: expected a list, found an object"),
        (fields.objects_at, [{}, None], "spec.f[1]: expected an object, found null"),
        (fields.text_at, 1.5, "spec.f: expected a string, found the number 1.5"),
        (fields.text_at, 10**20, "spec.f: expected a string, found the number 1.000000e+20"),
        (fields.optional_text, ["x"], "spec.f: expected a string, found a list"),
        (fields.optional_text, False, "spec.f: expected a string, found a boolean; YAML takes "
            'Off, On, Yes and No for booleans: quote them, as in "Off"'),
        (fields.texts_at, "x", 'spec.f: expected a list, found the string "x"'),
        (fields.texts_at, ["x", None], "spec.f[1]: expected a string, found null"),
        (fields.labels_at, [], "spec.f: expected an object, found a list"),
        (fields.labels_at, {"a": None, "b": 1},
            "spec.f[b]: expected a string, found the number 1"),
        (fields.integer_at, "x" * 41,
            f'spec.f: expected a whole number, found the string "{"x" * 40}..."'),
        (fields.integer_at, True, "spec.f: expected a whole number, found a boolean"),
        (fields.integer_at, 0.5, "spec.f: expected a whole number, found the number 0.5"),
        (fields.integer_at, math.nan, "spec.f: expected a whole number, found the number NaN"),
        (fields.integer_at, 2**31, "spec.f: the number 2147483648 is out of range"),
        (fields.integer_at, -(2**31) - 1, "spec.f: the number -2147483649 is out of range"),
        (fields.integer_at, 1e300, "spec.f: the number 1.000000e+300 is out of range"),
        pytest.param(fields.integer_at, -(10**5000),
            "spec.f: the number -1.000000e+5000 is out of range", id="thousands of digits"),
        (fields.flag_at, "true", 'spec.f: expected a boolean, found the string "true"'),
        (fields.flag_at, 0, "spec.f: expected a boolean, found the number 0"),
        (fields.time_at, 0, "spec.f: expected a time, found the number 0"),
        (fields.time_at, "soon", 'spec.f: "soon" is no RFC 3339 time'),
        (fields.time_at, "0001-01-01T00:00:00+01:00",
            'spec.f: "0001-01-01T00:00:00+01:00" is no RFC 3339 time'),
        (fields.quantities_at, [], "spec.f: expected an object, found a list"),
    ],
)  # fmt: skip
def test_wrong_values(read: Reader, value: object, error: str) -> None:
    """A value of the wrong type is told with its path and what it is."""
    with pytest.raises(BadObject) as caught:
        read({"f": value}, "f", "spec")
    assert str(caught.value) == error


def test_paths_begin_without_a_dot() -> None:
    """A field of the object itself has its own name as path."""
    with pytest.raises(BadObject) as caught:
        fields.text_at({"kind": 1}, "kind", "")
    assert caught.value.path == "kind"


@pytest.mark.parametrize(
    ("read", "value", "path"),
    [(fields.quantity_at, "1x", "spec.f"), (fields.quantities_at, {"cpu": {}}, "spec.f[cpu]")],
)
def test_wrong_quantities(read: Reader, value: object, path: str) -> None:
    """A text that is no quantity is its own kind of error, with the path in front."""
    with pytest.raises(BadQuantity) as caught:
        read({"f": value}, "f", "spec")
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-05T10:00:00Z", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("2026-01-05T12:00:00+02:00", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("2026-01-05T10:00:00.123456Z", datetime(2026, 1, 5, 10, 0, 0, 123456, tzinfo=UTC)),
        ("2026-01-05T10:00:00", datetime(2026, 1, 5, 10, tzinfo=UTC)),
    ],
)
def test_times(text: str, moment: datetime) -> None:
    """Every time is in UTC, whatever zone it was written in."""
    found = fields.time_at({"f": text}, "f", "")
    assert found == moment
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize("value", [None, {}])
def test_absent_object(value: object) -> None:
    """No object at all is an empty one."""
    assert fields.as_object(value, "") == {}


@given(st.sampled_from(READERS), JSON)
def test_any_value_is_read_or_refused(read: Reader, value: object) -> None:
    """Whatever stands at a field, it is a value or an error with its path."""
    try:
        read({"f": value}, "f", "spec")
    except BadObject as error:
        path = error.path
    else:
        path = "spec.f"
    assert path.startswith("spec.f")


def test_equal_values_become_one() -> None:
    """The first one is returned for all that are equal and of its type."""
    first, second = ("a", 1), ("a", 1)
    assert shared(first) is shared(second)
    assert shared(1.0) is not shared(1)


def test_long_texts_are_left_alone() -> None:
    """A text that hardly comes twice is not kept."""
    short, long = "Running", "x" * 65
    assert shared_text("".join(short)) is shared_text(short[:3] + short[3:])
    assert shared_text(long) is long
