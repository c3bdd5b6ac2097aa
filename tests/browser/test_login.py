"""Behind a token: the form, the session and its end, and what a viewer may not see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest

from app.kube.access_review import AccessReviews
from app.page.access import TokenAccess
from app.page.app import page_app
from app.page.own_tls import OwnTls
from app.page.sessions import SECONDS
from app.page.site import Site
from app.ports import PODS, Cluster
from app.runtime.access import Guard
from app.runtime.bounds import LimitReport
from app.runtime.clock import SystemClock
from app.runtime.http_server import Server, bound
from tests import make
from tests.browser.driver import Browser
from tests.browser.looks import faint, unnamed, wide
from tests.cluster.programs import eventually
from tests.page.shown import pictures, shop
from tests.runtime.authorities import Authorities
from tests.sandbox.worlds import SteppedSandbox
from tests.stepped_clock import SteppedClock

SECRET = make.vpa_json("vault", namespace="secret", target="Deployment/vault", cpu="1")
FORM = "form.login input[name=token]"


@dataclass
class Guarded:
    """A page that Alice may see one of two namespaces of."""

    url: str
    clock: SteppedClock


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    """Serve it, as in a cluster: over TLS, with a certificate of its own."""
    clock, limits = SteppedClock(), LimitReport()
    authorities = Authorities(SteppedSandbox().sandbox.cluster)
    authorities.know("alice-token", "alice")
    authorities.grant("alice", "list", "default")
    authorities.grant("alice", "list", "default", resource=PODS)
    reviews = AccessReviews(cast("Cluster", authorities), clock, limits.reached)
    found = pictures(*shop(), SECRET)
    access = TokenAccess(
        Guard(reviews), clock.monotonic, lambda: ["default", "secret"], has_tls=True
    )
    listener = bound("127.0.0.1", 0, "--address")
    tls = OwnTls(("localhost",), SystemClock().now())
    server = Server(
        page_app(Site(found), access, limits.reached), listener, tls.context, limits=limits
    )
    server.start("page")
    yield Guarded(f"https://localhost:{listener.getsockname()[1]}", clock)
    server.end()


def log_in(browser: Browser, token: str) -> None:
    """Send a token by the form."""
    browser.write(FORM, token)
    browser.click("form.login button")


def test_login(browser: Browser, guarded: Guarded) -> None:
    """The form leads to where one wanted to go; what one may not see is not there."""
    browser.open(f"{guarded.url}/?words=web")
    assert (faint(browser), wide(browser), unnamed(browser)) == ([], [], [])
    log_in(browser, "no-token")
    eventually(lambda: browser.count("[role=alert]") == 1, "the form says what is wrong")
    log_in(browser, "alice-token")

    eventually(lambda: browser.texts("#workloads tbody th a") == ["web"], "the rows are seen")
    assert browser.url == f"{guarded.url}/?words=web"
    browser.open(f"{guarded.url}/")
    assert "vault" not in browser.text()
    assert "secret" not in browser.text()
    assert browser.run("return document.cookie") == ""
    browser.listen()
    browser.complaints.clear()  # of the status of the refusal


def test_expiry(browser: Browser, guarded: Guarded) -> None:
    """After a quarter of an hour the page asks for a token again, by itself."""
    browser.open(guarded.url)
    log_in(browser, "alice-token")
    eventually(lambda: browser.count("#workloads") == 1, "the fleet is seen")

    guarded.clock.wait(SECONDS)
    eventually(lambda: browser.text("h1") == "Log in", "the form")
    log_in(browser, "alice-token")
    eventually(lambda: browser.text("h1") == "Fleet", "the page that was seen before")


def test_logout(browser: Browser, guarded: Guarded) -> None:
    """Who logs out sees nothing any more, not by going back either."""
    browser.open(guarded.url)
    log_in(browser, "alice-token")
    eventually(lambda: browser.count("form.logout") == 1, "one is logged in")

    browser.click("form.logout button")
    eventually(lambda: browser.text("h1") == "Log in", "the form")
    browser.open(guarded.url)
    assert browser.text("h1") == "Log in"
