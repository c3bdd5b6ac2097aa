"""The rules of the updater."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from app.core.capping import SizingRules
from app.core.updating.rules import Prove, UpdateRules, Upstream
from tests.core.updating.scenes import OURS, UPSTREAM


def test_everything_as_upstream() -> None:
    """One word turns every switch, and leaves every number."""
    assert all(getattr(UPSTREAM.upstream, switch.name) for switch in fields(Upstream))
    assert not any(getattr(OURS.upstream, switch.name) for switch in fields(Upstream))
    assert UPSTREAM.prove is Prove.OFF
    assert not any(getattr(UPSTREAM.sizing, switch.name) for switch in fields(SizingRules))
    assert replace(OURS, min_replicas=7).as_upstream().min_replicas == 7


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
