"""Who we are to a Prometheus: the one door through which credentials get into requests.

Strategy: whatever is in a file is read again for each question, for such files change. Credentials
that a cloud lends are asked for again if they are refused.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Generator

import httpx

from app.model.errors import Refused
from app.ports import Clock
from app.recommender.cloud.aws import aws_keys, sign_for_aws
from app.recommender.cloud.exchange import Kept, secret_in
from app.recommender.cloud.identity import CloudIdentity
from app.recommender.cloud.tokens import azure_token, google_token
from app.recommender.prometheus_connection import PrometheusConnection
from app.recommender.source_flags import CloudProvider

_REFUSED = (401, 403)


class PrometheusAuth(httpx.Auth):
    """Signs each request; once more with other credentials if those at hand are refused."""

    requires_request_body = True

    def __init__(
        self, sign: Callable[[httpx.Request], None], forget: Callable[[], None] | None = None
    ) -> None:
        self._sign = sign
        self._forget = forget  # None: there are no others

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Yield what is sent.

        Raises:
            ClusterError: there are no credentials.
        """
        self._sign(request)
        response = yield request
        if response.status_code in _REFUSED and self._forget is not None:
            self._forget()
            self._sign(request)
            yield request


def auth_of(user: PrometheusConnection, url: httpx.URL, clock: Clock) -> PrometheusAuth | None:
    """Return what signs requests to an address, None if nothing does."""
    if user.cloud.provider is not CloudProvider.NONE:
        return _cloud_auth(user.cloud, url.host, clock)
    if user.token or user.token_file:
        return PrometheusAuth(lambda request: _bear(request, _token(user)))
    if user.username:
        return PrometheusAuth(lambda request: _name(request, user.username, _password(user)))
    if url.username:
        return PrometheusAuth(lambda request: _name(request, url.username, url.password))
    return None


def _cloud_auth(identity: CloudIdentity, host: str, clock: Clock) -> PrometheusAuth:
    if identity.provider is CloudProvider.AWS:
        keys = Kept(lambda: aws_keys(identity, host), clock)
        return PrometheusAuth(
            lambda request: sign_for_aws(request, keys.current(), identity, clock.now()),
            keys.forget,
        )
    ask = google_token if identity.provider is CloudProvider.GOOGLE else azure_token
    tokens = Kept(lambda: ask(identity, clock.now()), clock)
    return PrometheusAuth(lambda request: _bear(request, tokens.current().text), tokens.forget)


def _token(user: PrometheusConnection) -> str:
    path = user.token_file
    token = secret_in("token", path) if path else user.token
    if not token or not token.isascii() or not token.isprintable():
        raise Refused(f"the token{f' in {path}' if path else ''} is none")
    return token


def _password(user: PrometheusConnection) -> str:
    return secret_in("password", user.password_file) if user.password_file else user.password


def _bear(request: httpx.Request, token: str) -> None:
    request.headers["Authorization"] = f"Bearer {token}"


def _name(request: httpx.Request, username: str, password: str) -> None:
    told = b64encode(f"{username}:{password}".encode()).decode("ascii")
    request.headers["Authorization"] = f"Basic {told}"
