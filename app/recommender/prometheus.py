"""Asks a Prometheus, or whatever speaks like one, over HTTP.

Strategy: every failure becomes an error of `app.model.errors`, without any secret. A token
or password in a file is read again for each question, for such files change. Questions are
posted; a server that does not take that is asked with GET from then on. An answer has a deadline
as a whole and may not be larger than memory can bear: status 413 then says so, as 504 says that
time was over.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
import orjson

from app.kube.transport import translate
from app.model.errors import BadSetting, ClusterError, Invalid, Refused, Unavailable
from app.ports import Json

Observe = Callable[[str, str, float], None]  # code, method, seconds

LARGEST_ANSWER: Final = 1 << 28  # bytes
_CONNECT_SECONDS: Final = 10.0
_NO_POST: Final = (405, 501)
_TOO_LARGE: Final = 413
_TIMED_OUT: Final = 504


@dataclass(frozen=True, slots=True)
class PrometheusConnection:
    """Where a Prometheus is, and who we are to it: a token, else a user."""

    address: str
    timeout_seconds: float = 300.0
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    password_file: str = ""
    ca_file: str = ""
    is_insecure: bool = False


class PrometheusServer:
    """A Prometheus; not to be shared between threads."""

    def __init__(
        self,
        access: PrometheusConnection,
        observe: Observe,
        *,
        largest_answer: int = LARGEST_ANSWER,
    ) -> None:
        url = _url(access.address)
        self._access = access
        self._observe = observe
        self._largest = largest_answer
        self._name = f"Prometheus at {url.host}:{url.port or url.scheme}"
        self._url = url
        self._root = url.copy_with(username=None, password=None, query=None, fragment=None)
        self._method = "POST"
        seconds = access.timeout_seconds
        self._client = httpx.Client(
            verify=_trust(access) if url.scheme == "https" else False,
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
            follow_redirects=True,
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def query(self, query: str, at: datetime) -> Json:
        """Return the answer to a query at a time."""
        return self._ask("query", {"query": query, "time": _seconds(at)})

    def query_range(self, query: str, start: datetime, end: datetime, step: timedelta) -> Json:
        """Return the answer to a query over a time, both ends included."""
        params = {"query": query, "start": _seconds(start), "end": _seconds(end)}
        return self._ask("query_range", params | {"step": f"{step.total_seconds():.3f}"})

    def _ask(self, verb: str, params: Mapping[str, str]) -> Json:
        call = f"{self._name}: {verb}"
        params = {**params, "timeout": f"{self._access.timeout_seconds:.3f}"}
        status, headers, body = self._sent(call, verb, params)
        if status in _NO_POST and self._method == "POST":
            self._method = "GET"
            status, headers, body = self._sent(call, verb, params)
        found = _read(body)
        if status == httpx.codes.OK and found is None:
            raise Unavailable(f"{call}: the answer is no JSON object")
        if status != httpx.codes.OK or found is None or found.get("status") != "success":
            raise _refusal(call, status, found or {}, headers.get("Retry-After", ""))
        return found

    def _sent(
        self, call: str, verb: str, params: Mapping[str, str]
    ) -> tuple[int, httpx.Headers, bytes]:
        url = self._root.copy_with(path=f"{self._root.path.rstrip('/')}/api/v1/{verb}")
        posts = self._method == "POST"
        user = self._user(call)
        request = self._client.build_request(
            self._method,
            url,
            headers=self._authorization(call),
            data=params if posts else None,
            params=None if posts else params,
        )
        began = time.monotonic()
        with _translated(call):
            response = self._client.send(request, stream=True, auth=user)
            try:
                body = self._body(call, response, began + self._access.timeout_seconds)
            finally:
                response.close()
                seconds = time.monotonic() - began
                self._observe(str(response.status_code), self._method.lower(), seconds)
        return response.status_code, response.headers, body

    def _body(self, call: str, response: httpx.Response, until: float) -> bytes:
        pieces, size = [], 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > self._largest:
                text = f"{call}: the answer is larger than {self._largest} bytes"
                raise Invalid(text, status=_TOO_LARGE)
            if time.monotonic() >= until:
                raise Unavailable(f"{call}: the answer took too long", status=_TIMED_OUT)
        return b"".join(pieces)

    def _authorization(self, call: str) -> dict[str, str]:
        token, path = self._access.token, self._access.token_file
        if path:
            token = _read_secret(call, "token", path)
        if not token and not path:
            return {}
        if not token.isascii() or not token.isprintable() or not token:
            raise Refused(f"{call}: the token{f' in {path}' if path else ''} is none")
        return {"Authorization": f"Bearer {token}"}

    def _user(self, call: str) -> httpx.BasicAuth | None:
        access, url = self._access, self._url
        if access.token or access.token_file:
            return None
        if not access.username:
            return httpx.BasicAuth(url.username, url.password) if url.username else None
        password = access.password
        if access.password_file:
            password = _read_secret(call, "password", access.password_file)
        return httpx.BasicAuth(access.username, password)


def _read_secret(call: str, what: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise Refused(f"{call}: the {what} in {path} cannot be read: {error}") from None


def _url(address: str) -> httpx.URL:
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadSetting("--prometheus-address takes an address such as http://prometheus:9090")
    return url


def _trust(access: PrometheusConnection) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca_file or None)
    except (OSError, ValueError) as error:
        problem = f"--prometheus-ca-file: {access.ca_file} cannot be used: {error}"
        raise BadSetting(problem) from None
    # Newer Pythons refuse certificates of older habits that everybody else accepts.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if access.is_insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _read(body: bytes) -> Json | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _seconds(moment: datetime) -> str:
    return f"{moment.timestamp():.3f}"


def _refusal(call: str, status: int, body: Json, retry_after: str) -> ClusterError:
    """Return the error for an answer that tells of one."""
    kind, text = str(body.get("errorType") or ""), str(body.get("error") or "")
    found = {"message": text or f"HTTP status {status}", "reason": kind}
    return translate(call, _TIMED_OUT if kind == "timeout" else status, found, retry_after)


@contextmanager
def _translated(call: str) -> Iterator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        late = "no connection in time" if _is_early(error) else "no answer in time"
        status = 0 if _is_early(error) else _TIMED_OUT
        raise Unavailable(f"{call}: {late}", status=status) from error
    except (httpx.HTTPError, httpx.StreamError, OSError, ValueError) as error:
        text = str(error) or type(error).__name__
        raise Unavailable(f"{call}: no connection: {text}") from error


def _is_early(error: httpx.TimeoutException) -> bool:
    return isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
