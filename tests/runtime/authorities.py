"""A cluster in memory that also knows tokens, users and what they may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from app.kube.access_review import ACCESS_REVIEWS, TOKEN_REVIEWS
from app.model.errors import ClusterError, Invalid
from app.ports import Cluster, Json, Ref


class Authorities:
    """Answers reviews of tokens and of access; every other call goes to a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.users: dict[str, Json] = {}  # by token
        self.grants: set[tuple[str, str, str, str]] = set()  # user or group, verb, namespace, name
        self.error: ClusterError | None = None
        self.asked: list[Json] = []

    def __getattr__(self, verb: str) -> Callable[..., object]:
        return cast("Callable[..., object]", getattr(self._cluster, verb))

    def know(self, token: str, username: str, *groups: str) -> None:
        """Let a token belong to a user."""
        self.users[token] = {"username": username, "uid": f"uid-{username}", "groups": [*groups]}

    def grant(self, subject: str, verb: str, namespace: str = "", name: str = "") -> None:
        """Let a user or group do something; without a namespace everywhere."""
        self.grants.add((subject, verb, namespace, name))

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
        user = self.users.get(spec["token"])
        if user is None:
            return {"user": {}, "error": "[invalid bearer token]"}
        return {"authenticated": True, "user": user}

    def _access(self, spec: Json) -> Json:
        asked = spec["resourceAttributes"]
        is_vpa = (asked["group"], asked["resource"]) == (
            "autoscaling.k8s.io", "verticalpodautoscalers",
        )  # fmt: skip
        places = {("", ""), (asked["namespace"], ""), (asked["namespace"], asked["name"])}
        allowed = is_vpa and any(
            (subject, asked["verb"], *place) in self.grants
            for subject in (spec["user"], *spec["groups"])
            for place in places
        )
        return {"allowed": allowed} if allowed else {"allowed": False, "reason": "no RBAC"}
