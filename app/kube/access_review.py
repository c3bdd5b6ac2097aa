"""Asks an API server which user a token belongs to, and what this user may do.

Strategy: what was answered counts for some seconds, so that frequent requests cost little, and
a right that was taken away is soon gone. Tokens are remembered by their digest alone. Without an
answer nothing is remembered: the error is raised. A token may be one for the API server, or one
for us alone, which is good nowhere else; which of both the server is asked about is what the token
says of itself, and the server judges.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable, Hashable
from hashlib import sha256
from threading import Lock
from typing import Final, Generic, TypeVar

import orjson

from app.model.errors import Unavailable
from app.model.fields import Object
from app.model.review import Identity
from app.ports import Clock, Cluster, Json, LimitReached, LookupLimit, Ref, Resource

TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

AUDIENCE: Final = "plumbline"  # of tokens that are meant for us, and not for the API server
BELIEVED_SECONDS: Final = 10.0
MOST: Final = 2_000  # answers of each kind

_Value = TypeVar("_Value")


class AccessReviews:
    """What an API server says of tokens and rights; any thread may ask."""

    def __init__(
        self, cluster: Cluster, clock: Clock, reached: LimitReached, most: int = MOST
    ) -> None:
        self._cluster = cluster
        self._identities = _Believed[Identity | None](clock, reached, most)
        self._rights = _Believed[bool](clock, reached, most)

    def who(self, token: str) -> Identity | None:
        """Return whose token this is, None if it is unknown.

        Raises:
            ClusterError: the server did not answer.
        """
        key = sha256(token.encode("utf-8", "surrogateescape")).digest()
        return self._identities.of(key, lambda: self._review_token(token))

    def may(
        self, identity: Identity, verb: str, resource: Resource, namespace: str, name: str = ""
    ) -> bool:
        """Return whether a user may do something; no namespace means all of them.

        Raises:
            ClusterError: the server did not answer.
        """
        extra = {key: list(values) for key, values in identity.extra.items()}
        spec = {
            "user": identity.username,
            "uid": identity.uid,
            "groups": list(identity.groups),
            "extra": extra,
            "resourceAttributes": {
                "namespace": namespace,
                "verb": verb,
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "name": name,
            },
        }
        told = tuple((key, *values) for key, values in sorted(extra.items()))
        asked = (verb, resource.group, resource.plural, namespace, name)
        key = (identity.username, identity.uid, identity.groups, told, asked)
        return self._rights.of(key, lambda: self._review_access(spec))

    def _review_token(self, token: str) -> Identity | None:
        is_ours = _claims_audience(token)
        spec: Json = {"token": token} | ({"audiences": [AUDIENCE]} if is_ours else {})
        status = self._asked(TOKEN_REVIEWS, spec)
        if status.get("authenticated") is not True:
            return None
        # A server that knows no audiences leaves them out, and has judged nothing of them.
        if is_ours and AUDIENCE not in _texts(status.get("audiences")):
            return None
        user = status.get("user")
        return _identity(user) if isinstance(user, dict) else None

    def _review_access(self, spec: Json) -> bool:
        status = self._asked(ACCESS_REVIEWS, spec)
        return status.get("allowed") is True and status.get("denied") is not True

    def _asked(self, resource: Resource, spec: Json) -> Object:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        status = self._cluster.create(Ref(resource), body).get("status")
        if not isinstance(status, dict):
            raise Unavailable(f"{resource.kind}: the answer has no status")
        return status


class _Believed(Generic[_Value]):
    """Answers that count for a while; the oldest go first when there are too many."""

    def __init__(self, clock: Clock, reached: LimitReached, most: int) -> None:
        self._clock = clock
        self._reached = reached
        self._most = most
        self._lock = Lock()
        self._answers: OrderedDict[Hashable, tuple[float, _Value]] = OrderedDict()

    def of(self, key: Hashable, ask: Callable[[], _Value]) -> _Value:
        """Return the answer to a question."""
        now = self._clock.monotonic()
        with self._lock:
            found = self._answers.get(key)
        if found is not None and now < found[0]:
            return found[1]
        answer = ask()
        with self._lock:
            self._answers[key] = (now + BELIEVED_SECONDS, answer)
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                _, (until, _) = self._answers.popitem(last=False)
                if now < until:
                    self._reached(LookupLimit.ACCESS_ANSWERS)
        return answer


def _claims_audience(token: str) -> bool:
    """Whether a token says that it is for us; nothing is believed of it."""
    _, _, rest = token.partition(".")
    payload, _, _ = rest.partition(".")
    try:
        claims = orjson.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except ValueError:
        return False
    audience = claims.get("aud") if isinstance(claims, dict) else None
    return audience == AUDIENCE or AUDIENCE in _texts(audience)


def _identity(user: Object) -> Identity | None:
    """Read a user; one without a name is none."""
    name, extra = user.get("username"), user.get("extra")
    if not isinstance(name, str) or not name:
        return None
    uid = user.get("uid")
    return Identity(
        name,
        uid if isinstance(uid, str) else "",
        _texts(user.get("groups")),
        {key: _texts(values) for key, values in extra.items()} if isinstance(extra, dict) else {},
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()
