"""What is recommended, as numbers: one series for each container, resource and bound.

Strategy: there may be hundreds of thousands of them, so they are no part of /metrics. They have
a path of their own, for whoever scrapes it, and are written straight from what is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from app.model.vpa import ContainerRecommendation, Vpa

NAME: Final = "plumbline_recommendation"
LABELS: Final = ("namespace", "vpa", "container", "resource", "bound")
MEANING: Final = "What a VPA recommends for a container: cores, or bytes."


def exposition(vpas: Iterable[Vpa]) -> bytes:
    """Return the answer to a scrape."""
    head = f"# HELP {NAME} {MEANING}\n# TYPE {NAME} gauge\n"
    return "".join((head, *_lines(vpas))).encode()


def _lines(vpas: Iterable[Vpa]) -> Iterator[str]:
    for vpa in vpas:
        for one in vpa.recommendation or ():
            container = _escaped(one.container)
            yield from _series(
                f'namespace="{vpa.namespace}",vpa="{vpa.name}",container="{container}"', one
            )


def _series(owner: str, one: ContainerRecommendation) -> Iterator[str]:
    for bound, amounts in (
        ("target", one.target),
        ("lowerBound", one.lower_bound),
        ("upperBound", one.upper_bound),
        ("uncappedTarget", one.uncapped_target),
    ):
        for resource, amount in amounts.items():
            labels = f'{owner},resource="{_escaped(resource)}",bound="{bound}"'
            yield f"{NAME}{{{labels}}} {amount.milli / 1000:.15g}\n"


def _escaped(name: str) -> str:
    """Return a name as it may stand between quotes; a status may hold any text."""
    return name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
