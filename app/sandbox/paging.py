"""Lists: which objects, at which version, page by page.

Strategy: a token holds the version of the first page and the key after which to go on. Later
pages are worked out from that version, so that all pages together show one moment.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right

import orjson

from app.model.errors import Gone, Unavailable
from app.ports import Json, Page, Resource
from app.sandbox.objects import Key, copied, key_of
from app.sandbox.refusals import bad_request, expired
from app.sandbox.selecting import Matches
from app.sandbox.store import Store

_TOKEN_VERSION = "meta.k8s.io/v1"


def page(
    store: Store, collection: str, namespace: str, matches: Matches, limit: int, token: str
) -> Page:
    """Return one page of what matches."""
    with store.lock:
        version, after = _read_token(token) if token else (store.version, None)
        try:
            items = (
                store.items_at(collection, namespace, version)
                if token
                else store.items(collection, namespace)
            )
        except Gone:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            ) from None
    if after is not None:
        items = items[bisect_right(items, after, key=key_of) :]
    found: list[Json] = []
    for item in items:
        if not matches(item):
            continue
        if limit and len(found) == limit:
            return Page(found, str(version), _token(version, key_of(found[-1])))
        found.append(copied(item))
    return Page(found, str(version))


def check_version(store: Store, resource: Resource, text: str) -> int:
    """Return the version that a caller names, 0 for any.

    Raises:
        Invalid: it is no version.
        Unavailable: it is still to come.
    """
    if not text.isdecimal():
        raise bad_request(f"Invalid value: {text!r}: strconv.ParseUint: parsing: invalid syntax")
    version = int(text)
    if version > store.version:
        raise Unavailable(
            f"Too large resource version: {version}, current: {store.version} ({resource.plural})",
            status=504,
            reason="Timeout",
            causes=(("ResourceVersionTooLarge", "Too large resource version"),),
            retry_after_seconds=1,
        )
    return version


def _token(version: int, key: Key) -> str:
    start = {"v": _TOKEN_VERSION, "rv": version, "start": list(key)}
    return base64.urlsafe_b64encode(orjson.dumps(start)).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, Key]:
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = found["start"]
        return int(found["rv"]), Key(str(namespace), str(name))
    except (binascii.Error, ValueError, TypeError, KeyError):
        raise bad_request("continue key is not valid") from None
