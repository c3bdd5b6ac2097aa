"""The pages as they are asked for over HTTP: which path shows what, as HTML or as JSON.

Strategy: a path finds a view, and the same view is written in both forms. What is asked for wrongly
is answered by a page as well, which says what there is instead. Views are made in a few threads,
so that a large one keeps nothing else waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from app.page.access import PageAccess, Visit
from app.page.page_answers import JSON, LOGIN, Find, PageAnswers, PageQuestion, sent
from app.page.site import ShownPage, Site, Viewer
from app.ports import LimitReached
from app.runtime.access import Caller
from app.runtime.answers import AnswerThreads, Refusal

_THREADS: Final = 4
_STATIC: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_ELSEWHERE: Final = ("cross-site", "same-site")  # sent by forms of other sites
_MOST_BODY: Final = 32 * 1024  # bytes; a token has half of that at most
_NO_LOGIN: Final = "nobody has to log in here"


class PageServer:
    """Has pages made in threads, one for each question."""

    def __init__(self, site: Site, access: PageAccess, reached: LimitReached) -> None:
        self.access = access
        self.answers = PageAnswers(site, access)
        self._threads = AnswerThreads(_THREADS, reached)

    async def show(self, request: Request, find: Find) -> Response:
        """Show what is found, in the form that the path ends with."""
        path, visit = request.url.path, self.visit(request)
        wants_json = path.endswith(JSON)
        stem = path.removesuffix(JSON)
        question = PageQuestion(find, visit, stem, request.url.query, wants_json)
        return await self.answered(request, partial(self.answers.answer, question))

    async def show_named(
        self, request: Request, find: Callable[[Viewer, str], ShownPage], name: str
    ) -> Response:
        """Show what has a name, which may itself end as the path of JSON does."""
        path, stem = request.url.path, name.removesuffix(JSON)
        if stem == name:
            return await self.show(request, lambda viewer: find(viewer, name))
        visit, query = self.visit(request), request.url.query
        named_so = PageQuestion(lambda viewer: find(viewer, name), visit, path, query)
        found = await self.answered(request, partial(self.answers.answer, named_so))
        if found.status_code < HTTPStatus.MULTIPLE_CHOICES:
            return found
        return await self.show(request, lambda viewer: find(viewer, stem))

    async def answered(self, request: Request, answer: Callable[[], Response]) -> Response:
        """Answer in a thread."""
        try:
            return await self._threads.answer(answer)
        except Refusal as error:
            return self.answers.refused(request.url.path, error.status, str(error))

    def visit(self, request: Request) -> Visit:
        """Return what a request says of who sends it."""
        session = request.cookies.get(self.access.cookie.name, "")
        return Visit(Caller.of(request), request.url.hostname or "", session)


def page_app(
    site: Site, access: PageAccess, reached: LimitReached, probing: FastAPI | None = None
) -> FastAPI:
    """Return the application, which may be one that answers probes already."""
    app = probing or FastAPI(title="Plumbline", openapi_url=None)
    server = PageServer(site, access, reached)
    app.include_router(_login(server))
    app.include_router(_sessions(server))
    app.include_router(_overviews(site, server))
    app.include_router(_objects(site, server))
    app.include_router(_texts(server))
    _tell_problems(app, server.answers)
    return app


def _overviews(site: Site, server: PageServer) -> APIRouter:
    router = APIRouter()

    @router.get("/")
    @router.get("/fleet.json")
    async def fleet(request: Request) -> Response:
        """All workloads."""
        asked = dict(request.query_params)
        return await server.show(request, lambda viewer: site.fleet(viewer, asked))

    @router.get("/feed")
    @router.get("/feed.json")
    async def feed(request: Request) -> Response:
        """What happened, and what waits."""
        asked = dict(request.query_params)
        return await server.show(request, lambda viewer: site.feed(viewer, asked))

    @router.get("/installation")
    @router.get("/installation.json")
    async def installation(request: Request) -> Response:
        """What doctor finds, and how well the cluster is watched."""
        asked = dict(request.query_params)
        return await server.show(request, lambda viewer: site.installation(viewer, asked))

    return router


def _objects(site: Site, server: PageServer) -> APIRouter:
    router = APIRouter(prefix="/namespaces/{namespace}")

    @router.get("/vpas/{name}")
    async def vpa(request: Request, namespace: str, name: str) -> Response:
        """A VPA and its workload."""
        asked = dict(request.query_params)
        return await server.show_named(
            request, lambda viewer, found: site.vpa(viewer, namespace, found, asked), name
        )

    @router.get("/workloads/{kind}/{name}")
    async def workload(request: Request, namespace: str, kind: str, name: str) -> Response:
        """A workload that no VPA targets."""
        asked = dict(request.query_params)
        return await server.show_named(
            request,
            lambda viewer, found: site.workload(viewer, namespace, kind, found, asked),
            name,
        )

    @router.get("/pods/{name}")
    async def pod(request: Request, namespace: str, name: str) -> Response:
        """A pod."""
        asked = dict(request.query_params)
        return await server.show_named(
            request, lambda viewer, found: site.pod(viewer, namespace, found, asked), name
        )

    return router


def _login(server: PageServer) -> APIRouter:
    router = APIRouter()

    @router.get(LOGIN)
    async def login_form(to: str = "/") -> Response:
        """The form that takes a token."""
        if not server.access.takes_tokens:
            return server.answers.refused(LOGIN, 404, _NO_LOGIN)
        return server.answers.login_form(to)

    @router.post(LOGIN)
    async def login(request: Request) -> Response:
        """A token in exchange for a session."""
        if not server.access.takes_tokens:
            return server.answers.refused(LOGIN, 404, _NO_LOGIN)
        if _is_elsewhere(request):
            return server.answers.refused(LOGIN, 403, "this form is of another site")
        body = await _small_body(request)
        if body is None:
            return server.answers.refused(LOGIN, 413, "this is no form of this page: too much")
        answer = partial(server.answers.form_sent, server.visit(request), body)
        return await server.answered(request, answer)

    return router


def _sessions(server: PageServer) -> APIRouter:
    router = APIRouter()

    @router.post("/logout")
    async def logout(request: Request) -> Response:
        """The end of a session."""
        if _is_elsewhere(request):
            return server.answers.refused("/logout", 403, "this form is of another site")
        return server.answers.logged_out(server.visit(request))

    @router.get("/enter/{token}")
    async def enter(request: Request, token: str) -> Response:
        """The link that was printed."""
        if not server.access.takes_link:  # tokens of a cluster do not belong into an address
            return server.answers.refused("", 404, "nobody was given a link to this page")
        visit = server.visit(request)
        return await server.answered(request, partial(server.answers.logged_in, visit, token, "/"))

    return router


def _is_elsewhere(request: Request) -> bool:
    """Whether a form of another site sent this; programs say nothing of where they come from."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:  # where no referrer is sent, a browser does not name the origin
        return site in _ELSEWHERE
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")


async def _small_body(request: Request) -> bytes | None:
    """Return what was sent, None if it is more than a form has."""
    found = b""
    async for piece in request.stream():
        found += piece
        if len(found) > _MOST_BODY:
            return None
    return found


def _texts(server: PageServer) -> APIRouter:
    router = APIRouter()

    @router.get("/docs/{name}")
    async def docs(request: Request, name: str) -> Response:
        """A page of the documentation."""
        return await server.answered(request, partial(server.answers.documentation, name))

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        """What pages are styled by."""
        if name not in _STATIC:
            return server.answers.refused("", 404, f'there is no file "{name}"')
        return sent(files("app.page").joinpath("static", name).read_bytes(), 200, _STATIC[name])

    return router


def _tell_problems(app: FastAPI, answers: PageAnswers) -> None:
    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path
        if error.status_code == HTTPStatus.NOT_FOUND:
            return answers.refused(path, 404, f"there is no page {path}")
        return answers.refused(path, error.status_code, str(error.detail))

    app.add_exception_handler(HTTPException, unknown)
