"""A port at which others can read the cluster in memory, as they would read a real one.

Strategy: the API of Kubernetes as far as questions need it: objects and lists of them, discovery,
and dry runs. Nothing can be written, so that equal seeds go on to make equal stories, and Secrets
are not shown: they hold keys of real connections. The time of the cluster is in the Date of each
answer. A path begins with a token, which only who can read the kubeconfig knows; kubectl sends no
token by other means where there is no TLS.
"""

from __future__ import annotations

import re
import socket
from email.utils import format_datetime
from functools import partial
from secrets import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson
from fastapi import Request, Response

from app.model.errors import ClusterError, Invalid, NotFound, Refused
from app.ports import SECRETS, Clock, Cluster, Json, Ref, Resource
from app.runtime.answers import AnswerThreads
from app.runtime.bounds import LimitReport
from app.runtime.http_server import Server

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_THREADS: Final = 4
_READ_ONLY: Final = "the cluster of `plumbline run` can only be read, and asked for dry runs"
_NO_SECRETS: Final = "the cluster of `plumbline run` shows no Secrets"
_PATH: Final = re.compile(
    r"(?P<root>/api/(?P<core>[^/]+)|/apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)
# Who asks may read everything but Secrets; that is all there is to review.
_REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_READ_VERBS: Final = ("get", "list")


class _Question(NamedTuple):
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes


class ReadPort:
    """Answers questions about a cluster to those who know its token."""

    def __init__(self, cluster: Cluster, clock: Clock, token: str, listener: socket.socket) -> None:
        self._cluster = cluster
        self._clock = clock
        self._prefix = f"/{token}/"
        limits = LimitReport()
        self._threads = AnswerThreads(_THREADS, limits.reached)
        self._server = Server(self._serve, listener, limits=limits)

    def start(self) -> None:
        """Begin to answer."""
        self._server.start("cluster")

    def stop(self) -> None:
        """Answer no more."""
        self._server.end()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        question = _Question(
            request.method,
            request.url.path,
            dict(request.query_params),
            await request.body(),
        )
        response = await self._threads.answer(partial(self._answer, question))
        await response(scope, receive, send)

    def _answer(self, question: _Question) -> Response:
        try:
            status, found = 200, self._found(question)
        except ClusterError as error:
            status, found = error.status or 500, _refusal(error)
        date = format_datetime(self._clock.now(), usegmt=True)
        headers = {"date": date}
        return Response(orjson.dumps(found), status, headers, media_type="application/json")

    def _found(self, question: _Question) -> Json:
        """Return what is asked for.

        Raises:
            ClusterError: it is not there, or not to be had.
        """
        prefix, path = question.path[: len(self._prefix)], question.path[len(self._prefix) - 1 :]
        if not compare_digest(prefix.encode(), self._prefix.encode()):
            raise Refused("Unauthorized", status=401, reason="Unauthorized")
        if (question.method, path) == ("POST", _REVIEW):
            return _reviewed(_object(question.body))
        place = _PATH.fullmatch(path)
        if place is None:
            return self._cluster.request(question.method, path)
        resource = self._resource(place["root"], place["plural"])
        ref = Ref(
            resource, place["namespace"] or "", place["name"] or "", place["subresource"] or ""
        )
        if resource == SECRETS:
            raise Refused(_NO_SECRETS, status=403, reason="Forbidden")
        is_dry = question.query.get("dryRun") == "All"
        if question.method == "POST" and is_dry:
            return self._cluster.create(ref, _object(question.body), dry_run=True)
        if question.method != "GET" or question.query.get("watch") in ("1", "true"):
            raise Refused(_READ_ONLY, status=403, reason="Forbidden")
        return self._cluster.get(ref) if ref.name else self._listed(ref, question.query)

    def _resource(self, root: str, plural: str) -> Resource:
        """Return what the plural in a path stands for."""
        parts = root.strip("/").split("/")
        group, version = (parts[1], parts[2]) if parts[0] == "apis" else ("", parts[1])
        for entry in self._cluster.request("GET", root)["resources"]:
            if entry["name"] == plural:
                is_namespaced = bool(entry["namespaced"])
                return Resource(group, version, plural, entry["kind"], namespaced=is_namespaced)
        raise NotFound("the server could not find the requested resource", status=404)

    def _listed(self, ref: Ref, query: dict[str, str]) -> Json:
        limit = query.get("limit", "0")
        if not limit.isdecimal():
            raise Invalid(f"limit: {limit!r} is no number", status=400, reason="BadRequest")
        page = self._cluster.list(
            ref.resource,
            ref.namespace,
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
            limit=int(limit),
            continue_token=query.get("continue", ""),
        )
        return {
            "kind": f"{ref.resource.kind}List",
            "apiVersion": ref.resource.api_version,
            "metadata": {
                "resourceVersion": page.resource_version,
                "continue": page.continue_token,
            },
            "items": page.items,
        }


def _object(body: bytes) -> Json:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise Invalid("the body is no JSON object", status=400, reason="BadRequest")
    return found


def _reviewed(review: Json) -> Json:
    attributes = (review.get("spec") or {}).get("resourceAttributes") or {}
    is_secret = attributes.get("resource") == SECRETS.plural
    is_allowed = attributes.get("verb") in _READ_VERBS and not is_secret
    return {**review, "status": {"allowed": is_allowed}}


def _refusal(error: ClusterError) -> Json:
    causes = [{"reason": reason, "message": message} for reason, message in error.causes]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": error.status or 500,
        "reason": error.reason,
        "message": error.message,
        "details": {"causes": causes},
    }
