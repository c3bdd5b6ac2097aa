"""A cluster in memory that also knows tokens, users and what they may do."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import cast

import orjson

from app.kube.access_review import ACCESS_REVIEWS, TOKEN_REVIEWS
from app.model.errors import ClusterError, Invalid
from app.ports import PODS, VPAS, Cluster, Json, Ref, Resource


class Authorities:
    """Answers reviews of tokens and of access; every other call goes to a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.users: dict[str, Json] = {}  # by token
        self.audiences: dict[str, str] = {}  # of tokens that are not for the API server
        self.grants: set[tuple[str, ...]] = set()  # user or group, verb, what, namespace, name
        self.error: ClusterError | None = None
        self.asked: list[Json] = []

    def __getattr__(self, verb: str) -> Callable[..., object]:
        return cast("Callable[..., object]", getattr(self._cluster, verb))

    def know(self, token: str, username: str, *groups: str, audience: str = "") -> None:
        """Let a token belong to a user, for the API server or for somebody else."""
        self.audiences[token] = audience
        self.users[token] = {"username": username, "uid": f"uid-{username}", "groups": [*groups]}

    def grant(
        self,
        subject: str,
        verb: str,
        namespace: str = "",
        name: str = "",
        *,
        resource: Resource = VPAS,
    ) -> None:
        """Let a user or group do something; without a namespace everywhere."""
        self.grants.add((subject, verb, resource.plural, namespace, name))

    def create(self, ref: Ref, body: Json, *, dry_run: bool = False) -> Json:
        """Answer a review."""
        resource = ref.resource
        if resource not in (TOKEN_REVIEWS, ACCESS_REVIEWS):
            return self._cluster.create(ref, body, dry_run=dry_run)
        if (body["apiVersion"], body["kind"]) != (resource.api_version, resource.kind):
            raise Invalid(f"a {body['kind']} is no {resource.kind}", status=400)
        if self.error is not None:
            raise self.error
        self.asked.append(body)
        review = self._token if resource == TOKEN_REVIEWS else self._access
        return {**body, "status": review(body["spec"])}

    def _token(self, spec: Json) -> Json:
        user, audience = self.users.get(spec["token"]), self.audiences.get(spec["token"], "")
        if user is None or audience not in spec.get("audiences", [""]):
            return {"user": {}, "error": "[invalid bearer token]"}
        return {"authenticated": True, "user": user, "audiences": [audience or "https://api"]}

    def _access(self, spec: Json) -> Json:
        asked = spec["resourceAttributes"]
        what = asked["resource"]
        is_known = (asked["group"], what) in ((VPAS.group, VPAS.plural), ("", PODS.plural))
        places = {("", ""), (asked["namespace"], ""), (asked["namespace"], asked["name"])}
        allowed = is_known and any(
            (subject, asked["verb"], what, *place) in self.grants
            for subject in (spec["user"], *spec["groups"])
            for place in places
        )
        return {"allowed": allowed} if allowed else {"allowed": False, "reason": "no RBAC"}


def jwt(**claims: object) -> str:
    """Return a token that says something of itself, with no good signature."""
    payload = urlsafe_b64encode(orjson.dumps(claims)).decode().rstrip("=")
    return f"e30.{payload}.signature"
