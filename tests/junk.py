"""Makes JSON that is nearly right: objects with a few values taken out or replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypothesis import strategies as st

from app.model.fields import Json
from tests.make import with_value

_LEAVES: Final = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 0.5, 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf")])
    | st.sampled_from(["", "1", "-1", "1Mi", "1e999999", "9" * 500, "0001-01-01T00:00:00+23:59"])
    | st.text(max_size=3)
)
VALUES: Final = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def _deep(depth: int) -> object:
    value: object = {}
    for _ in range(depth):
        value = [value] if depth % 2 else {"a": value}
    return value


ANYTHING: Final = VALUES | st.builds(_deep, st.sampled_from([100, 101]))


def _paths(value: object, at: str = "") -> Iterator[str]:
    if at:
        yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, f"{at}[{key}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{at}[{index}]")


@st.composite
def objects_like(draw: st.DrawFn, item: Json) -> Json:
    """Return copies of an object with a few places holding anything else, or anything at all."""
    paths = [path for path in _paths(item) if "." not in path]
    for path in draw(st.lists(st.sampled_from(paths), max_size=3)):
        try:
            item = with_value(item, path, draw(ANYTHING))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            continue  # an earlier replacement took the place away
    return item
