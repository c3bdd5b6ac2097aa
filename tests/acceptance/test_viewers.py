"""The page as it is shipped: who may see what of a real cluster, settled by its API server.

Strategy: base and page are installed on a cluster of its own, and run in their pods' place. Two
teams have a namespace each; a viewer follows every link that it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from http import HTTPStatus
from typing import Any, Final

import httpx
import pytest

from app.admission.core.rotation import EXPIRY_ANNOTATION
from app.kube.access_review import AUDIENCE
from app.model.fields import Json, time_at
from app.page.sessions import SECURE
from app.ports import LEASES, PODS, VPAS
from app.runtime.clock import SystemClock
from tests.acceptance.asked import asked
from tests.acceptance.installed import Installed, account, installed_from, trusting
from tests.acceptance.logs import Logs
from tests.acceptance.rights import allow, token
from tests.acceptance.space import APP, SMALL, Space, new_space, workload
from tests.acceptance.templates import DEPLOY, kustomized
from tests.cases import cases
from tests.cluster.api import SERVICE_ACCOUNTS, Api
from tests.cluster.programs import eventually

OURS, THEIRS = "team-ours", "team-theirs"
NUMBERS: Final = {OURS: "300m/300Mi", THEIRS: "777m/777Mi"}  # recommended; requested: 100m/100Mi
REPLICAS: Final = {OURS: 2, THEIRS: 3}
LONE: Final = "lone"  # a Deployment without a VPA, in each namespace
OF_THE_CLUSTER: Final = "the cluster"  # a viewer who may list everywhere
KINDS: Final = (
    "/", "/feed", "/installation", "/docs/*", "/namespaces/*/vpas/*",
    "/namespaces/*/workloads/*/*", "/namespaces/*/pods/*",
)  # fmt: skip
_LINK: Final = re.compile(r'href="(/[^"#]*)')
_MOST: Final = 60  # places that a walk goes to


@dataclass(frozen=True, slots=True)
class House:
    """The page, and viewers with their tokens."""

    installed: Installed
    client: httpx.Client
    tokens: dict[str, str]

    def ask(self, path: str, who: str = "", **headers: str) -> httpx.Response:
        """Ask as somebody, without a session."""
        self.client.cookies.clear()
        told = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        return self.client.get(path, headers={**told, **headers})

    def json(self, path: str, who: str) -> Any:  # noqa: ANN401  JSON
        """Return a view."""
        return self.ask(path, who).raise_for_status().json()

    def walk(self, who: str) -> dict[str, str]:
        """Follow all links, JSON too; return the texts of all pages, which must all be there."""
        found: dict[str, str] = {}
        left = ["/"]
        while left and len(found) < _MOST:
            path = left.pop(0)
            answer = self.ask(path, who)
            assert answer.status_code == HTTPStatus.OK, f"{path}: {answer.text[:400]}"
            found[path] = answer.text
            for link in map(unescape, _LINK.findall(answer.text)):
                is_new = link not in found and link not in left
                if is_new and not link.startswith(("/static/", "/?")):
                    left.append(link)
        return found


def settled(installed: Installed) -> House:
    """Return the house once the page has seen all that is in it."""
    admin = installed.admin
    for name in (OURS, THEIRS):
        space = new_space(admin, name)
        space.vpa(f"vpa-of-{name}", updatePolicy={"updateMode": "Off"})
        space.deployment(SMALL, replicas=REPLICAS[name])
        space.create(workload("Deployment", [SMALL], replicas=1, name=LONE, app=LONE))
        space.recommend({APP: NUMBERS[name]}, f"vpa-of-{name}")
    url, client = installed.url("page"), httpx.Client(verify=trusting(), timeout=30)
    client.base_url = httpx.URL(url)
    found = House(installed, client, viewers(admin))

    def is_seen() -> bool:
        wanted = sum(REPLICAS.values())
        return bool(found.json("/fleet.json", OF_THE_CLUSTER)["sums"].get("pods") == wanted)

    eventually(is_seen, "the page has seen all pods", seconds=120, every=1)
    return found


def viewers(admin: Api) -> dict[str, str]:
    """Let there be viewers; return a token of each."""
    kind = {"apiVersion": "v1", "kind": "ServiceAccount"}
    for name in ("viewer", "half", "stranger"):
        admin.create({**kind, "metadata": {"name": name, "namespace": OURS}})
    for name, resources in (("viewer", (VPAS, PODS)), ("half", (VPAS,))):
        for one in resources:
            rule = {"apiGroups": [one.group], "resources": [one.plural], "verbs": ["list"]}
            allow(admin, OURS, f"{name}-{one.plural}", rule, {"name": name, "namespace": OURS})
    eventually(lambda: admin.find(SERVICE_ACCOUNTS, OURS, "viewer"), "the accounts are there")
    return {
        OF_THE_CLUSTER: admin.token,
        **{name: token(admin, OURS, name) for name in ("viewer", "half", "stranger")},
        "viewer, for us alone": token(admin, OURS, "viewer", audiences=[AUDIENCE]),
        "misdirected": token(admin, OURS, "viewer", audiences=["somebody-else"]),
        "garbage": "abc.def.ghi",
    }


@pytest.fixture(scope="module")
def house(logs: Logs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The base with the page."""
    documents = kustomized(DEPLOY / "overlays/page")
    with installed_from(documents, tmp_path_factory.mktemp("page"), logs) as installed:
        found = settled(installed)
        yield found
        found.client.close()


