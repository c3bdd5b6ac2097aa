"""The part of CEL that is understood, and that nothing else is taken for it."""

from __future__ import annotations

import pytest

from app.kube.manifests.documents import Registration, webhook_configurations
from app.ports import Json
from app.sandbox.cel import CelError, NotUnderstood, compile_cel
from tests.cases import cases

POD: Json = {
    "metadata": {"name": "a", "labels": {"app": "x", "n/m": "y"}},
    "spec": {"count": 3, "names": ["a", "b"], "on": True},
}


def value(text: str) -> object:
    """The value of an expression about the pod."""
    return compile_cel(text)({"object": POD})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("object.metadata.name == 'a'", True),
        ('object.metadata.name != "a"', False),
        ("object.metadata.labels['n/m']", "y"),
        ("'app' in object.metadata.labels", True),
        ("object.spec.count in [1, 2, 3]", True),
        ("object.spec.names[1]", "b"),
        ("has(object.metadata.labels)", True),
        ("has(object.metadata.annotations)", False),
        ("!has(object.spec.off) && object.spec.on", True),
        ("object.spec.count > 2 && object.spec.count <= 3", True),
        ("size(object.spec.names) + 1 - 2 == 1", True),
        ("object.spec.names.size() == 2", True),
        ("object.metadata.name + 'b'", "ab"),
        ("object.spec.on ? 'yes' : 'no'", "yes"),
        ("object.spec.names.all(n, n.matches('^[ab]$'))", True),
        ("object.spec.names.exists(n, n == 'c')", False),
        ("'kube-system'.startsWith('kube-') || false", True),
        ("'abc'.endsWith('bc') && 'abc'.contains('b')", True),
        ("object.spec.missing == 1 || true", True),
        ("true || object.spec.missing == 1", True),
        ("object.spec.missing == 1 && false", False),
        ("1 == true", False),
        ("'a' < 'b'", True),
        ("-1 < 0", True),
        ("null == object.spec.on", False),
    ],
)
def test_expressions(text: str, expected: object) -> None:
    """What is understood has the value that CEL gives it."""
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "object.spec.missing == 1",
        "object.spec.missing == 1 || false",
        "object.spec.names[7]",
        "has(object.spec.missing.below)",
        "nobody",
        "!object.spec.count",
        "object.spec.on + 1",
        "'a' < 1",
        "1 in 2",
        "size(1)",
        "1.startsWith('a')",
    ],
)
def test_expressions_without_a_value(text: str) -> None:
    """What CEL has no value for is an error, never a guess."""
    with pytest.raises((CelError, NotUnderstood)):
        value(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "quantity('1') == 1",
        "a.map(x, x)",
        "a.all(1, true)",
        "has(a)",
        "a ? b",
        "(a",
        "a.b(c, d)",
        "'a\\'b'",
        "5 % 2",
        "{'a': 1}",
        "[1 2]",
    ],
)
def test_what_is_not_understood(text: str) -> None:
    """More than the offered part is refused when it is compiled."""
    with pytest.raises(NotUnderstood):
        compile_cel(text)


@cases(
    "labels namespace expected",
    {
        "any pod": ({}, "kube-system", True),
        "our own": ({"app": "vpa-admission-controller"}, "kube-system", False),
        "a pretender": ({"app": "vpa-admission-controller"}, "default", True),
    },
)
def test_our_own_conditions(labels: dict[str, str], namespace: str, expected: bool) -> None:
    """The match conditions of our webhooks are understood."""
    webhook = webhook_configurations(Registration(), "")[0][1]["webhooks"][0]
    request = {"resource": {"group": "", "resource": "pods"}, "namespace": namespace}
    pod = {"metadata": {"labels": labels}}
    found = [
        compile_cel(condition["expression"])({"object": pod, "request": request})
        for condition in webhook["matchConditions"]
    ]

    assert all(found) is expected
