"""What can be said of any page by looking at it: contrast, overflow, names, origins."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urldefrag, urlsplit

from tests.browser.driver import Browser

_LOOKS: Final = (Path(__file__).parent / "looks.js").read_text("utf-8")
_LINKS: Final = "return [...document.querySelectorAll('a[href]')].map(e => e.href)"


def faint(browser: Browser) -> list[str]:
    """Return texts that are hard to read."""
    return list(browser.run(f"{_LOOKS}return faint()"))


def wide(browser: Browser) -> list[str]:
    """Return what sticks out."""
    return list(browser.run(f"{_LOOKS}return wide()"))


def unnamed(browser: Browser) -> list[str]:
    """Return what has no name, and what is styled or scripted in its place."""
    return list(browser.run(f"{_LOOKS}return unnamed()"))


def links(browser: Browser) -> list[str]:
    """Return where links lead, without places on the page."""
    return list(dict.fromkeys(urldefrag(one).url for one in browser.run(_LINKS)))


def origin(url: str) -> str:
    """Return the origin of an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def walk(browser: Browser, url: str, most: int = 80) -> list[str]:
    """Follow all links of one origin, a few of each kind, and return where they lead."""
    found, kinds = [f"{url}/"], dict[str, int]()
    for place in found:
        browser.open(place)
        for link in links(browser):
            kind = _kind(link)
            is_page = origin(link) == url and not urlsplit(link).path.endswith(".json")
            if is_page and link not in found and kinds.get(kind, 0) < 6 and len(found) < most:
                kinds[kind] = kinds.get(kind, 0) + 1
                found.append(link)
    return found


def _kind(link: str) -> str:
    """Return what links that lead to pages of one kind have in common."""
    parts = urlsplit(link)
    words = [word for index, word in enumerate(parts.path.split("/")) if index % 2]
    return f"{'/'.join(words)}?{parts.query.partition('=')[0]}"
