"""AWS Signature Version 4: the header that tells who asks, and that nothing was changed since."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_UNRESERVED: Final = "-_.~"


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """Who asks; keys that are lent have a token, and end."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(default="", repr=False)
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class AwsScope:
    """For what a signature holds."""

    region: str
    service: str


@dataclass(frozen=True, slots=True)
class AwsRequest:
    """What is signed; the path and the query are those that are sent."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


def signed_headers(
    request: AwsRequest, keys: AwsKeys, scope: AwsScope, now: datetime
) -> dict[str, str]:
    """Return the headers to be sent beside those of the request, all of which are signed."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    added = {"x-amz-date": stamp}
    if keys.token:
        added["x-amz-security-token"] = keys.token
    headers = {
        name.lower(): " ".join(text.split())
        for name, text in (dict(request.headers) | added).items()
    }
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        (
            request.method,
            quote(_normal_path(request.path), safe=f"/{_UNRESERVED}"),
            _canonical_query(request.query),
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            names,
            hashlib.sha256(request.body).hexdigest(),
        )
    )
    day = f"{stamp[:8]}/{scope.region}/{scope.service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signature = _signature(keys.secret_key, day, "\n".join((_ALGORITHM, stamp, day, digest)))
    credential = f"Credential={keys.access_key}/{day}"
    told = f"{_ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"
    return added | {"Authorization": told}


def _normal_path(path: str) -> str:
    """Return a path without parts that lead nowhere, as AWS compares it."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            kept = kept[:-1]
        elif part not in {"", "."}:
            kept.append(part)
    return f"/{'/'.join(kept)}{'/' if kept and path.endswith('/') else ''}"


def _canonical_query(query: str) -> str:
    pairs = [part.partition("=") for part in query.split("&") if part]
    encoded = sorted((_encoded(key), _encoded(value)) for key, _, value in pairs)
    return "&".join(f"{key}={value}" for key, value in encoded)


def _encoded(text: str) -> str:
    return quote(unquote(text), safe=_UNRESERVED)


def _signature(secret: str, scope: str, text: str) -> str:
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()
