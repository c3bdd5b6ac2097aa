"""The grammar of label keys and values."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"(?![-_.])[-A-Za-z0-9_.]{1,63}(?<![-_.])")
_DNS_LABEL: Final = re.compile(r"(?!-)[-a-z0-9]++(?<!-)")
_LONGEST_PREFIX: Final = 253

_NAME_RULE: Final = (
    "has 1 to 63 letters, digits, '-', '_' or '.' and begins and ends with a letter or digit"
)
_PREFIX_RULE: Final = (
    f"before the slash belongs a DNS subdomain of at most {_LONGEST_PREFIX} characters: "
    "lower-case letters, digits, '-' and '.'"
)


def key_flaws(key: str) -> list[str]:
    """Return what is wrong with a label's key, `prefix/name` or `name`."""
    prefix, slash, name = key.rpartition("/")
    flaws = [] if _is_prefix(prefix) or not slash else [_PREFIX_RULE]
    return flaws if _NAME.fullmatch(name) else [*flaws, f"a label's name {_NAME_RULE}"]


def value_flaws(value: str) -> list[str]:
    """Return what is wrong with a label's value."""
    if not value or _NAME.fullmatch(value):
        return []
    return [f"a label's value, unless empty, {_NAME_RULE}"]


def _is_prefix(text: str) -> bool:
    return len(text) <= _LONGEST_PREFIX and all(map(_DNS_LABEL.fullmatch, text.split(".")))
