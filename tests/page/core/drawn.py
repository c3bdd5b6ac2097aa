"""What is drawn: HTML is parsed as a browser would, and its numbers are looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
PLACES: Final = {"x", "x1", "x2", "width"}
HEIGHTS: Final = {"y", "y1", "y2", "height"}


def parsed(html: str) -> ET.Element:
    """Return the root of a drawing; fails if it is not well-formed."""
    return ET.fromstring(html)


def of_class(root: ET.Element, css: str) -> list[ET.Element]:
    """Return the elements of a class."""
    return [one for one in root.iter() if css in one.get("class", "").split()]


def texts(root: ET.Element) -> str:
    """Return all words."""
    return " ".join("".join(root.itertext()).split())


def misplaced(root: ET.Element, width: float, height: float) -> Iterator[str]:
    """Yield the coordinates that lie outside of what shows them."""
    for one in root.iter():
        box = one.get("viewBox")
        if box is not None:
            width, height = map(float, box.split()[2:])
        for name, value in one.attrib.items():
            if name in PLACES and value.endswith("%"):
                most = 100.0
            elif name in PLACES or name in HEIGHTS:
                most = width if name in PLACES else max(height, 400.0)
            else:
                continue
            if not 0 <= float(value.removesuffix("%")) <= most:
                yield f"{one.tag} {name}={value}"
        yield from _off_path(one.get("d", ""), width, height)


def _off_path(drawn: str, width: float, height: float) -> Iterator[str]:
    if "nan" in drawn or "inf" in drawn:
        yield drawn
    for part in re.findall(r"[MHVLZ][^MHVLZ]*", drawn):
        numbers = [float(text) for text in NUMBER.findall(part)]
        for index, number in enumerate(numbers):
            is_y = part[0] == "V" or (part[0] == "M" and index % 2)
            if not 0 <= number <= (height if is_y else width):
                yield f"{part}: {number}"
