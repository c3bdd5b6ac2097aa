"""What each process may do: nothing twice, nothing without a word, in roles and on the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from app.kube.manifests.documents import objects
from app.kube.manifests.rights import OPTIONS, RIGHTS, Right, RightScope, rules

PAGE = Path(__file__).parents[3] / "docs/rights.md"
ROLES = {"ClusterRole": RightScope.EVERYWHERE, "Role": RightScope.AT_HOME}
DOCUMENTS = {
    **{component.partition("-")[0]: rights for component, rights in RIGHTS.items()},
    **{name: (option.right,) for name, option in OPTIONS.items()},
}


def parts(right: Right) -> list[tuple[str, ...]]:
    """Return a right in its smallest parts."""
    names = right.names or ("",)
    return [
        (right.reach, right.group, *part) for part in product(right.resources, right.verbs, names)
    ]


@pytest.mark.parametrize("component", RIGHTS)
def test_nothing_is_given_twice(component: str) -> None:
    """Of two rules that give the same, nothing would show that one is not needed."""
    beside = [option.right for option in OPTIONS.values() if component in option.components]
    given = Counter(part for right in (*RIGHTS[component], *beside) for part in parts(right))
    assert [part for part, count in given.items() if count > 1] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_roles_of_the_manifests(document: str) -> None:
    """The roles have a rule for each right that is needed, and no other."""
    wanted = {kind: rules(DOCUMENTS[document], reach) for kind, reach in ROLES.items()}
    found = {item["kind"]: item["rules"] for item in objects(document) if item["kind"] in ROLES}

    assert found == {kind: each for kind, each in wanted.items() if each}


@pytest.mark.parametrize("component", RIGHTS)
def test_secrets_and_leases_are_named(component: str) -> None:
    """No process may read or change a Secret or a Lease that is not ours, nor create a Secret.

    Who may create one may have a token of any account of the namespace put into it.
    """
    for right in RIGHTS[component]:
        if {"secrets", "leases"} & set(right.resources):
            assert right.names or (right.resources, right.verbs) == (("leases",), ("create",))
        assert "*" not in right.verbs
        assert right.why


def test_page() -> None:
    """docs/rights.md has a row for each right, in its order."""
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(("## ", "| "))]
    assert [row for row in rows if not row.startswith("| Verbs ")] == list(described())


def described() -> Iterator[str]:
    """Yield headings and rows of the page."""
    for component, rights in RIGHTS.items():
        yield f"## {component}"
        yield from map(row, rights)
    for option in OPTIONS.values():
        yield f"## {', '.join(option.components)} with {option.flag}, in addition"
        yield row(option.right)


def row(right: Right) -> str:
    """Return the row of a right."""
    names = " and ".join(map(code, right.names))
    where = f"{right.reach}, {names}" if names else right.reach
    group = f" of {code(right.group)}" if right.group else ""
    resources = ", ".join(map(code, right.resources))
    why = right.why
    why += f"; only with {code(right.only_with)}" if right.only_with else ""
    why += f"; not with {code(right.not_with)}" if right.not_with else ""
    return f"| {', '.join(right.verbs)} | {resources}{group} | {where} | {why} |"


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"
