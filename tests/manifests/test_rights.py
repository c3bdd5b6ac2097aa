"""What each process may do: nothing twice, nothing without a word."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from app.manifests.rights import OPTIONS, RIGHTS, Right


def parts(right: Right) -> list[tuple[str, ...]]:
    """Return a right in its smallest parts."""
    names = right.names or ("",)
    return [
        (right.reach, right.group, *part) for part in product(right.resources, right.verbs, names)
    ]


@pytest.mark.parametrize("component", RIGHTS)
def test_nothing_is_given_twice(component: str) -> None:
    """Of two rules that give the same, nobody would see that one is not needed."""
    beside = [option.right for option in OPTIONS.values() if option.component == component]
    given = Counter(part for right in (*RIGHTS[component], *beside) for part in parts(right))
    assert [part for part, count in given.items() if count > 1] == []
