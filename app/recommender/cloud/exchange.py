"""Asks a cloud for credentials, and keeps them until they end.

Strategy: a cloud is asked over a connection of its own, for what Prometheus trusts is no matter of
the cloud. Credentials are asked for again some minutes before they end; if that fails those at hand
are used for as long as they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Generic, TypeVar
from xml.etree import ElementTree

import httpx
import orjson

from app.kube.failures import cause_of
from app.model.errors import Refused, Unavailable
from app.model.fields import Object
from app.ports import Clock
from app.recommender.cloud.sigv4 import AwsKeys

_SECONDS: Final = 10.0
_EARLY: Final = timedelta(minutes=5)
_LONGEST_REASON: Final = 300
_BUSY: Final = 429


@dataclass(frozen=True, slots=True)
class CloudToken:
    """A bearer token."""

    text: str = field(repr=False)
    expires: datetime | None


E = TypeVar("E", CloudToken, AwsKeys)


class Kept(Generic[E]):
    """What was asked for, until it ends."""

    def __init__(self, ask: Callable[[], E], clock: Clock) -> None:
        self._ask: Callable[[], E] = ask
        self._clock = clock
        self._found: E | None = None

    def current(self) -> E:
        """Return what holds now.

        Raises:
            ClusterError: it is refused, or there is no answer.
        """
        found, now = self._found, self._clock.now()
        if found is not None and (found.expires is None or now < found.expires - _EARLY):
            return found
        try:
            self._found = self._ask()
        except (Refused, Unavailable):
            if found is None or (found.expires is not None and now >= found.expires):
                raise
            return found
        return self._found

    def forget(self) -> None:
        """Ask again next time."""
        self._found = None


def exchanged(what: str, request: httpx.Request, *, is_near: bool = False) -> httpx.Response:
    """Send a request, past any proxy if the server is near; `what` names it in sentences.

    Raises:
        Refused: the answer is no.
        Unavailable: there is none.
    """
    try:
        with httpx.Client(timeout=_SECONDS, trust_env=not is_near) as client:
            response = client.send(request)
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"{what}: no connection: {cause_of(error)}") from None
    if response.is_success:
        return response
    is_busy = response.is_server_error or response.status_code == _BUSY
    kind = Unavailable if is_busy else Refused
    raise kind(f"{what}: {_reason(response)}", status=response.status_code)


def json_of(what: str, response: httpx.Response) -> Object:
    """Read an answer.

    Raises:
        Unavailable: it is no JSON object.
    """
    try:
        found = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise Unavailable(f"{what}: the answer is no JSON object")
    return found


def token_of(what: str, response: httpx.Response, now: datetime) -> CloudToken:
    """Read a token as OAuth 2.0 tells it.

    Raises:
        Unavailable: there is none.
    """
    found = json_of(what, response)
    text, seconds = found.get("access_token"), found.get("expires_in")
    try:
        expires = now + timedelta(seconds=float(str(seconds)))
    except (ValueError, OverflowError):
        text = None
    if not isinstance(text, str) or not text:
        raise Unavailable(f"{what}: the answer has no token that ends")
    return CloudToken(text, expires)


def secret_in(what: str, path: str) -> str:
    """Read a secret, which another program may write again at any time.

    Raises:
        Refused: it cannot be read.
    """
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise Refused(f"the {what} in {path} cannot be read: {cause_of(error)}") from None


def _reason(response: httpx.Response) -> str:
    """Return what an answer says, in the words of OAuth, of AWS, or as it stands."""
    text = response.text
    try:
        found = orjson.loads(response.content)
        text = str(found.get("error_description") or found.get("error") or text)
    except (orjson.JSONDecodeError, AttributeError):
        told = xml_texts(response.content)
        text = told.get("Message", text)
    text = " ".join(text.split())[:_LONGEST_REASON]
    return f"HTTP status {response.status_code}{f': {text}' if text else ''}"


def xml_texts(body: bytes) -> dict[str, str]:
    """Return the texts of a document by the names of their elements; none if it is no XML."""
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        return {}
    return {each.tag.rpartition("}")[2]: each.text or "" for each in root.iter()}