def test_every_page_answers_a_viewer(house: House) -> None:
    """Whoever may list VPAs and pods of a namespace finds each sort of page, as JSON too."""
    found = house.walk("viewer")
    kinds = {re.sub(r"(?<=/(?:docs|vpas|pods)/)[^/]+$", "*", path) for path in map(_stem, found)}
    kinds = {re.sub(r"^/namespaces/[^/]+", "/namespaces/*", path) for path in kinds}
    kinds = {re.sub(r"/workloads/.*", "/workloads/*/*", path) for path in kinds}

    assert kinds >= {*KINDS}
    views = {path for path in map(_stem, found) if not path.startswith("/docs/")}
    assert {path for path in views if f"{'/fleet' if path == '/' else path}.json" in found} == views


def _stem(path: str) -> str:
    """Return the path of a page without its range and the ending for programs."""
    stem = path.partition("?")[0].removesuffix(".json")
    return "/" if stem == "/fleet" else stem


def test_nothing_tells_of_other_namespaces(house: House) -> None:
    """On no page, nor in its JSON, a name or a number of a namespace is that one may not see."""
    pages = {
        path: text for path, text in house.walk("viewer").items() if not path.startswith("/docs/")
    }
    told = [path for path, text in pages.items() if THEIRS in text or "777" in text]
    of_the_cluster = house.walk(OF_THE_CLUSTER)

    assert len(pages) > 10
    assert told == []
    assert [path for path, text in of_the_cluster.items() if THEIRS in text]  # else it tells little
    for path in (
        f"/namespaces/{THEIRS}/vpas/vpa-of-{THEIRS}",
        f"/namespaces/{THEIRS}/workloads/Deployment/{LONE}",
        f"/?namespace={THEIRS}",
    ):
        assert house.ask(path, OF_THE_CLUSTER).status_code == HTTPStatus.OK, path
        hidden = house.ask(path, "viewer")
        nothing = house.ask(path.replace(THEIRS, "team-nowhere"), "viewer")
        assert hidden.status_code == nothing.status_code == HTTPStatus.NOT_FOUND, path
        assert hidden.text.replace(THEIRS, "team-nowhere") == nothing.text  # nor that it exists


def test_counts_and_sums_are_those_of_ones_own(house: House) -> None:
    """What they come to is what the API server holds of the namespaces that one may see."""
    own, whole = (house.json("/fleet.json", who) for who in ("viewer", OF_THE_CLUSTER))
    counted = {name: _counted(house.installed.admin, name) for name in (OURS, THEIRS)}

    assert own["sums"]["pods"] == counted[OURS]["pods"] == REPLICAS[OURS]
    assert own["sums"]["cpu"]["request"] == counted[OURS]["request"]
    assert own["sums"]["cpu"]["target"] == REPLICAS[OURS] * 300
    assert (own["sums"]["sized"], own["sums"]["unsized"], own["found"]) == (1, 1, 2)
    assert own["sums"]["reasons"] == {"ModeOff": REPLICAS[OURS]}
    assert own["namespaces"] == [OURS]
    assert whole["sums"]["sized"] == 2
    assert whole["sums"]["cpu"]["target"] == sum(
        count * int(NUMBERS[name].partition("m")[0]) for name, count in REPLICAS.items()
    )


def _counted(admin: Api, namespace: str) -> Json:
    pods = Space(admin, namespace).pods(REPLICAS[namespace])
    return {"pods": len(pods), "request": 100 * len(pods)}


@cases(
    "who status workloads",
    {
        "all of it": (OF_THE_CLUSTER, 200, None),
        "one namespace": ("viewer", 200, 2),
        "a token for us alone": ("viewer, for us alone", 200, 2),
        "VPAs but not pods": ("half", 200, 0),
        "nothing": ("stranger", 200, 0),
        "for somebody else": ("misdirected", 401, None),
        "no token": ("garbage", 401, None),
    },
)
def test_tokens(house: House, who: str, status: int, workloads: int | None) -> None:
    """The API server says whose a token is, and what that account may list."""
    answer = house.ask("/fleet.json", who)

    assert answer.status_code == status, answer.text
    if workloads is not None:
        assert answer.json().get("found", 0) == workloads
    if workloads == 0:
        assert "kubectl auth can-i list" in house.ask("/", who).text


def test_a_session_in_the_place_of_a_token(house: House) -> None:
    """The form takes a token once; the cookie that it gives is another thing, and ends."""
    client, token = house.client, house.tokens["viewer"]
    client.cookies.clear()
    answer = client.post("/login", data={"token": token, "to": "/feed"})
    cookie = answer.headers["set-cookie"]

    assert (answer.status_code, answer.headers["location"]) == (303, "/feed")
    assert cookie.startswith(f"{SECURE.name}=")
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=900"} <= {
        *cookie.split("; ")
    }
    assert token not in cookie
    assert client.get("/fleet.json").json()["namespaces"] == [OURS]
    client.post("/logout")
    client.cookies.set(*cookie.partition(";")[0].split("=", 1))
    assert client.get("/fleet.json").status_code == HTTPStatus.UNAUTHORIZED


def test_the_webhook_tells_until_when_its_certificate_is_valid(house: House) -> None:
    """On its Lease, which the page may read, as it may read no Secret."""
    admin, name = house.installed.admin, "vpa-admission-controller"

    def told() -> datetime | None:
        found = admin.get(LEASES, "kube-system", name)["metadata"].get("annotations")
        return time_at(found or {}, EXPIRY_ANNOTATION, "")

    found = eventually(told, "the Lease has the annotation")
    assert found is not None
    assert found > SystemClock().now()


def test_it_only_reads(house: House) -> None:
    """Whatever was asked for, it has created nothing but questions about who may do what."""
    house.walk("viewer")
    found = asked(house.installed.plane.audit_log)
    wrote = {
        (each.verb, each.resource)
        for each in found
        if each.account == account("vpa-page") and each.verb not in ("get", "list", "watch")
    }

    asking = ("tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews")
    assert wrote == {("create", what) for what in asking}
