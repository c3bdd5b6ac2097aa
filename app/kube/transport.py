"""Sends requests to an API server; reads its answers as JSON, its refusals as our errors.

Strategy: every call has deadlines, and every failure becomes an error of `app.model.errors`.
Where a moment is given after which a call must not be under way, all that a call may wait for
counts: its token, a connection, and the answer.
A watch is a stream of lines that also ends when it was silent for long: the connection may be
dead, or the server has nothing to tell, not even a bookmark; another watch learns which. Only a
GET whose kept-alive connection turns out closed is sent a second time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from math import inf
from threading import Lock
from typing import Any
from urllib.parse import urlencode

import orjson
from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from app.kube.connection import ApiAccess, Pacer, Session, check_time
from app.kube.failures import cause_of
from app.model.errors import (
    ClusterError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    NotSent,
    Refused,
    TooMany,
    Unavailable,
)
from app.ports import Json

_LONGEST_TEXT = 300

_BY_STATUS: dict[int, type[ClusterError]] = {
    400: Invalid,
    401: Refused,
    403: Refused,
    404: NotFound,
    405: Invalid,
    406: Invalid,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooMany,
}
# A watch may report these with a status code of its own choice.
_BY_REASON: dict[str, type[ClusterError]] = {"Expired": Gone, "Gone": Gone}

_READ_BYTES = 1 << 16
_USER_AGENT = "plumbline"
_UNAUTHORIZED = 401


def refusal(call: str, status: int, body: bytes, retry_after: str = "") -> ClusterError:
    """Return the error for an HTTP answer that is no success; `call` names what was asked."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        text = body.decode("utf-8", "replace").strip()[:_LONGEST_TEXT]
        found = {"message": text or f"HTTP status {status}"}
    return translate(call, status, found, retry_after)


def translate(call: str, status: int, body: dict[str, Any], retry_after: str = "") -> ClusterError:
    """Return the error that a Status object tells of; a status of 0 takes its own code."""
    code = status or _whole(body.get("code"))
    reason = _text(body.get("reason"))
    details = body.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(code, Unavailable)
    message = _text(body.get("message")) or reason or f"HTTP status {code}"
    return kind(
        f"{call}: {message}",
        status=code,
        reason=reason,
        causes=_causes(details.get("causes")),
        retry_after_seconds=_seconds(retry_after) or _seconds(details.get("retryAfterSeconds")),
    )


