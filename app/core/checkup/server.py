"""The API server: its version, what it can do, and its clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from app.core.checkup.facts import Facts
from app.core.checkup.findings import Check, Finding, Level, Unasked, unknown
from app.model.amounts import span

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_LEAST: Final = (1, 30)  # conditions of webhooks, for good
_RESIZES: Final = (1, 33)  # running pods
_SMALL: Final = timedelta(seconds=5)
_LARGE: Final = timedelta(seconds=30)  # half of what makes a Lease stale
_SERVER: Final = "API server"


def of_server(facts: Facts) -> Iterator[Finding]:
    """Judge version and features."""
    if isinstance(facts.version, Unasked):
        yield unknown(Check.SERVER, _SERVER, facts.version)
        return
    yield _version(facts.version)
    resources = facts.core_resources
    if isinstance(resources, Unasked):
        yield unknown(Check.SERVER, _SERVER, resources)
        return
    if "pods/eviction" not in resources:
        yield Finding(Check.SERVER, Level.SERIOUS, _SERVER, "it knows no evictions")
    if "pods/resize" not in resources:
        told = "running pods cannot be resized; modes InPlace, InPlaceOrRecreate and boosts need it"
        fix = "kube-apiserver --feature-gates=InPlacePodVerticalScaling=true"
        yield Finding(Check.SERVER, Level.WARNING, _SERVER, told, fix)


def _version(text: str) -> Finding:
    found = _VERSION.match(text)
    version = (int(found[1]), int(found[2])) if found else None
    if version is None:
        told = f'nobody knows what version "{text[:40]}" can do'
        return Finding(Check.SERVER, Level.WARNING, _SERVER, told, "kubectl version")
    if version < _LEAST:
        told = f"version {text} is too old: the webhook needs 1.30 or newer"
        return Finding(Check.SERVER, Level.SERIOUS, _SERVER, told, "kubectl version")
    if version < _RESIZES:
        told = f"version {text} resizes no running pods; that needs 1.33 or newer"
        return Finding(Check.SERVER, Level.NOTE, _SERVER, told, "kubectl version")
    return Finding(Check.SERVER, Level.FINE, _SERVER, f"version {text}")


def of_clock(facts: Facts) -> Iterator[Finding]:
    """Judge how far the clocks are apart; Leases are compared by them."""
    server = facts.server_time
    if isinstance(server, Unasked):
        yield unknown(Check.CLOCK, _SERVER, server)
        return
    apart = abs(server - facts.now)
    if apart < _SMALL:
        yield Finding(Check.CLOCK, Level.FINE, _SERVER, "its clock and ours agree")
        return
    word = "ahead of" if server > facts.now else "behind"
    told = f"its clock is {span(apart)} {word} ours, so Leases seem fresher or older than they are"
    level = Level.SERIOUS if apart >= _LARGE else Level.WARNING
    yield Finding(Check.CLOCK, level, _SERVER, told, "chronyc makestep")
