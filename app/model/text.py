"""Texts that people read and write: amounts such as 250m, 300Mi, +25% or 3h, and mistyped words.

Strategy: three digits are enough for people; output that needs the exact amount prints the
quantity itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from app.model.quantity import CPU, MEMORY, Quantity

# What Go's flag package reads as a boolean, and with it every Kubernetes component.
BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the known word that is most alike, empty if none is."""
    found = likeliest(word, known)
    return f'; did you mean "{found}"?' if found else ""


def likeliest(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most alike, empty if none is."""
    lowered = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.5)
    return lowered[matches[0]] if matches else ""


_BYTE_SIZED: Final = (MEMORY, "ephemeral-storage")
_DIGITS: Final = 3
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SPANS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_LONGEST_TEXT: Final = 500
_LEAST_COUNT: Final = 2  # of a unit, below which the next smaller one says more


def amount(resource: str, quantity: Quantity) -> str:
    """Write an amount of a resource."""
    if resource == CPU:
        return cores(quantity.milli)
    if resource in _BYTE_SIZED or resource.startswith("hugepages-"):
        return size(quantity.units)
    return str(quantity)


def cores(millicores: int) -> str:
    """Write millicores, from one core on as cores."""
    if abs(millicores) < 1000:
        return f"{millicores}m" if millicores else "0"
    return _short(millicores / 1000)


def size(count_bytes: int) -> str:
    """Write bytes in the largest binary unit that fits."""
    number, unit = float(count_bytes), 0
    while unit < len(_BINARY) - 1 and abs(_rounded(number)) >= 1024:
        number, unit = number / 1024, unit + 1
    return f"{_short(number)}{_BINARY[unit]}"


def change(resource: str, before: Quantity, after: Quantity) -> str:
    """Write by how much an amount changes, with its sign."""
    told = amount(resource, Quantity(after.nano - before.nano, before.format))
    return told if told.startswith("-") or told == "0" else f"+{told}"


def printable(text: str) -> str:
    """Write a text of others on one line, without what a terminal would obey, cut if it is long."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}..."


def percent(share: float) -> str:
    """Write a share: 0.25 is 25%."""
    return f"{share * 100:.0f}%"


def span(lasts: timedelta) -> str:
    """Write how long something lasts or is ago, in one unit."""
    seconds = max(int(lasts.total_seconds()), 0)
    for unit, length in _SPANS:
        if seconds >= length * _LEAST_COUNT:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}") if abs(number) < 1000 else round(number)


def _short(number: float) -> str:
    return f"{_rounded(number):g}" if abs(number) < 1000 else f"{round(number)}"
