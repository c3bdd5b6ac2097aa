"""Every page, wherever links lead: readable, named, in its width, from its own origin alone."""

from __future__ import annotations

from tests.browser.driver import Browser
from tests.browser.looks import faint, origin, unnamed, walk, wide
from tests.browser.stage import Pages
from tests.cluster.programs import eventually

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


def test_what_other_settings_would_have_requested(browser: Browser, shop: Pages) -> None:
    """The demo's own history stands on the pages of a workload and of its pods, with its kills."""
    path = f"{shop.url}/namespaces/shop/vpas/cache"
    browser.open(path)

    def told() -> str:
        browser.open(path)
        return browser.text("#past")

    eventually(lambda: "more days are needed to sum it up" in told(), "the history was walked")
    names = [one.partition("\n")[0] for one in browser.texts("#past figcaption")]
    assert names == ["CPU of all pods", "Memory of all pods"]
    assert browser.count("#past figure .kill") > 0
    assert "the present flags" in browser.text("#past figure")
    browser.open(browser.run("return document.querySelector('#pods th a').href"))
    assert "This run: 0.5 days" in browser.text("#past")


def test_a_page_that_is_not_there(browser: Browser, shop: Pages) -> None:
    """It says what there is instead, and is as readable as the others."""
    browser.open(f"{shop.url}/namespaces/shop/vpas/wep")

    assert "did you mean" in browser.text("main")
    assert (faint(browser), unnamed(browser)) == ([], [])
    browser.listen()
    browser.complaints.clear()  # of the status 404
