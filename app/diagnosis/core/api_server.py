"""The API server: version, features, clock, definitions of our kinds, and rights of accounts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Final

from app.diagnosis.core.facts import (
    AccountRight,
    Facts,
    Finding,
    Level,
    Unasked,
    known,
    unknown,
)
from app.diagnosis.core.processes import deployments, with_rights
from app.model.fields import Json
from app.model.gates import RESIZES_PODS, read_version
from app.model.text import span

_LEAST: Final = (1, 30)  # conditions of webhooks, for good
_SMALL: Final = timedelta(seconds=5)
_LARGE: Final = timedelta(seconds=30)  # half of what makes a Lease stale
_SERVER: Final = "API server"
_APPLY: Final = "plumbline manifests crd | kubectl apply --server-side --force-conflicts -f -"
_MOST_FIELDS: Final = 3  # that are named
_MOST_RIGHTS: Final = 4
_ASKER: Final = "plumbline-doctor"  # the role of the account that asks
_SERVED: Final = "v1"
_HORIZONTAL_UNKNOWN: Final = "HorizontalUnknown"
_NOTHING_HELD: Final = "so no resource is held for them"


def of_server(facts: Facts) -> Iterator[Finding]:
    """Judge version and features."""
    level, told = _version(known(facts.version, _SERVER))
    fix = "" if level is Level.FINE else "kubectl version"
    yield Finding(level, _SERVER, told, fix)
    resources = known(facts.core_resources, _SERVER)
    if "pods/eviction" not in resources:
        yield Finding(Level.SERIOUS, _SERVER, "it knows no evictions")
    if "pods/resize" not in resources:
        told = "running pods cannot be resized; modes InPlace, InPlaceOrRecreate and boosts need it"
        fix = "kube-apiserver --feature-gates=InPlacePodVerticalScaling=true"
        yield Finding(Level.WARNING, _SERVER, told, fix)


def _version(text: str) -> tuple[Level, str]:
    version = read_version(text)
    if version is None:
        return Level.WARNING, f'it is not known what version "{text[:40]}" can do'
    if version < _LEAST:
        return Level.SERIOUS, f"version {text} is too old: the webhook needs 1.30 or newer"
    if version < RESIZES_PODS:
        return Level.NOTE, f"version {text} resizes no running pods; that needs 1.33 or newer"
    return Level.FINE, f"version {text}"


def of_clock(facts: Facts) -> Iterator[Finding]:
    """Judge how far the clocks are apart; Leases are compared by them."""
    server = known(facts.server_time, _SERVER)
    apart = abs(server - facts.now)
    if apart < _SMALL:
        yield Finding(Level.FINE, _SERVER, "its clock and ours agree")
        return
    word = "ahead of" if server > facts.now else "behind"
    if facts.is_simulated:
        told = f"it is `plumbline run`, whose clock is {span(apart)} {word} ours; --demo goes by it"
        yield Finding(Level.NOTE, _SERVER, told, "plumbline doctor --demo")
        return
    told = f"its clock is {span(apart)} {word} ours, so Leases seem fresher or older than they are"
    level = Level.SERIOUS if apart >= _LARGE else Level.WARNING
    yield Finding(level, _SERVER, told, "chronyc makestep")


def of_definitions(facts: Facts) -> Iterator[Finding]:
    """Judge the CustomResourceDefinitions."""
    live = {_name(item): item for item in known(facts.definitions, "crd")}
    for wanted in facts.wanted_definitions:
        name = _name(wanted)
        about = f"crd/{name}"
        found = live.get(name)
        if found is None:
            told = "the definition is not there"
            yield Finding(Level.SERIOUS, about, told, _APPLY, is_absence=True)
            continue
        flaws = list(_flaws(about, found, wanted))
        yield from flaws
        if not flaws:
            yield Finding(Level.FINE, about, "served, with every field")


def _flaws(about: str, live: Json, wanted: Json) -> Iterator[Finding]:
    serious = partial(Finding, Level.SERIOUS, about)
    if not _is_established(live):
        yield serious("the API server has not taken it over", f"kubectl describe {about}")
    version, ours = _served(live), _served(wanted)
    if version is None or ours is None:
        yield serious("version v1 is not served", _APPLY)
        return
    if "status" in ours.get("subresources", {}) and "status" not in version.get("subresources", {}):
        yield serious("it has no status subresource, so nothing can be recommended", _APPLY)
    if missing := list(_missing(_schema(version), _schema(ours), "")):
        told = f"these would be dropped or refused: {_first(missing, _MOST_FIELDS)}"
        yield Finding(Level.WARNING, about, told, _APPLY, is_absence=True)


def _first(words: Sequence[str], most: int) -> str:
    """Return the first words, and how many more there are."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _name(item: Json) -> str:
    return str(item.get("metadata", {}).get("name"))