def _causes(found: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(found, list):
        return ()
    return tuple(
        (_text(cause.get("reason")), _text(cause.get("message")))
        for cause in found
        if isinstance(cause, dict)
    )


def _seconds(found: object) -> float | None:
    """Read seconds; the date form of Retry-After is not used by API servers."""
    try:
        seconds = float(found) if isinstance(found, (str, int, float)) else 0.0
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


def _whole(found: object) -> int:
    return found if isinstance(found, int) else 0


@dataclass(frozen=True, slots=True)
class Call:
    """One request; `body` is JSON already."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long to wait; only `not_after` counts the time spent in the pacing queue."""

    connect_seconds: float = 3.0
    read_seconds: float = 10.0  # between two pieces of an answer
    call_seconds: float = 30.0  # for an answer as a whole
    # Of a watch. Servers send a bookmark every minute, but for some kinds none at all before
    # the first change since they were started.
    silence_seconds: float = 90.0
    not_after: float = inf  # of the monotonic clock: nothing is sent, or waited for, any more

    def at_once(self) -> Deadlines:
        """Return the deadlines of an answer that is made as a whole before its first piece."""
        return replace(self, read_seconds=max(self.read_seconds, self.call_seconds))

    def within(self, seconds: float) -> Deadlines:
        """Return deadlines of which none is later than so many seconds."""
        return replace(
            self,
            connect_seconds=min(self.connect_seconds, seconds),
            read_seconds=min(self.read_seconds, seconds),
            call_seconds=min(self.call_seconds, seconds),
        )

    def until(self, moment: float) -> Deadlines:
        """Return deadlines of which none is later than a moment of the monotonic clock."""
        return replace(self, not_after=min(self.not_after, moment))

    def timeout(self, call: object, read_seconds: float) -> Timeout:
        """Return how long a request that is sent now may take to connect, and to be answered.

        Raises:
            NotSent: it must not be sent any more.
        """
        if self.not_after == inf:
            return Timeout(connect=self.connect_seconds, read=read_seconds)
        now = time.monotonic()
        check_time(call, now, self.not_after)
        left = self.not_after - now
        # To connect is two waits, TCP's and TLS's; only after both a request is sent.
        connect_seconds = min(self.connect_seconds, left / 2)
        return Timeout(total=left, connect=connect_seconds, read=read_seconds)


class Transport:
    """The way to one API server; safe to use from many threads."""

    def __init__(self, access: ApiAccess, pacer: Pacer) -> None:
        self._access = access
        self._pacer = pacer
        self._lock = Lock()
        self._streams: dict[BaseHTTPResponse, bool] = {}  # whether a thread waits for it now
        self._closed = False
        self._date: tuple[str, float] | None = None  # the newest Date, and when it came

    def server_now(self) -> datetime | None:
        """Return the time by the server's clock, None if no answer has told it."""
        if self._date is None:
            return None
        text, at = self._date
        try:
            told = parsedate_to_datetime(text)
        except ValueError:
            return None
        return told.astimezone(UTC) + timedelta(seconds=time.monotonic() - at)

    def call(self, call: Call, deadlines: Deadlines) -> Json:
        """Send a request and return its answer."""
        response = self._send(call, deadlines, {"Accept-Encoding": "gzip"}, deadlines.read_seconds)
        with self._closing(call, response):
            until = min(time.monotonic() + deadlines.call_seconds, deadlines.not_after)
            body = _read(call, response, until)
        return parse(call, body)

    def lines(self, call: Call, deadlines: Deadlines, seconds: float) -> Iterator[bytes]:
        """Send a request; once it is accepted, yield the answer for at most so many seconds."""
        silence = min(deadlines.silence_seconds, seconds)
        response = self._send(call, deadlines, {}, silence)
        self._keep(call, response)  # also if no line is ever asked for, or for the next one
        return self._lines(call, response, seconds)

    def _lines(self, call: Call, response: BaseHTTPResponse, seconds: float) -> Iterator[bytes]:
        until = time.monotonic() + seconds
        with self._closing(call, response):
            rest = b""
            while piece := self._heard(call, response):
                *lines, rest = (rest + piece).split(b"\n")
                yield from lines
                if time.monotonic() >= until:
                    return
        if rest.strip():
            raise Unavailable(f"{call}: the stream ended within a line")

    def _heard(self, call: Call, response: BaseHTTPResponse) -> bytes:
        """Return what comes next; nothing at the end, and after a long silence."""
        self._keep(call, response, is_awaited=True)
        try:
            return response.read1(_READ_BYTES, decode_content=False)  # none was accepted
        except ReadTimeoutError:
            return b""
        finally:
            self._keep(call, response)

    def _keep(self, call: Call, response: BaseHTTPResponse, *, is_awaited: bool = False) -> None:
        with self._lock:
            if not self._closed:
                self._streams[response] = is_awaited
                return
        response.close()
        raise Unavailable(f"{call}: the connection is closed on our side")

    @contextmanager
    def _closing(self, call: Call, response: BaseHTTPResponse) -> Iterator[None]:
        """Close the connection, unless a whole answer was read and it is back in the pool."""
        try:
            with _translated(call):
                yield
        finally:
            with self._lock:
                self._streams.pop(response, None)
            response.close()

    def _send(
        self, call: Call, deadlines: Deadlines, headers: Mapping[str, str], read_seconds: float
    ) -> BaseHTTPResponse:
        self._pacer.wait(call, deadlines.not_after)
        if self._closed:
            raise NotSent(f"{call}: not sent, because the connection is closed on our side")
        session = self._access.session()
        response = self._open(session, call, deadlines, headers, read_seconds)
        if response.status == _UNAUTHORIZED and self._access.renew(session.generation):
            response.close()
            session = self._access.session()
            response = self._open(session, call, deadlines, headers, read_seconds)
        if date := response.headers.get("Date"):
            self._date = (date, time.monotonic())
        if response.status >= 300:
            with self._closing(call, response):
                body = _read(call, response, time.monotonic() + read_seconds)
            retry_after = response.headers.get("Retry-After", "")
            raise refusal(str(call), response.status, body, retry_after)
        return response

    def _open(
        self,
        session: Session,
        call: Call,
        deadlines: Deadlines,
        headers: Mapping[str, str],
        read_seconds: float,
    ) -> BaseHTTPResponse:
        url = session.host + call.path
        if call.query:
            url += "?" + urlencode(call.query)
        sent = {"Accept": "application/json", "User-Agent": _USER_AGENT, **headers}
        if session.authorization:
            sent["Authorization"] = session.authorization
        if call.body is not None:
            sent["Content-Type"] = call.content_type

        def send() -> BaseHTTPResponse:
            return session.pool.request(
                call.method,
                url,
                body=call.body,
                headers=sent,
                timeout=deadlines.timeout(call, read_seconds),
                preload_content=False,
                redirect=False,
                retries=False,
            )

        with _translated(call, session.host):
            try:
                return send()
            except ProtocolError:
                if call.method != "GET":
                    raise
                return send()
            except (OSError, ValueError) as error:  # e.g. a token that fits no header
                raise Unavailable(f"{call}: cannot be sent: {cause_of(error)}") from error

    def close(self) -> None:
        """End all streams and close all connections; later streams are refused."""
        with self._lock:
            self._closed = True
            for response, is_awaited in self._streams.items():
                with suppress(ValueError, RuntimeError, OSError):  # it ended by itself
                    # The thread that waits for a stream closes it itself.
                    (response.shutdown if is_awaited else response.close)()
        self._access.close()


def parse(call: Call, body: bytes) -> Json:
    """Read the JSON object of an answer or line."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unavailable(f"{call}: the answer is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Unavailable(f"{call}: the answer is not a JSON object")
    return found


def _read(call: Call, response: BaseHTTPResponse, until: float) -> bytes:
    pieces = []
    while piece := response.read1(_READ_BYTES, decode_content=True):
        pieces.append(piece)
        if time.monotonic() >= until:
            raise Unavailable(f"{call}: the answer took too long")
    return b"".join(pieces)


@contextmanager
def _translated(call: Call, host: str = "") -> Iterator[None]:
    """Name the server where no connection is made, the call once there is one."""
    try:
        yield
    except NewConnectionError as error:  # to urllib3 a kind of ConnectTimeoutError
        raise NotSent(f"{host}: {cause_of(error)}") from error
    except ConnectTimeoutError as error:
        raise NotSent(f"{host}: no connection in time") from error
    except ReadTimeoutError as error:
        raise Unavailable(f"{call}: no answer in time") from error
    except SSLError as error:
        raise Unavailable(f"{host or call}: {cause_of(error)}") from error
    except HTTPError as error:
        raise Unavailable(f"{call}: connection lost: {cause_of(error)}") from error
