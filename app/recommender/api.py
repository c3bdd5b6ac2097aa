"""Answers over HTTP what is recommended, and why.

Strategy: who asks is let in first; then the newest snapshot and the newest derivations are taken
once, so that an answer is of one moment. The amounts are those of the status, which every replica
knows; how they came about is known to the one that leads. Questions wait for one another in a few
threads of their own, so that they never keep probes from being answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request, Response, Security
from fastapi.security import HTTPBearer
from starlette.types import ASGIApp

from app.model.errors import BadObject, ClusterError, NotFound
from app.model.pod_roles import why_roles
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.ports import PODS, VPAS, Json, LimitReached
from app.recommender.api_shapes import Page, PodAnswer, Recommendation
from app.recommender.core.estimation import VpaDerivation
from app.recommender.core.explanation import explained
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.targets import VpaKey
from app.recommender.metrics import exposition
from app.runtime.access import Caller, Guard
from app.runtime.answers import (
    AnswerThreads,
    Refusal,
    SharedPage,
    described,
    known_parameters,
    tell_problems,
)
from app.runtime.exposition import CONTENT_TYPE

log = logging.getLogger("recommender.api")

_THREADS: Final = 4
_THREADS_FOR_NUMBERS: Final = 2
_MOST_ITEMS: Final = 100_000
_LATER: Final = {"retry-after": "1"}
_UNREAD: Final = {"retry-after": "5"}  # the cluster may be away for longer
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_NAMESPACE: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_NAME: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

Derivations = Mapping[VpaKey, VpaDerivation]
Place = Annotated[str, Path(pattern=_NAMESPACE, max_length=63)]
Name = Annotated[str, Path(pattern=_NAME, max_length=253)]
Explain = Annotated[bool, Query(description="tell every step from usage to the amount")]


@dataclass(frozen=True, slots=True)
class ContainerPreview:
    """What a container of a running pod has, and what it would get."""

    name: str
    now: Json  # requests and limits
    gets: Json
    notes: Sequence[str]
    is_boosted: bool
    story: Json | None  # each resource from what it had to what it gets, if a VPA sizes the pod

    def to_json(self, recommendation: Json | None, *, explains: bool) -> Json:
        """Return JSON, with what the VPA recommends for the container."""
        found = {
            "container": self.name,
            "now": self.now,
            "gets": self.gets,
            "notes": list(self.notes),
            "isBoosted": self.is_boosted,
            "recommendation": recommendation,
        }
        return found | {"story": self.story} if explains else found


@dataclass(frozen=True, slots=True)
class PodPreview:
    """What a running pod would get if it were created at this moment."""

    reason: str
    message: str
    owner: str  # the topmost controller, empty if there is none
    vpa: Vpa | None  # that controls it
    containers: Sequence[ContainerPreview]


# Gets namespace, name and what is known; raises NotFound, ClusterError and BadObject.
Preview = Callable[[str, str, Snapshot], PodPreview]


@dataclass(frozen=True, slots=True)
class Recommendations:
    """Finds answers for those whom the guard admits; any thread may ask."""

    guard: Guard
    snapshot: Callable[[], Snapshot]
    derivations: Callable[[], Derivations | None]  # None: another replica leads
    leader: Callable[[], str]  # who that is
    problem: Callable[[], str]  # why nothing can be answered yet, empty if it can
    preview: Preview
    rules: RecommenderRules
    namespace: str = ""  # the only one that is looked at

    def page(self, caller: Caller, namespace: str, explains: bool, limit: int, after: str) -> Json:
        """Return the recommendations of one namespace or of all."""
        self.guard.admit(caller, "get" if namespace else "list", namespace)
        snapshot, derivations = self._known(namespace, explains)
        found = list(islice(_vpas(snapshot, namespace, after), limit + 1 if limit else None))
        shown = found[:limit] if limit else found
        last = shown[-1] if len(found) > len(shown) else None
        return {
            "items": self._explained(shown, derivations, explains),
            "next": f"{last.namespace}/{last.name}" if last is not None else "",
        }

    def one(self, caller: Caller, namespace: str, name: str, explains: bool) -> Json:
        """Return the recommendation for one VPA."""
        self.guard.admit(caller, "get", namespace, name)
        snapshot, derivations = self._known(namespace, explains)
        vpa = snapshot.of(namespace).vpas.get(name)
        if vpa is None:
            message, subject = (
                f"there is no VPA {namespace}/{name}",
                f"{VPAS.kind} {namespace}/{name}",
            )
            raise Refusal(404, message, subject=subject, field="path.name")
        return self._explained([vpa], derivations, explains)[0]

    def pod(self, caller: Caller, namespace: str, name: str, explains: bool) -> Json:
        """Return what a pod would get."""
        self.guard.admit(caller, "get", namespace)
        self.guard.admit(caller, "get", namespace, name, PODS)  # it is read with our own rights
        snapshot, derivations = self._known(namespace, explains)
        pod = self._preview(namespace, name, snapshot)
        running = snapshot.of(namespace).pods.get(name)
        found = self._explained([pod.vpa], derivations, explains)[0] if pod.vpa is not None else {}
        entries = {entry["container"]: entry for entry in found.get("containers", ())}
        return {
            "namespace": namespace,
            "name": name,
            "reason": pod.reason,
            "message": pod.message,
            "owner": pod.owner,
            "vpa": pod.vpa.name if pod.vpa is not None else "",
            "role": why_roles(running) if running is not None else "",
            "containers": [
                one.to_json(entries.get(one.name), explains=explains) for one in pod.containers
            ],
            "computedAt": found.get("computedAt"),
        }

    def _preview(self, namespace: str, name: str, snapshot: Snapshot) -> PodPreview:
        subject = f"{PODS.kind} {namespace}/{name}"
        try:
            return self.preview(namespace, name, snapshot)
        except NotFound:
            message = f"there is no pod {namespace}/{name}"
            raise Refusal(404, message, subject=subject, field="path.name") from None
        except ClusterError as error:
            message = f"the cluster gives no answer: {error}"
            raise Refusal(503, message, subject=subject, headers=_UNREAD) from None
        except BadObject as error:
            raise Refusal(500, f"{subject}: {error}", subject=subject, field=error.path) from None

    def _known(self, namespace: str, explains: bool) -> tuple[Snapshot, Derivations]:
        """Take what is known at this moment."""
        if namespace and self.namespace not in ("", namespace):
            message = f"this recommender looks at namespace {self.namespace} only"
            raise Refusal(404, message, field="path.namespace")
        if problem := self.problem():
            raise Refusal(503, problem, headers=_LATER)
        derivations = self.derivations()
        if derivations is None and explains:
            message = f"only the leader can explain; {self.leader() or 'no replica'} leads"
            raise Refusal(503, message, field="query.explain", headers=_LATER)
        return self.snapshot(), derivations or {}

    def _explained(self, vpas: list[Vpa], known: Derivations, explains: bool) -> list[Json]:
        found = [(vpa, known.get((vpa.namespace, vpa.name))) for vpa in vpas]
        return explained(found, self.rules, with_steps=explains)


def _vpas(snapshot: Snapshot, namespace: str, after: str) -> Iterator[Vpa]:
    """Yield VPAs by namespace and name, those after a place."""
    first = tuple(after.split("/", 1)) if after else ()
    for place in [namespace] if namespace else sorted(snapshot.namespaces):
        found = snapshot.of(place).vpas
        yield from (found[name] for name in sorted(found) if (place, name) > first)


@dataclass(frozen=True, slots=True)
class _Request:
    """Who asks, and what answers they have."""

    caller: Caller
    known: str  # the tags of these answers


class _Answers:
    """Hands questions to threads, and writes the answers."""

    def __init__(self, reached: LimitReached) -> None:
        self._threads = AnswerThreads(_THREADS, reached)

    async def answer(self, asks: _Request, ask: Callable[..., Json], *words: object) -> Response:
        """Answer a request, unless what its caller has still holds."""
        try:
            body, tag = await self._threads.answer(partial(_written, ask, asks.caller, *words))
        except Refusal:
            raise
        except Exception:
            log.exception("question not answered")
            raise Refusal(500, "something is broken; the log tells what") from None
        headers = {"etag": tag, "cache-control": "private, no-cache", "vary": "authorization"}
        known = {text.strip().removeprefix("W/") for text in asks.known.split(",")}
        if tag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="application/json")


def _written(ask: Callable[..., Json], *words: object) -> tuple[bytes, str]:
    body = orjson.dumps(ask(*words))
    return body, f'"{blake2b(body, digest_size=16).hexdigest()}"'


def recommendations_app(found: Recommendations, others: ASGIApp, reached: LimitReached) -> FastAPI:
    """Return the application behind the port; what it does not know goes to others."""
    app = FastAPI(
        title="Plumbline recommender",
        summary="What is recommended, on what it rests, and how it came about.",
        description=_ABOUT,
        version="1",
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    tell_problems(app)
    app.include_router(_routes(found, _Answers(reached)))
    app.mount("/", others)
    return app


def add_recommendation_metrics(
    app: FastAPI, vpas: Callable[[], Iterable[Vpa]], guard: Guard, reached: LimitReached
) -> None:
    """Let an application show the recommendations of these VPAs as metrics."""
    tell_problems(app)
    threads = AnswerThreads(_THREADS_FOR_NUMBERS, reached)
    page = SharedPage(lambda: exposition(vpas()))

    @app.get("/metrics/recommendations")  # Prometheus adds whatever parameters its users want
    async def recommendation_metrics(request: Request) -> Response:
        """Recommendations for Prometheus, which may list VPAs everywhere."""
        await threads.answer(partial(guard.admit, Caller.of(request), "list"))
        return Response(await page.get(), media_type=CONTENT_TYPE)


_ABOUT: Final = """\
Amounts are those of the status of the VPA, quantities as Kubernetes writes them. Beside them stands
when they were computed, from how many samples over what time, and what capped them.

