"""Who may ask: a bearer token that an API server knows, and a right that its owner has.

Strategy: 401 means that we do not know who asks, 403 that we do and that it may not, 503 that
this could not be checked. Nothing is answered before that is settled, not even that something is
missing. Where others could read a token on its way, none is asked for and none is looked at.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from app.kube.access_review import AUDIENCE, AccessReviews
from app.kube.reach import is_loopback
from app.model.errors import ClusterError, Refused
from app.ports import VPAS, Resource
from app.runtime.answers import Refusal
from app.runtime.logs import OncePerMinute

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from app.flags.shared import PortAccess
    from app.model.review import Identity
    from app.ports import Clock, Cluster, LimitReached

log = logging.getLogger("runtime.access")

_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="plumbline"'}
_LATER: Final = {"retry-after": "5"}
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")  # nothing else was ever a token
_HINT: Final = "bind this process's account to the ClusterRole system:auth-delegator"
_PLAIN: Final = (
    "over plain HTTP tokens are taken from this machine only: use kubectl port-forward, or serve "
    "TLS with --tls-cert-file and --tls-private-key; where something else encrypts, such as a "
    "service mesh, set --tokens-over-http"
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, by its own words, and whether these cannot be read on their way."""

    authorization: str
    is_private: bool = True

    @classmethod
    def of(cls, request: HTTPConnection) -> Caller:
        """Return who sends a request: by TLS, from this machine, or so that others can read it."""
        client = request.client
        is_private = request.url.scheme == "https" or (
            client is not None and is_loopback(client.host)
        )
        return cls(request.headers.get("authorization", ""), is_private)


class Guard:
    """Lets in users that have a right; without an API server to ask it lets all in."""

    def __init__(
        self,
        access: AccessReviews | None = None,
        *,
        takes_tokens_over_http: bool = False,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self._access = access
        self._takes_tokens_over_http = takes_tokens_over_http
        self._lines = OncePerMinute(seconds)  # about what may happen to every question

    def identify(self, caller: Caller) -> Identity | None:
        """Return who asks, None if all may.

        Raises:
            Refusal: that is not known.
        """
        if self._access is None:
            return None
        if not (caller.is_private or self._takes_tokens_over_http):
            raise Refusal(403, _PLAIN)
        token = _token(caller.authorization)
        with self._checking():
            identity = self._access.who(token)
        if identity is None:
            raise Refusal(401, "the bearer token is not valid", headers=_CHALLENGE)
        return identity

    def admit(
        self,
        caller: Caller,
        verb: str,
        namespace: str = "",
        name: str = "",
        resource: Resource = VPAS,
        field: str = "path.namespace",
    ) -> None:
        """Return if the question may be answered; `field` is where it names the namespace.

        Raises:
            Refusal: it may not.
        """
        identity = self.identify(caller)
        if self._access is None or identity is None:
            return
        with self._checking():
            if self._access.may(identity, verb, resource, namespace, name):
                return
        what = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        place = f"in namespace {namespace}" if namespace else "in all namespaces"
        raise Refusal(
            403,
            f"user {identity.username!r} may not {verb} {what} {place}",
            subject=f"{resource.kind} {namespace}/{name}" if name else "",
            field=field if namespace else "",
        )

    def may(self, identity: Identity, verb: str, namespace: str, resource: Resource) -> bool:
        """Return whether a user may do something; without a namespace in all of them.

        Raises:
            Refusal: this cannot be checked.
        """
        if self._access is None:
            return True
        with self._checking():
            return self._access.may(identity, verb, resource, namespace)

    @contextmanager
    def _checking(self) -> Iterator[None]:
        """Refuse what an API server that is asked gives no answer about."""
        try:
            yield
        except ClusterError as error:
            if times := self._lines.due(type(error).__name__):
                extra = {"error": str(error), "times": times}
                log.warning("access cannot be checked", extra=extra)
            why = _HINT if isinstance(error, Refused) else "the API server gives no answer"
            raise Refusal(503, f"access cannot be checked: {why}", headers=_LATER) from None


def guard_of(
    host: str, access: PortAccess | None, cluster: Cluster, clock: Clock, reached: LimitReached
) -> Guard:
    """Return who may ask at an address: everyone if only this machine can reach it.

    A port that speaks nothing but TLS has no `access`.
    """
    if is_loopback(host):
        return Guard()
    over_http = access is not None and access.tokens_over_http
    return Guard(AccessReviews(cluster, clock, reached), takes_tokens_over_http=over_http)


def _token(authorization: str) -> str:
    """Return the token of a header."""
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        message = (
            "send a token: `Authorization: Bearer TOKEN`, "
            f"as of `kubectl create token ACCOUNT --audience {AUDIENCE}`"
        )
        raise Refusal(401, message, field="header.authorization", headers=_CHALLENGE)
    if not _TOKEN.fullmatch(token):
        message = "the bearer token is not valid"
        raise Refusal(401, message, field="header.authorization", headers=_CHALLENGE)
    return token
