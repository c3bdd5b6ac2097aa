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


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param((), [], id="nothing"),
        pytest.param(("--prove=canary",), [], id="another value"),
        pytest.param(("--prove=dry-run", "--v=4"), ["trials"], id="trials"),
        pytest.param(("--use-external-metrics",), ["external-metrics"], id="a switch"),
        pytest.param(("--use-external-metrics=true",), ["external-metrics"], id="a switch, set"),
        pytest.param(("--use-external-metrics=false",), [], id="a switch, off"),
        pytest.param(("--use-external-metrics=1",), ["external-metrics"], id="a switch, by number"),
        pytest.param(
            ("--use-external-metrics", "--use-external-metrics=f"), [], id="the last one counts"
        ),
        pytest.param(("--prove", "dry-run"), ["trials"], id="two words"),
    ],
)
def test_flags_ask_for_options(words: tuple[str, ...], names: list[str]) -> None:
    """A command line tells which rights its process needs beside."""
    assert [name for name, option in OPTIONS.items() if option.is_asked_for(words)] == names
