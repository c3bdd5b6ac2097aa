"""Reads numbers from a page in Prometheus' text format."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=4)
def _samples(page: str) -> list[tuple[str, dict[str, str], float]]:
    found = []
    for line in page.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            labels = dict(_LABEL.findall(match[2] or ""))
            found.append((match[1], labels, float(match[3])))
    return found


_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def total(page: str, name: str, /, **labels: str) -> float:
    """Return the sum of all samples with a name and these labels."""
    return sum(
        value
        for found, have, value in _samples(page)
        if found == name and labels.items() <= have.items()
    )
