"""What is answered to a browser: a view as HTML or as JSON, or what is wrong with the question."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

import orjson
from starlette.responses import Response

from app.model.errors import ClusterError
from app.model.text import nearest
from app.model.times import rfc3339
from app.page.access import LoginNeeded, PageAccess, Visit
from app.page.core.installation import NOT_FRESH, banners
from app.page.core.written import page_json, view_json
from app.page.documentation import docs_page, docs_texts
from app.page.rendering import Templates, part
from app.page.site import (
    ALL,
    PLACES,
    PageLink,
    PageProblem,
    ShownPage,
    Site,
    Viewer,
    fleet_path,
    row_path,
)
from app.runtime.answers import Refusal

log = logging.getLogger("page.answers")

JSON: Final = ".json"  # the ending of the path of a view for programs
LOGIN: Final = "/login"
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_TITLES: Final = {
    400: "Not understood",
    401: "Not logged in",
    403: "Not allowed",
    404: "Not here",
    405: "Nothing to change here",
}
_HTML: Final = "text/html; charset=utf-8"
_MOST_FIELDS: Final = 8  # of the form

Find = Callable[[Viewer], ShownPage]


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """A page that is asked for, and by whom."""

    find: Find
    visit: Visit
    path: str  # of the page
    query: str = ""
    wants_json: bool = False

    @property
    def json_path(self) -> str:
        """Where the same view is, as JSON."""
        stem = "/fleet" if self.path == "/" else self.path
        return f"{stem}{JSON}" + (f"?{self.query}" if self.query else "")


class PageAnswers:
    """Writes pages, and what there is to say where there is none."""

    def __init__(self, site: Site, access: PageAccess) -> None:
        self._access = access
        self._refresh_seconds = round(site.refresh_seconds)
        self._templates = Templates({"fleet_path": fleet_path, "row_path": row_path})

    def answer(self, question: PageQuestion) -> Response:
        """Answer a question."""
        try:
            viewer = self._access.viewer(question.visit)
            return self._written(question.find(viewer), question, viewer)
        except LoginNeeded:
            return self._stranger(question)
        except PageProblem as problem:
            return self._problem(problem, wants_json=question.wants_json)
        except Refusal as error:
            told = PageProblem(error.status, str(error))
            return self._problem(told, wants_json=question.wants_json, headers=error.headers)
        except ClusterError as error:
            told = PageProblem(503, f"the cluster gives no answer: {error}", ALL)
            return self._problem(told, wants_json=question.wants_json)
        except Exception:
            log.exception("page not made")
            told = PageProblem(500, "something is broken; the log tells what", ALL)
            return self._problem(told, wants_json=question.wants_json)

    def documentation(self, name: str) -> Response:
        """Answer with a page of the documentation."""
        page, names = docs_page(name), list(docs_texts())
        if page is None:
            links = [PageLink(one, f"/docs/{one}") for one in names]
            told = f'there is no page "{name}"{nearest(name, names)}'
            return self._problem(PageProblem(404, told, links), wants_json=False)
        return self._page("docs", page.title, {"page": page, "names": names}, here="/docs/page")

    def login_form(self, to: str, told: str = "", status: int = 200) -> Response:
        """Answer with the form that takes a token; `to` is where it leads."""
        return self._page("login", "Log in", {"told": told, "to": local_path(to)}, status)

    def form_sent(self, visit: Visit, body: bytes) -> Response:
        """Answer who sent the form."""
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS)
        except ValueError:
            return self.refused(LOGIN, 400, "this is no form of this page: too many fields")
        token, to = (fields.get(name, [""])[0] for name in ("token", "to"))
        return self.logged_in(visit, token, to or "/")

    def logged_in(self, visit: Visit, token: str, to: str) -> Response:
        """Answer who sent a token: on to the page, with a session; or with the form again."""
        try:
            session, seconds = self._access.begin(visit, token)
        except LoginNeeded:
            return self.login_form(to, "This token is not known.", 401)
        except Refusal as error:
            return self.login_form(to, f"{error}.", error.status)
        except PageProblem as problem:
            return self._problem(problem, wants_json=False)
        return led(local_path(to), cookie=self._access.cookie.text(session, seconds))

    def logged_out(self, visit: Visit) -> Response:
        """End a session."""
        self._access.end(visit.session)
        return led(LOGIN, cookie=self._access.cookie.nothing)

    def refused(self, path: str, status: int, message: str) -> Response:
        """Answer a question that no page is for."""
        return self._problem(PageProblem(status, message, ALL), wants_json=path.endswith(JSON))

    def _stranger(self, question: PageQuestion) -> Response:
        """Answer who is not known."""
        if self._access.takes_tokens and not question.wants_json:
            query = f"?{question.query}" if question.query else ""
            return led(f"{LOGIN}?to={part(question.path + query)}")
        how = (
            "send `Authorization: Bearer TOKEN`"
            if self._access.takes_tokens
            else "open the link that was printed; it works once, so a new one needs a restart"
        )
        headers = {"www-authenticate": 'Bearer realm="plumbline"'}
        return self._problem(
            PageProblem(401, f"it is not known who you are: {how}"),
            wants_json=question.wants_json,
            headers=headers if self._access.takes_tokens else None,
        )

    def _written(self, page: ShownPage, question: PageQuestion, viewer: Viewer) -> Response:
        picture = page.picture
        if question.wants_json:
            stale = picture.problem and (picture.problem if viewer.may_see("") else NOT_FRESH)
            told = {"at": rfc3339(picture.now), "problem": stale}
            return sent(orjson.dumps(told | page_json(page.view)))
        around = {
            "view": page.view,
            "picture": picture,
            "now": picture.now,
            "json_path": question.json_path,
            "banners": list(banners(picture, viewer.may_see)),
            "refresh_seconds": self._refresh_seconds,
            "viewer": viewer,
            **page.around,
        }
        return self._page(page.template, page.title, around, here=question.path)

    def _problem(
        self,
        problem: PageProblem,
        *,
        wants_json: bool,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        if wants_json:
            told = {"status": problem.status, "detail": str(problem), "instead": problem.instead}
            return sent(orjson.dumps(view_json(told)), problem.status, headers=headers)
        title = _TITLES.get(problem.status, "No answer")
        found = self._page("problem", title, {"problem": problem}, problem.status)
        found.headers.update(headers or {})
        return found

    def _page(
        self,
        template: str,
        title: str,
        values: Mapping[str, object],
        status: int = 200,
        here: str = "",
    ) -> Response:
        around = {"title": title, "places": PLACES, "here": here, **values}
        return sent(self._templates.page(template, **around), status, _HTML)


def local_path(text: str) -> str:
    """Return a path of this page, whatever else was written."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\", LOGIN))
    return text if is_local and text.isprintable() else "/"


def sent(
    body: bytes,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a response that no other origin can use."""
    return Response(body, status, {**_HEADERS, **(headers or {})}, media_type)


def led(path: str, cookie: str = "") -> Response:
    """Return a response that leads to another page of ours."""
    headers = {"location": path} | ({"set-cookie": cookie} if cookie else {})
    return sent(b"", 303, "text/plain", headers)
