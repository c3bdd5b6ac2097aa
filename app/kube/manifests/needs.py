"""Which rights a process needs that runs with some flags.

Strategy: what the chart grants, what an overlay leaves and what the check of an installation
looks for is compared with this, so that an account has all that it uses and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from app.kube.manifests.rights import OPTIONS, RIGHTS, Right


def needed(component: str, words: Sequence[str]) -> tuple[Right, ...]:
    """Return the rights of a process with this command line."""
    words = [_spelt(word) if word.startswith("-") else word for word in words]
    asked = [
        option.right
        for option in OPTIONS.values()
        if option.component == component and _is_set(words, option.flag)
    ]
    usual = [right for right in RIGHTS[component] if _is_used(right, words)]
    return tuple(_named(right, words) for right in (*usual, *asked))


def _spelt(word: str) -> str:
    """Return a flag with two dashes, and with dashes within."""
    key, equals, value = word.lstrip("-").partition("=")
    return f"--{key.replace('_', '-')}{equals}{value}"


def _is_used(right: Right, words: Sequence[str]) -> bool:
    if right.only_with and not _is_set(words, right.only_with):
        return False
    name, _, value = right.not_with.partition("=")
    told = _text(words, name)
    return told not in _NO if value == "false" else not told


def _named(right: Right, words: Sequence[str]) -> Right:
    name = _text(words, right.named_by)
    return replace(right, names=(name,)) if name else right


def _is_set(words: Sequence[str], flag: str) -> bool:
    """Say whether a switch is on, or, of a flag with a value, whether it has this value."""
    name, _, wanted = flag.partition("=")
    if wanted:
        return _text(words, name) == wanted
    return _text([f"{word}=true" if word == name else word for word in words], name) in _YES


def _text(words: Sequence[str], name: str) -> str:
    """Return what a flag says; what is said last counts."""
    found = ""
    for word, following in pairwise((*words, "")):
        key, equals, value = word.partition("=")
        if name and key == name:
            found = value if equals else following
    return found


_NO = ("0", "f", "F", "false", "FALSE", "False")
_YES = ("1", "t", "T", "true", "TRUE", "True")
