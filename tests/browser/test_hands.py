"""What one does on a page: filter, sort, choose a range, copy, read a chart, by hand or by keys."""

from __future__ import annotations

from tests.browser.driver import Browser
from tests.browser.stage import Pages
from tests.cluster.programs import eventually

ROWS = "#workloads tbody tr"
NAMES = f"{ROWS} th a"
WEB = "/namespaces/shop/vpas/web"
MEDIAN = "figure:first-child [data-of=median]"


def everything(pages: Pages) -> int:
    """Return how many workloads there are."""
    return int(pages.json("/fleet.json")["found"])


def test_filter(browser: Browser, shop: Pages) -> None:
    """Rows follow while one writes, and the address keeps what was written."""
    browser.open(f"{shop.url}/")
    assert browser.count(ROWS) == everything(shop)

    browser.write("input[name=words]", "gate")

    eventually(lambda: browser.texts(NAMES) == ["gateway"], "one row is left")
    assert browser.url.endswith("words=gate")
    browser.open(browser.url)
    assert browser.texts(NAMES) == ["gateway"]


def test_a_filter_that_nothing_fits(browser: Browser, shop: Pages) -> None:
    """The page says so, and how to see all again."""
    browser.open(f"{shop.url}/?words=nothing")
    assert "No workload fits" in browser.text("#workloads")

    browser.click("#workloads td a")
    eventually(lambda: browser.count(ROWS) == everything(shop), "all rows are shown")


def test_sorting(browser: Browser, shop: Pages) -> None:
    """A click on the head of a column sorts by it, and says so to screen readers."""
    browser.open(f"{shop.url}/")
    browser.click("#workloads thead a[href*='sort=name']")

    eventually(lambda: browser.texts("th[aria-sort]") == ["Workload"], "the head says so")
    found = browser.texts(NAMES)
    assert found == sorted(found)


def test_range(browser: Browser, pages: Pages) -> None:
    """A range is chosen by a click, and charts show that time."""
    browser.open(f"{pages.url}{WEB}")
    browser.click("nav.ranges a[href*='24h']")

    eventually(lambda: browser.texts("nav.ranges [aria-current]") == ["24h"], "the day is chosen")
    script = "const d = document.querySelector('svg.plot').dataset; return d.end - d.start"
    assert browser.run(script) == 24 * 3600
    assert browser.count("figure path.median") >= 2


def test_readout(browser: Browser, pages: Pages) -> None:
    """Under the pointer the legend shows the amounts of that time, and afterwards those of now."""
    browser.open(f"{pages.url}{WEB}")
    now = browser.text("figure:first-child .at")

    browser.point("figure:first-child svg.plot", 0.25)
    assert browser.text("figure:first-child .at") != now
    assert browser.text(MEDIAN).endswith("m")
    assert browser.count(".cursor") == 1

    browser.point("h1")
    assert browser.text("figure:first-child .at") == now
    assert browser.count(".cursor") == 0


def test_copy(browser: Browser, shop: Pages) -> None:
    """A click copies what stands beside the button."""
    browser.open(f"{shop.url}{WEB}")
    permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    browser.tell("Browser.grantPermissions", {"permissions": permissions})
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")

    browser.click("button[data-copy]")

    eventually(lambda: browser.text("button[data-copy]") == "copied", "the button says so")
    copied = browser.run("return navigator.clipboard.readText()")
    source = "return document.getElementById(document.querySelector('[data-copy]').dataset.copy)"
    assert copied == browser.run(f"{source}.textContent")
    assert copied


def test_refresh(browser: Browser, shop: Pages) -> None:
    """What is live is fetched again by itself; what one uses stays as it is."""
    browser.open(f"{shop.url}/")
    browser.run("document.querySelector('#workloads tbody').replaceChildren()")

    eventually(lambda: browser.count(ROWS) == everything(shop), "the rows are back")


def test_a_page_that_is_away(browser: Browser, shop: Pages) -> None:
    """Without an answer the page stays, and says that it is old."""
    browser.open(f"{shop.url}/")
    browser.tell("Network.enable", {})
    browser.tell("Network.setBlockedURLs", {"urls": ["*"]})

    eventually(lambda: browser.count("body.is-stale") == 1, "the page says that it is old")
    assert browser.count(ROWS) == everything(shop)
    browser.tell("Network.setBlockedURLs", {"urls": []})
    eventually(lambda: browser.count("body.is-stale") == 0, "the page is fresh again")
    browser.listen()
    browser.complaints.clear()  # of what was blocked


def focused(browser: Browser) -> str:
    """Return what keys go to."""
    script = (
        "const e = document.activeElement; return `${e.localName} "
        "${e.textContent.trim().slice(0, 40) || e.name || ''}`.trim()"
    )
    return str(browser.run(script))


def test_keys_alone(browser: Browser, shop: Pages) -> None:
    """All that can be clicked is reached by Tab, is seen when it is, and Enter does the same."""
    browser.open(f"{shop.url}/")
    browser.press("Tab")
    assert focused(browser) == "a Skip to the content"

    reached = []
    for _ in range(80):
        browser.press("Tab")
        reached.append(focused(browser))
        ring = "return getComputedStyle(document.activeElement).outlineStyle"
        assert browser.run(ring) != "none", reached[-1]
        if reached[-1] == "a gateway":
            break
    assert "input words" in reached
    browser.press("Enter")
    eventually(lambda: "gateway" in browser.text("h1"), "the page of the workload", seconds=10)


def test_a_chart_by_keys(browser: Browser, shop: Pages) -> None:
    """Arrows move the readout of a chart that has the focus."""
    browser.open(f"{shop.url}{WEB}")
    browser.run("document.querySelector('svg.plot').focus()")
    now = browser.text("figure:first-child .at")

    browser.press("ArrowLeft", "ArrowLeft")
    assert browser.text("figure:first-child .at") != now
    browser.press("Escape")
    assert browser.text("figure:first-child .at") == now


def test_without_script(browser: Browser, shop: Pages) -> None:
    """Charts, filter, order and ranges work without script; what needs it is not shown."""
    browser.allow_script(is_allowed=False)
    browser.open(f"{shop.url}/")
    browser.write("input[name=words]", "web")
    browser.click("form.filter button")
    eventually(lambda: browser.texts(NAMES) == ["web"], "one row is left")

    browser.click(NAMES)
    eventually(lambda: browser.count("figure path.median") >= 2, "charts are drawn")
    assert "median pod" in browser.text(".legend")
    assert browser.run("return document.querySelector('[data-copy]').checkVisibility()") is False
    browser.click("nav.ranges a[href*='14d']")
    eventually(lambda: "only the last 24 hours" in browser.text("main"), "it says what is kept")
    browser.allow_script(is_allowed=True)
    browser.listen()
    browser.complaints.clear()  # of what was blocked
