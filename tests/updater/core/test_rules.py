"""The rules of the updater."""

from __future__ import annotations

import pytest

from app.updater.core.rules import UpdateRules


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
