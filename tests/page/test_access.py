"""Who may see the page, and what of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from app.kube.access_review import AccessReviews
from app.model.errors import Unavailable
from app.model.fields import Json
from app.page.access import LinkAccess, OpenAccess, PageAccess, TokenAccess, Visit
from app.page.app import page_app
from app.page.page_answers import local_path
from app.page.pictures import Pictures
from app.page.seen_namespaces import SeenNamespaces
from app.page.sessions import Sessions
from app.page.site import Site
from app.ports import PODS, VPAS, Cluster, Resource
from app.runtime.access import Caller, Guard
from app.runtime.answers import Refusal
from tests import make
from tests.cases import cases
from tests.page.shown import pictures, shop
from tests.reached_limits import ReachedLimits
from tests.runtime.authorities import Authorities
from tests.sandbox.worlds import SteppedSandbox
from tests.stepped_clock import SteppedClock

ALICE = {"authorization": "Bearer alice-token"}
SECRET = [
    make.vpa_json("vault", namespace="secret", target="Deployment/vault", cpu="1"),
    make.workload_json("Deployment/vault", namespace="secret"),
    make.running_json(
        make.pod_json(name="vault-0", namespace="secret", owner="Deployment/vault", cpu="4")
    ),
]


@dataclass
class Door:
    """A page behind some access, and a browser in front of it."""

    access: PageAccess
    pictures: Pictures = field(default_factory=lambda: pictures(*shop(), *SECRET))
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        path: str,
        method: str = "GET",
        url: str = "https://localhost",
        body: dict[str, str] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Ask as a browser does that keeps cookies."""
        sent = dict(headers or {})
        if self.cookies:
            sent["cookie"] = "; ".join(f"{key}={value}" for key, value in self.cookies.items())

        async def exchange() -> httpx.Response:
            app = page_app(Site(self.pictures), self.access, ReachedLimits())
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url=url) as client:
                form = {"content" if isinstance(body, bytes) else "data": body}
                return await client.request(method, path, headers=sent, **form)  # type: ignore[arg-type]

        found = asyncio.run(exchange())
        if (cookie := found.headers.get("set-cookie")) is not None:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return found


