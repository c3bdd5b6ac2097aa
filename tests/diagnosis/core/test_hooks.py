"""Which namespaces a webhook is asked about."""

from __future__ import annotations

import pytest

from app.diagnosis.core.hooks import Hook
from app.model.fields import Json
from tests.diagnosis.core.healthy import scope

BLUE: Json = {"matchLabels": {"team": "blue"}}


def of(selector: Json | None) -> Hook:
    """Return a webhook with a selector."""
    return Hook("ours", "mutatingwebhookconfiguration", {"namespaceSelector": selector})


@pytest.mark.parametrize(
    ("selector", "answer"),
    [
        (None, True),
        ({}, True),
        (scope("In", "web", "shop"), True),
        (scope("In", "shop"), False),
        (scope("NotIn", "web"), False),
        (scope("NotIn", "shop"), True),
        (scope("NotIn", "", key="team"), True),  # as upstream registers itself
        (scope("NotIn", "blue", key="team"), None),
        (scope("Exists"), None),
        (BLUE, None),
        (BLUE | scope("NotIn", "web"), False),
        ({"matchLabels": {"kubernetes.io/metadata.name": "web"}}, True),
    ],
)
def test_is_asked(selector: Json | None, answer: bool | None) -> None:
    """Names are known, other labels of a namespace are not."""
    assert of(selector).is_asked("web") is answer


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        ({}, {}, False),
        (scope("In", "a"), {}, False),
        (scope("In", "a"), scope("In", "b", "c"), True),
        (scope("In", "a", "b"), scope("In", "b"), False),
        (scope("In", "a"), scope("NotIn", "a", "b"), True),
        (scope("In", "a", "c"), scope("NotIn", "a", "b"), False),
        (scope("NotIn", "a"), scope("NotIn", "b"), False),
        (BLUE, {"matchLabels": {"team": "green"}}, True),
        (BLUE, scope("In", "a"), False),
    ],
)
def test_are_apart(one: Json, other: Json, answer: bool) -> None:
    """Two webhooks meet unless one label cannot have what both want."""
    assert of(one).is_apart(of(other)) is of(other).is_apart(of(one)) is answer


def test_named() -> None:
    """The namespaces that a selector names are known, whatever else it wants."""
    assert of(BLUE | scope("In", "web", "shop")).named_namespaces == ["shop", "web"]
    assert of(scope("NotIn", "web")).named_namespaces == []
