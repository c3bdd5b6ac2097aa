"""Who may ask: a bearer token that an API server knows, and a right that its owner has.

Strategy: 401 means that we do not know who asks, 403 that we do and that it may not, 503 that
this could not be checked. Nothing is answered before that is settled, not even that something is
missing.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from app.kube.access_review import AccessReviews
from app.model.errors import ClusterError, Refused
from app.ports import VPAS
from app.runtime.problems import Refusal

log = logging.getLogger("runtime.access")

_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="plumbline"'}
_LATER: Final = {"retry-after": "5"}
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")  # nothing else was ever a token
_HINT: Final = "bind the recommender's account to the ClusterRole system:auth-delegator"


class Guard:
    """Lets in users that may see VPAs; without an API server to ask it lets all in."""

    def __init__(self, access: AccessReviews | None = None) -> None:
        self._access = access

    def admit(self, authorization: str, verb: str, namespace: str = "", name: str = "") -> None:
        """Return if the question may be answered.

        Raises:
            Refusal: it may not.
        """
        if self._access is None:
            return
        token = _token(authorization)
        try:
            identity = self._access.who(token)
            if identity is None:
                raise Refusal(401, "the bearer token is not valid", headers=_CHALLENGE)
            if self._access.may(identity, verb, VPAS, namespace, name):
                return
        except ClusterError as error:
            log.warning("access cannot be checked", extra={"error": str(error)})
            why = _HINT if isinstance(error, Refused) else "the API server gives no answer"
            raise Refusal(503, f"access cannot be checked: {why}", headers=_LATER) from None
        place = f"in namespace {namespace}" if namespace else "in all namespaces"
        raise Refusal(
            403,
            f"user {identity.username!r} may not {verb} {VPAS.plural}.{VPAS.group} {place}",
            subject=f"{VPAS.kind} {namespace}/{name}" if name else "",
            field="path.namespace" if namespace else "",
        )


def _token(authorization: str) -> str:
    """Return the token of a header."""
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        message = "send a token: `Authorization: Bearer TOKEN`"
        raise Refusal(401, message, field="header.authorization", headers=_CHALLENGE)
    if not _TOKEN.fullmatch(token):
        message = "the bearer token is not valid"
        raise Refusal(401, message, field="header.authorization", headers=_CHALLENGE)
    return token
