"""Pages look as the documentation shows them.

PLUMBLINE_PICTURES=new make browser ARGS=tests/browser/test_pictures.py   # takes them again
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.browser.driver import Browser
from tests.browser.pictures import apart, read_png
from tests.browser.stage import Pages
from tests.cases import cases

PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
MOST: Final = 0.01  # of the cells; the smallest part of a page that could lack has more
HEIGHT: Final = 900


@cases(
    "name path width is_dark",
    {
        "fleet": ("fleet", "/", 1280, False),
        "fleet, dark": ("fleet-dark", "/", 1280, True),
        "fleet, narrow": ("fleet-narrow", "/", 400, False),
        "workload": ("workload", "/namespaces/shop/vpas/cache?range=24h", 1280, False),
        "installation": ("installation", "/installation", 1280, False),
        "feed, wide": ("feed", "/feed", 1600, False),
    },
)
def test_a_page_looks_as_documented(
    browser: Browser, shop: Pages, name: str, path: str, width: int, is_dark: bool
) -> None:
    """What stands where, and how dark it is, is as in the picture; letters may differ a little."""
    browser.look(width, HEIGHT, is_dark=is_dark)
    browser.open(f"{shop.url}{path}")
    found = browser.picture()
    known = PICTURES / f"{name}.png"
    if os.environ.get("PLUMBLINE_PICTURES") == "new":
        known.parent.mkdir(exist_ok=True)
        known.write_bytes(found)
    if not known.exists():
        pytest.fail(f"there is no {known}: take it with PLUMBLINE_PICTURES=new")

    share = apart(read_png(found), read_png(known.read_bytes()))
    assert share < MOST, f"{share:.3f} of its cells are apart from {known}"


@cases(
    "css",
    {
        "the bars": ("svg.bar",),
        "the status": ("td.words > *",),
        "the amounts": ("td.amounts",),
        "the sums": (".sums",),
        "the filter": ("form.filter",),
        "the head": ("header.top *",),
    },
)
def test_what_lacks_is_seen(browser: Browser, shop: Pages, css: str) -> None:
    """Without one of its parts a page is further from its picture than letters can be."""
    browser.look(1280, HEIGHT)
    browser.open(f"{shop.url}/")
    hide = "for (const e of document.querySelectorAll(arguments[0])) e.style.visibility = 'hidden'"
    browser.run(hide, css)

    known = (PICTURES / "fleet.png").read_bytes()
    assert apart(read_png(browser.picture()), read_png(known)) > MOST