def _is_established(item: Json) -> bool:
    conditions = item.get("status", {}).get("conditions") or ()
    return any(
        one.get("type") == "Established" and one.get("status") == "True" for one in conditions
    )


def _served(item: Json) -> Json | None:
    versions = item.get("spec", {}).get("versions") or ()
    return next((one for one in versions if one.get("name") == _SERVED and one.get("served")), None)


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


def of_rights(facts: Facts) -> Iterator[Finding]:
    """Judge the rights of the account that asks, and of the processes' accounts."""
    for about, found in (("you", facts.rights), ("accounts", facts.accounts)):
        if isinstance(found, Unasked):
            yield unknown(about, found)
            continue
        others = [one for one in found if not one.scales]
        for (process, account), rights in groupby(others, lambda one: (one.process, one.account)):
            yield _account(process, account, list(rights), facts)
        yield from _unread_scalers(found, facts)
    yield from _unserved_scalers(facts)


def _unread_scalers(found: Sequence[AccountRight], facts: Facts) -> Iterator[Finding]:
    """Tell once of all rights without which it is not known what is scaled horizontally."""
    missing = [one for one in found if one.scales and not one.is_allowed]
    if not missing:
        return
    named = " and ".join(dict.fromkeys(one.what for one in missing))
    who = " and ".join(dict.fromkeys(f"the {one.process}" for one in missing))
    told = f"{_HORIZONTAL_UNKNOWN}: {who} may not read {named}, {_NOTHING_HELD}"
    fixes = (
        with_rights(one.process, one.account.split(":")[2], [one.document], facts)
        for one in missing
    )
    yield Finding(Level.WARNING, "horizontal", told, "; ".join(dict.fromkeys(fixes)))


def _unserved_scalers(facts: Facts) -> Iterator[Finding]:
    """Tell of what scales horizontally, and is served in versions that are not read."""
    ours = [] if isinstance(facts.deployments, Unasked) else deployments(facts)
    if isinstance(facts.scalers, Unasked) or all(one.ignores_scalers for one in ours):
        return
    for read, versions in facts.scalers.items():
        plural, version, group = read.split(".", 2)
        if version not in versions:
            served = f"are served as {' and '.join(versions)}, and not as {version}"
            told = f"{_HORIZONTAL_UNKNOWN}: {plural} of {group} {served}, {_NOTHING_HELD}"
            yield Finding(Level.WARNING, "horizontal", told)


def _account(process: str, account: str, found: Sequence[AccountRight], facts: Facts) -> Finding:
    missing = [one for one in found if not one.is_allowed]
    if not missing:
        return Finding(Level.FINE, account, f"it may do all {len(found)} things that are needed")
    named = _first([f"{one.verb} {one.what}" for one in missing], _MOST_RIGHTS)
    if not process:
        told = (
            f"the account that asks may not {named}, so not everything is looked at; who may grant "
            "rights can do so, with its user for NAME"
        )
        return Finding(Level.WARNING, account, told, _granted(missing, facts))
    told = f"the {process} may not {named}; needed to {missing[0].why}"
    documents = dict.fromkeys(one.document for one in missing)
    fix = with_rights(process, account.split(":")[2], documents, facts)
    return Finding(Level.SERIOUS, account, told, fix)


def _granted(missing: Sequence[AccountRight], facts: Facts) -> str:
    """Return what grants the account that asks its rights: lists everywhere, the Secret at home."""
    listed = ",".join(one.what.replace(" of ", ".") for one in missing if one.verb == "list")
    secret = f"--verb=get --resource=secrets --resource-name={facts.secret}"
    commands = []
    if listed:
        commands += [
            f"kubectl create clusterrole {_ASKER} --verb=list --resource={listed}",
            f"kubectl create clusterrolebinding {_ASKER} --clusterrole={_ASKER} --user=NAME",
        ]
    if any(one.verb == "get" for one in missing):
        commands += [
            f"kubectl -n {facts.namespace} create role {_ASKER} {secret}",
            f"kubectl -n {facts.namespace} create rolebinding {_ASKER} --role={_ASKER} --user=NAME",
        ]
    return " && ".join(commands)
