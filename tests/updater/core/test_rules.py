"""The rules of the updater."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.updater.core.rules import UpdateRules, is_fresh
from tests.cases import cases
from tests.updater.core.scenes import NOW


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (UpdateRules(), [True, True]),
        (UpdateRules(namespace="a"), [True, False]),
        (UpdateRules(ignored_namespaces=frozenset({"a"})), [False, True]),
    ],
)
def test_covers(rules: UpdateRules, expected: list[bool]) -> None:
    """One namespace, all, or all but some."""
    assert [rules.covers(name) for name in ("a", "b")] == expected


@cases(
    "created renewed expected",
    {
        "created just now": (0, None, True),
        "created too long ago": (60, None, False),
        "renewed just now": (60, 0, True),
        "renewed too long ago": (60, 60, False),
        "nothing": (None, None, False),
        "just over": (10, None, False),
        "just in time": (9.999, None, True),
    },
)
def test_is_fresh(created: float | None, renewed: float | None, expected: bool) -> None:
    """Created or renewed less than the timeout ago."""
    moments = [None if ago is None else NOW - timedelta(seconds=ago) for ago in (created, renewed)]
    assert is_fresh(moments[0], moments[1], timedelta(seconds=10), NOW) is expected