class Guarded(Door):
    """A page that asks an API server; Alice may see one of two namespaces, Bob all."""

    def __init__(self, *, has_tls: bool = True) -> None:
        self.clock = SteppedClock()
        self.authorities = Authorities(SteppedSandbox().sandbox.cluster)
        self.authorities.know("alice-token", "alice")
        self.authorities.know("bob-token", "bob")
        for user, namespace in (("alice", "default"), ("bob", "")):
            self.authorities.grant(user, "list", namespace)
            self.authorities.grant(user, "list", namespace, resource=PODS)
        reviews = AccessReviews(cast("Cluster", self.authorities), self.clock, ReachedLimits())
        self.guard = Guard(reviews)

        def namespaces() -> set[str]:
            latest = self.pictures.latest
            return latest.told_of if latest is not None else set()

        access = TokenAccess(self.guard, self.clock.monotonic, namespaces, has_tls=has_tls)
        super().__init__(access, pictures(*shop(), *SECRET))

    def log_in(
        self, token: str = "alice-token", to: str = "/", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send a token by the form."""
        return self.ask("/login", "POST", body={"token": token, "to": to}, headers=headers)


# --- in a cluster


def test_who_is_not_known_is_led_to_the_form() -> None:
    """Behind the form it goes on where it began; programs are told to send a token."""
    found = Guarded().ask("/feed?x=1")
    assert found.status_code == 303
    assert parse_qs(urlsplit(found.headers["location"]).query) == {"to": ["/feed?x=1"]}
    told = Guarded().ask("/fleet.json")
    assert (told.status_code, "Bearer" in told.headers["www-authenticate"]) == (401, True)
    assert "vault" not in told.text


def test_a_token_becomes_a_session() -> None:
    """The cookie holds a random id, is sent to this host alone over TLS, and lasts 15 minutes."""
    door = Guarded()
    found = door.log_in(to="/feed")
    cookie = found.headers["set-cookie"]
    assert (found.status_code, found.headers["location"]) == (303, "/feed")
    assert cookie.startswith("__Host-plumbline=")
    for word in ("HttpOnly", "SameSite=Strict", "Secure", "Path=/", "Max-Age=900"):
        assert word in cookie
    assert "alice" not in cookie
    assert "Log out alice" in door.ask("/").text


def test_a_session_ends_by_itself() -> None:
    """However much it is used."""
    door = Guarded()
    door.log_in()
    door.clock.wait(899)
    assert door.ask("/").status_code == 200
    door.clock.wait(2)
    assert door.ask("/").status_code == 303


def test_a_session_is_ended_by_who_has_it() -> None:
    """Logging out deletes the cookie, and the id is worth nothing any more."""
    door = Guarded()
    door.log_in()
    kept = dict(door.cookies)
    assert "Max-Age=0" in door.ask("/logout", "POST").headers["set-cookie"]
    door.cookies = kept
    assert door.ask("/").status_code == 303


@cases(
    "token headers status",
    {
        "an unknown token": ("nonsense", {}, 401),
        "no token": ("", {}, 401),
        "a form of another site": ("alice-token", {"sec-fetch-site": "cross-site"}, 403),
        "of a service beside it": ("alice-token", {"sec-fetch-site": "same-site"}, 403),
        "of an older browser": ("alice-token", {"origin": "https://evil.example"}, 403),
        "of nowhere": ("alice-token", {"origin": "null"}, 403),
        "of our own": ("alice-token", {"origin": "https://localhost"}, 303),
        "of our own, without a referrer": (
            "alice-token",
            {"origin": "null", "sec-fetch-site": "same-origin"},
            303,
        ),
    },
)
def test_who_sends_no_good_token_is_not_let_in(
    token: str, headers: dict[str, str], status: int
) -> None:
    """Without a form of our own and a token no cookie is set."""
    found = Guarded().log_in(token, headers=headers)
    assert (found.status_code, "set-cookie" in found.headers) == (status, status == 303)


@cases(
    "headers",
    {"sent by it": ({"sec-fetch-site": "cross-site"},), "told": ({"origin": "https://evil"},)},
)
def test_no_other_site_ends_a_session(headers: dict[str, str]) -> None:
    """Its form is refused, and the session goes on."""
    door = Guarded()
    door.log_in()
    assert door.ask("/logout", "POST", headers=headers).status_code == 403
    assert door.ask("/").status_code == 200


@cases(
    "body status",
    {
        "as large as no token": (b"token=" + b"a" * 40_000, 413),
        "many fields": (b"&".join(b"%d=1" % number for number in range(50)), 400),
    },
)
def test_a_body_that_no_form_sends_costs_nothing(body: bytes, status: int) -> None:
    """It is refused before it is taken apart, as anyone could send it."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert Guarded().ask("/login", "POST", body=body, headers=headers).status_code == status


def test_a_token_does_not_belong_into_an_address() -> None:
    """Addresses are logged, and others lead to them: a link logs in only if one was printed."""
    door = Guarded()
    found = door.ask("/enter/alice-token", headers={"sec-fetch-site": "cross-site"})
    assert (found.status_code, "set-cookie" in found.headers) == (404, False)


def test_nobody_ends_the_sessions_of_others() -> None:
    """Whoever logs in often loses sessions of its own."""
    door, other = Guarded(), Guarded()
    other.access, other.clock = door.access, door.clock
    door.log_in()
    for _ in range(1100):
        other.access.begin(Visit(Caller("", is_private=True), "localhost", ""), "bob-token")
    assert door.ask("/").status_code == 200


def test_what_cannot_be_checked_is_not_let_in() -> None:
    """An API server that gives no answer closes the page, and says so."""
    door = Guarded()
    door.log_in()
    door.clock.wait(100)
    door.authorities.error = Unavailable("away")
    found = door.ask("/")
    assert found.status_code == 503
    assert "access cannot be checked" in found.text
    assert Guarded().log_in("alice-token").status_code == 303


def test_nothing_tells_of_other_namespaces() -> None:
    """Rows, sums, counts and names of what one may not see are not there."""
    door = Guarded()
    mine = door.ask("/fleet.json", headers=ALICE).json()
    assert {row["namespace"] for row in mine["rows"]} == {"default"}
    assert (mine["namespaces"], mine["sums"]["sized"]) == (["default"], 1)
    assert mine["sums"]["cpu"]["request"] == 200
    for path in ("/", "/feed", "/installation", "/feed.json", "/installation.json"):
        assert "vault" not in door.ask(path, headers=ALICE).text


@cases("lacks", {"VPAs": (VPAS,), "pods": (PODS,)})
def test_both_rights_are_needed(lacks: Resource) -> None:
    """Who may list but one of both sees nothing of a namespace."""
    door = Guarded()
    door.authorities.grants = {
        one for one in door.authorities.grants if one[0] != "alice" or one[2] != lacks.plural
    }
    assert door.ask("/fleet.json", headers=ALICE).json().get("rows", []) == []


def test_events_of_other_namespaces_are_not_told() -> None:
    """A pod of the same name elsewhere is another one, on its page and on the charts."""
    door = Guarded()
    door.pictures = pictures(*shop(), *SECRET, event("secret"), event("default"))
    for path in (
        "/namespaces/default/pods/web-0",
        "/namespaces/default/pods/web-0.json",
        "/namespaces/default/vpas/web?range=24h",
        "/namespaces/default/vpas/web.json?range=24h",
    ):
        told = door.ask(path, headers=ALICE).text
        assert "told of default" in told
        assert "told of secret" not in told


def event(namespace: str) -> Json:
    """Return what happened to pod web-0 of a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "web-0", "uid": "u"},
        "reason": "EvictedByVPA",
        "message": f"told of {namespace}",
        "source": {"component": "vpa-updater"},
        "lastTimestamp": make.time(timedelta(minutes=5)),
    }


def test_who_may_see_all_is_shown_all() -> None:
    """One question to the API server is enough then."""
    door = Guarded()
    bob = {"authorization": "Bearer bob-token"}
    assert len(door.ask("/fleet.json", headers=bob).json()["rows"]) == 2
    namespaces = {
        one["spec"]["resourceAttributes"]["namespace"]
        for one in door.authorities.asked
        if "resourceAttributes" in one["spec"]
    }
    assert namespaces == {""}


@cases(
    "path",
    {
        "a VPA": ("/namespaces/{}/vpas/vault",),
        "a pod": ("/namespaces/{}/pods/vault-0",),
        "a workload": ("/namespaces/{}/workloads/Deployment/vault",),
        "a filter": ("/?namespace={}",),
    },
)
def test_a_namespace_that_may_not_be_seen_is_as_one_that_is_not(path: str) -> None:
    """Both have the same answer but for the name."""
    door = Guarded()
    hidden, absent = (door.ask(path.format(name), headers=ALICE) for name in ("secret", "sacred"))
    assert hidden.status_code == absent.status_code == 404
    assert hidden.text.replace("secret", "sacred") == absent.text


def test_rights_are_asked_for_again() -> None:
    """What was taken away is not shown for more than a minute or so."""
    door = Guarded()
    assert len(door.ask("/fleet.json", headers=ALICE).json()["rows"]) == 1
    asked = len(door.authorities.asked)
    assert door.ask("/", headers=ALICE).status_code == 200
    assert len(door.authorities.asked) == asked
    door.authorities.grants.clear()
    door.clock.wait(61)
    assert (
        "rows" not in door.ask("/fleet.json", headers=ALICE).json()
        or not (door.ask("/fleet.json", headers=ALICE).json()["rows"])
    )


def test_a_cluster_of_many_namespaces() -> None:
    """What may not be seen is asked about once in some minutes, and what has no rows never."""
    door = Guarded()
    others = [make.vpa_json("a", namespace=f"team-{n}", target="Deployment/a") for n in range(300)]
    limits = make.limit_range_json(namespace="bare")
    door.pictures = pictures(*shop(), *others, limits)
    about = door.authorities.asked

    def asked(seconds: float) -> list[str]:
        door.clock.wait(seconds)
        before = len(about)
        assert door.ask("/fleet.json", headers=ALICE).json()["namespaces"] == ["default"]
        found = [one["spec"].get("resourceAttributes", {}) for one in about[before:]]
        return [one["namespace"] for one in found if "namespace" in one]

    assert len(asked(0)) == 1 + 300 + 2  # all of them, each, and pods where VPAs may be listed
    assert "bare" not in asked(0)
    assert asked(61) == ["", "default", "default"]
    later = [len(asked(61)) for _ in range(8)]
    assert max(later) < 150  # they are not all asked about in the same minute
    assert 300 < sum(later) < 700


def test_requests_of_one_viewer_ask_once() -> None:
    """While one asks the others wait for its answers."""
    door = Guarded()
    visit = Visit(Caller(ALICE["authorization"], is_private=True), "localhost", "")
    with ThreadPoolExecutor(8) as pool:
        viewers = list(pool.map(lambda _: door.access.viewer(visit), range(8)))
    namespaces = [one["spec"] for one in door.authorities.asked if "user" in one["spec"]]
    assert all(viewer.may_see("default") and not viewer.may_see("secret") for viewer in viewers)
    assert len(namespaces) == 4


def test_what_takes_long_is_not_waited_for() -> None:
    """The page says so, and what was answered meanwhile is not asked again."""
    door = Guarded()
    names = [f"team-{number}" for number in range(200)]
    slow = SeenNamespaces(door.guard, lambda: len(door.authorities.asked) / 10.0)
    alice = door.guard.identify(Caller(ALICE["authorization"]))
    assert alice is not None
    with pytest.raises(Refusal, match="still being asked") as refused:
        slow.of(alice, names)
    asked = len(door.authorities.asked)
    assert (refused.value.status, asked < 150) == (503, True)


def test_a_login_asks_again() -> None:
    """Who was given a right sees what it opens after the next login."""
    door = Guarded()
    assert door.ask("/fleet.json", headers=ALICE).json()["namespaces"] == ["default"]
    door.authorities.grant("alice", "list", "secret")
    door.authorities.grant("alice", "list", "secret", resource=PODS)
    door.clock.wait(11)
    door.log_in()
    assert door.ask("/fleet.json").json()["namespaces"] == ["default", "secret"]


def test_what_is_wrong_with_the_cluster_is_told_to_those_who_see_it() -> None:
    """Others are told that it is so, and no name."""
    door = Guarded()
    assert door.pictures.latest is not None
    door.pictures.latest = replace(
        door.pictures.latest, problem="pods of secret were lost", webhook="node-7 is away"
    )
    bob = {"authorization": "Bearer bob-token"}
    for path in ("/", "/fleet.json"):
        assert "pods of secret" in door.ask(path, headers=bob).text
        assert "pods of secret" not in door.ask(path, headers=ALICE).text
        assert "not up to date" in door.ask(path, headers=ALICE).text
    assert "node-7" not in door.ask("/", headers=ALICE).text


def test_without_tls_the_cookie_has_another_name() -> None:
    """A browser refuses the strict one over plain HTTP."""
    assert Guarded(has_tls=False).access.cookie.name == "plumbline"


# --- on one machine


def test_loopback_is_open_under_its_own_name() -> None:
    """Another site whose name is made to lead here reads nothing."""
    door = Door(OpenAccess())
    assert door.ask("/", url="http://127.0.0.1:8945").status_code == 200
    assert door.ask("/", url="http://evil.example:8945").status_code == 421


def test_a_link_is_opened_under_our_own_name() -> None:
    """Another site whose name leads here neither reads a page nor uses the link up."""
    access = LinkAccess(SteppedClock().monotonic)
    door = Door(access)
    enter, evil = f"/enter/{access.token}", "http://evil.example:8945"
    assert door.ask(enter, url=evil).status_code == 421
    found = door.ask(enter, url="http://localhost:8945")
    assert (found.status_code, "HttpOnly" in found.headers["set-cookie"]) == (303, True)
    assert door.ask("/", url=evil).status_code == 421


def test_sessions_are_bounded() -> None:
    """The oldest ends when there are too many, whoever they are of."""
    sessions = Sessions[int](SteppedClock().monotonic)
    ids = [sessions.begin(number) for number in range(1001)]
    assert [sessions.of(ids[0]), sessions.of(ids[1]), sessions.of(ids[-1])] == [None, 1, 1000]


def test_two_links_of_one_machine() -> None:
    """Cookies know no ports, so each page has a name of its own for what a browser keeps."""
    clock = SteppedClock()
    first, second = (LinkAccess(clock.monotonic) for _ in range(2))
    browser = Door(first)
    for access in (first, second):
        browser.access = access
        browser.ask(f"/enter/{access.token}")
    browser.access = first
    assert browser.ask("/").status_code == 200
    clock.wait(86_401)
    assert browser.ask("/").status_code == 401


@cases("path", {"the form": ("/login",), "a link": ("/enter/token",)})
def test_where_all_may_look_nobody_logs_in(path: str) -> None:
    """No form asks for a token of the cluster, over plain HTTP, that nobody needs."""
    assert Door(OpenAccess()).ask(path).status_code == 404
    assert Door(OpenAccess()).ask("/login", "POST", body={"token": "a"}).status_code == 404


def test_a_link_works_once() -> None:
    """The browser that opens it first is let in, and no other one."""
    access = LinkAccess(SteppedClock().monotonic)
    first, second = Door(access), Door(access)
    assert first.ask("/").status_code == 401
    assert first.ask("/enter/nonsense").status_code == 401
    assert first.ask(f"/enter/{access.token}").status_code == 303
    assert first.ask("/").status_code == 200
    assert second.ask(f"/enter/{access.token}").status_code == 401
    assert second.ask("/").status_code == 401
    assert second.ask("/fleet.json").status_code == 401
    first.ask("/logout", "POST")
    assert first.ask("/").status_code == 401


# --- whoever asks


@cases("method", {"a form": ("POST",), "a change": ("PUT",), "a deletion": ("DELETE",)})
def test_nothing_changes_anything(method: str) -> None:
    """Pages can be read, and that is all."""
    for path in ("/", "/namespaces/default/vpas/web", "/feed"):
        assert Door(OpenAccess()).ask(path, method).status_code == 405


@cases(
    "text path",
    {
        "a page": ("/feed?x=1", "/feed?x=1"),
        "another site": ("//evil.example", "/"),
        "another site by a backslash": ("/\\evil.example", "/"),
        "a whole address": ("https://evil.example", "/"),
        "the form itself": ("/login", "/"),
        "a line break": ("/a\r\nset-cookie: a=b", "/"),
    },
)
def test_a_login_leads_to_pages_of_ours(text: str, path: str) -> None:
    """Whatever a link to the form says."""
    assert local_path(text) == path
