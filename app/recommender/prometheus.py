"""Asks a Prometheus, or whatever speaks like one, over HTTP.

Strategy: every failure becomes an error of `app.model.errors`, without any secret. Our certificate
is read again once it changes. Questions are posted; a server that does not take that is asked with
GET from then on. An answer has a deadline as a whole and may not be larger than memory can bear:
status 413 then says so, as 504 says that time was over.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
import orjson

from app.kube.failures import cause_of
from app.kube.transport import translate
from app.model.errors import BadSetting, ClusterError, Invalid, NotSent, Refused, Unavailable
from app.model.text import printable
from app.ports import Clock, Json
from app.recommender.prometheus_auth import auth_of
from app.recommender.prometheus_connection import PrometheusConnection
from app.runtime.clock import SystemClock

Observe = Callable[[str, str, float], None]  # code, method, seconds

LARGEST_ANSWER: Final = 1 << 28  # bytes
_CONNECT_SECONDS: Final = 10.0
_NO_POST: Final = (405, 501)
_TOO_LARGE: Final = 413
_TIMED_OUT: Final = 504


class PrometheusServer:
    """A Prometheus; not to be shared between threads."""

    def __init__(
        self,
        access: PrometheusConnection,
        observe: Observe,
        *,
        largest_answer: int = LARGEST_ANSWER,
        clock: Clock | None = None,
    ) -> None:
        url = _url(access.address)
        self._access = access
        self._observe = observe
        self._largest = largest_answer
        self._name = f"Prometheus at {url.netloc.decode()}"
        self._auth = auth_of(access, url, clock or SystemClock())
        self._root = url.copy_with(username=None, password=None, query=None, fragment=None)
        self._method = "POST"
        self._stamp = _stamp(access)
        self._client = self._new_client()

    def _new_client(self) -> httpx.Client:
        access = self._access
        seconds = access.timeout_seconds
        return httpx.Client(
            verify=_trust(access) if self._root.scheme == "https" else False,
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
            headers={"X-Scope-OrgID": access.tenant} if access.tenant else None,
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
        self._renew_client()
        request = self._client.build_request(
            self._method,
            url,
            data=params if posts else None,
            params=None if posts else params,
        )
        began = time.monotonic()
        with _translated(call):
            response = self._client.send(request, stream=True, auth=self._auth)
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

    def _renew_client(self) -> None:
        """Use the certificate that is there now."""
        stamp = _stamp(self._access)
        if stamp != self._stamp:
            client = self._new_client()
            self._client.close()
            self._client, self._stamp = client, stamp


def _url(address: str) -> httpx.URL:
    try:
        url = httpx.URL(address)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise BadSetting("--prometheus-address takes an address such as http://prometheus:9090")
    return url


def _stamp(access: PrometheusConnection) -> tuple[float, ...]:
    """Return what changes when our certificate does."""
    paths = [path for path in (access.certificate_file, access.key_file) if path]
    return tuple(_changed(path) for path in paths)


def _changed(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0


def _trust(access: PrometheusConnection) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca_file or None)
    except (OSError, ValueError) as error:
        problem = f"--prometheus-ca-file: {access.ca_file} cannot be used: {cause_of(error)}"
        raise BadSetting(problem) from None
    # Newer Pythons refuse certificates of older habits that everybody else accepts.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if access.certificate_file:
        _identify(context, access)
    if access.is_insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _identify(context: ssl.SSLContext, access: PrometheusConnection) -> None:
    try:
        context.load_cert_chain(access.certificate_file, access.key_file or None)
    except (OSError, ValueError) as error:
        files = " and ".join(filter(None, (access.certificate_file, access.key_file)))
        is_other = isinstance(error, ssl.SSLError)
        cause = "no certificate with its key is there" if is_other else cause_of(error)
        problem = f"--prometheus-client-certificate: {files} cannot be used: {cause}"
        raise BadSetting(problem) from None


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
    found = {"message": printable(text) or f"HTTP status {status}", "reason": kind}
    return translate(call, _TIMED_OUT if kind == "timeout" else status, found, retry_after)


@contextmanager
def _translated(call: str) -> Iterator[None]:
    try:
        yield
    except (Refused, Unavailable) as error:  # there are no credentials
        raise type(error)(f"{call}: {error}", status=error.status) from None
    except httpx.TimeoutException as error:
        if _is_early(error):
            raise NotSent(f"{call}: no connection in time") from error
        raise Unavailable(f"{call}: no answer in time", status=_TIMED_OUT) from error
    except httpx.ConnectError as error:
        raise NotSent(f"{call}: no connection: {cause_of(error)}") from error
    except (httpx.HTTPError, httpx.StreamError, OSError, ValueError) as error:
        raise Unavailable(f"{call}: no connection: {cause_of(error)}") from error


def _is_early(error: httpx.TimeoutException) -> bool:
    return isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
