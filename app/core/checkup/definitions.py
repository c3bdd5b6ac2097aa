"""The definitions of our kinds: there, served, and with every field that is acted upon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.core.checkup.facts import Facts
from app.core.checkup.findings import Check, Finding, Level, Unasked, unknown
from app.model.fields import Json

_FIX: Final = "plumbline manifests crd | kubectl apply --server-side --force-conflicts -f -"
_MOST_NAMED: Final = 3
_VERSION: Final = "v1"


def of_definitions(facts: Facts) -> Iterator[Finding]:
    """Judge the CustomResourceDefinitions."""
    if isinstance(facts.definitions, Unasked):
        yield unknown(Check.DEFINITIONS, "crd", facts.definitions)
        return
    live = {_name(item): item for item in facts.definitions}
    for wanted in facts.wanted_definitions:
        name = _name(wanted)
        about = f"crd/{name}"
        found = live.get(name)
        if found is None:
            told = "the definition is not there"
            yield Finding(Check.DEFINITIONS, Level.SERIOUS, about, told, _FIX, is_absence=True)
            continue
        flaws = list(_flaws(about, found, wanted))
        yield from flaws
        if not flaws:
            yield Finding(Check.DEFINITIONS, Level.FINE, about, "served, with every field")


def _flaws(about: str, live: Json, wanted: Json) -> Iterator[Finding]:
    if not _is_established(live):
        told = "the API server has not taken it over"
        yield Finding(Check.DEFINITIONS, Level.SERIOUS, about, told, f"kubectl describe {about}")
    version, ours = _version(live), _version(wanted)
    if version is None or ours is None:
        yield Finding(Check.DEFINITIONS, Level.SERIOUS, about, "version v1 is not served", _FIX)
        return
    if "status" in ours.get("subresources", {}) and "status" not in version.get("subresources", {}):
        told = "it has no status subresource, so nothing can be recommended"
        yield Finding(Check.DEFINITIONS, Level.SERIOUS, about, told, _FIX)
    missing = list(_missing(_schema(version), _schema(ours), ""))
    if missing:
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        told = f"these would be dropped or refused: {', '.join(missing[:_MOST_NAMED])}{more}"
        yield Finding(Check.DEFINITIONS, Level.WARNING, about, told, _FIX, is_absence=True)


def _name(item: Json) -> str:
    return str(item.get("metadata", {}).get("name"))


def _is_established(item: Json) -> bool:
    conditions = item.get("status", {}).get("conditions") or ()
    return any(
        one.get("type") == "Established" and one.get("status") == "True" for one in conditions
    )


def _version(item: Json) -> Json | None:
    versions = item.get("spec", {}).get("versions") or ()
    return next(
        (one for one in versions if one.get("name") == _VERSION and one.get("served")), None
    )


def _schema(version: Json) -> Json:
    found: Json = version.get("schema", {}).get("openAPIV3Schema", {})
    return found


def _missing(found: object, wanted: Json, path: str) -> Iterator[str]:
    """Yield the fields, and the words of fields, that a live schema does not know."""
    live: Json = found if isinstance(found, dict) else {}
    words = set(wanted.get("enum") or ()) - set(live.get("enum") or wanted.get("enum") or ())
    yield from (f"{path}: {word}" for word in sorted(map(str, words)))
    known = live.get("properties") or {}
    for name, schema in (wanted.get("properties") or {}).items():
        at = f"{path}.{name}" if path else name
        if name not in known and "properties" in live:
            yield at
        elif name in known:
            yield from _missing(known[name], schema, at)
    if isinstance(wanted.get("items"), dict):
        yield from _missing(live.get("items"), wanted["items"], f"{path}[]")