Every answer has an `ETag`; send it back in `If-None-Match` to be told 304 as long as it holds.
Behind any address but loopback a bearer token is needed that the API server knows, for itself or
for the audience `plumbline`, and the right to `get verticalpodautoscalers` in the namespace, or to
`list` them everywhere; for a pod also the right to `get` it.
"""


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "What you have still holds"},
    401: described("No token, or none that the API server knows"),
    403: described("The token's owner may not see these VPAs"),
    404: described("There is no such object"),
    422: described("A part of the request is malformed; `field` names it"),
    503: described("Not known here or now; `detail` says who knows, or what is missing"),
}


_BEARER: Final = HTTPBearer(auto_error=False, description="of a user or a service account")


async def _request(
    request: Request,
    if_none_match: Annotated[str, Header(description="the ETags that you have")] = "",
) -> _Request:
    return _Request(Caller.of(request), if_none_match)


Asks = Annotated[_Request, Depends(_request)]
Limit = Annotated[int, Query(ge=0, le=_MOST_ITEMS, description="at most so many; 0: all")]
After = Annotated[str, Query(max_length=320, description="only those after this NAMESPACE/NAME")]


def _routes(found: Recommendations, answers: _Answers) -> APIRouter:
    """Return the paths; which of them asks for what stands in the documentation they make."""
    router = APIRouter(
        prefix="/v1",
        responses=_ANSWERS,
        tags=["recommendations"],
        # The first is for the documentation; the guard reads it.
        dependencies=[Security(_BEARER), Depends(known_parameters)],
    )

    @router.get("/recommendations", response_model=Page)
    async def all_recommendations(
        asks: Asks, explain: Explain = False, limit: Limit = 0, after: After = ""
    ) -> Response:
        """Recommendations for the VPAs of all namespaces."""
        return await answers.answer(asks, found.page, "", explain, limit, after)

    @router.get("/namespaces/{namespace}/recommendations", response_model=Page)
    async def recommendations(
        asks: Asks,
        namespace: Place,
        explain: Explain = False,
        limit: Limit = 0,
        after: After = "",
    ) -> Response:
        """Recommendations for the VPAs of one namespace."""
        return await answers.answer(asks, found.page, namespace, explain, limit, after)

    @router.get("/namespaces/{namespace}/recommendations/{name}", response_model=Recommendation)
    async def recommendation(
        asks: Asks, namespace: Place, name: Name, explain: Explain = False
    ) -> Response:
        """The recommendation for one VPA."""
        return await answers.answer(asks, found.one, namespace, name, explain)

    @router.get("/namespaces/{namespace}/pods/{name}", response_model=PodAnswer)
    async def pod(asks: Asks, namespace: Place, name: Name, explain: Explain = False) -> Response:
        """What a running pod would get if it were created now, sized as the webhook does it."""
        return await answers.answer(asks, found.pod, namespace, name, explain)

    @router.api_route("/{rest:path}", methods=[*_METHODS], include_in_schema=False)
    async def nothing(request: Request, rest: str) -> Response:
        if request.method != "GET":
            raise Refusal(405, "there is nothing to change here", headers={"allow": "GET"})
        raise Refusal(404, f"there is no path /v1/{rest}", field="path")

    return router
