"""Every page, wherever links lead: readable, named, in its width, from its own origin alone."""

from __future__ import annotations

from tests.browser.driver import Browser
from tests.browser.looks import faint, origin, unnamed, walk, wide
from tests.browser.stage import Pages

WIDTHS = (400, 1000, 1600)


def test_every_page(browser: Browser, pages: Pages) -> None:
    """At each width, light and dark, nothing sticks out, all is read and has a name."""
    places = walk(browser, pages.url)
    assert len(places) > 8

    problems: list[str] = []
    for place in places:
        for width in WIDTHS:
            browser.look(width, is_dark=width == WIDTHS[1])
            browser.open(place)
            what = f"{place} at {width}"
            problems += [f"{what}: sticks out: {one}" for one in wide(browser)]
            problems += [f"{what}: faint: {one}" for one in faint(browser)]
        browser.look(WIDTHS[2], is_dark=True)
        problems += [f"{place} dark: faint: {one}" for one in faint(browser)]
        problems += [f"{place}: {one}" for one in unnamed(browser)]
    assert not problems, "\n".join(problems)

    browser.listen()
    assert {origin(one.url) for one in browser.requests} == {pages.url}


def test_a_page_that_is_not_there(browser: Browser, shop: Pages) -> None:
    """It says what there is instead, and is as readable as the others."""
    browser.open(f"{shop.url}/namespaces/shop/vpas/wep")

    assert "did you mean" in browser.text("main")
    assert (faint(browser), unnamed(browser)) == ([], [])
    browser.listen()
    browser.complaints.clear()  # of the status 404
