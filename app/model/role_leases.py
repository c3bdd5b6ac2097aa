"""Leases that tell which pod leads: the annotation that names one, and what it says with time.

Strategy: a Lease is judged as client-go's election judges it. The times in it are those of other
clocks, so it is held for as long as it keeps changing within its duration, by the clock of the
process that watches. What was seen is folded into a `LeaseHistory`; what counts of it at a moment
is its `LeaseStanding`, which no renewal changes. A Lease that was given up, expired or deleted
keeps its last holder for two durations more, because the next one is elected in that time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from app.model.errors import BadObject
from app.model.fields import Object, time_at
from app.model.selectors import key_flaws, value_flaws
from app.model.times import later

ROLE_LEASE_ANNOTATION: Final = "plumbline/role-lease"

_ROLES: Final = ("leader", "follower")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_UUID: Final = re.compile(r"[^0-9A-Za-z]?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.I)
_LONGEST_SECONDS: Final = 86_400  # of a Lease: beyond that nothing can be told from it
_KEPT_DURATIONS: Final = 2
_WINDOW: Final = timedelta(minutes=10)
_MOST_HANDOVERS: Final = 3  # within the window
UNSTABLE_TEXT: Final = f"more than {_MOST_HANDOVERS} times within 10 minutes"


class RoleLease(NamedTuple):
    """What the annotation of a VPA says: pods have a label by who holds a Lease."""

    key: str
    lease: str
    leader: str = "leader"
    follower: str = "follower"


class PodRole(NamedTuple):
    """A label that a pod has by a Lease."""

    lease: RoleLease
    value: str
    leads: bool
    why: str
    since: datetime | None  # the Lease was seen to change hands, or seen first
    acquired: datetime | None = None  # by its holder, as far as it is known

    @property
    def key(self) -> str:
        """The key of the label."""
        return self.lease.key


def parse_role_lease(text: str) -> RoleLease:
    """Read `KEY=LEASE`, with `;leader=VALUE` and `;follower=VALUE` behind it where they differ.

    Raises:
        BadObject: the text says something else.
    """
    first, *others = text.split(";")
    key, equals, lease = first.partition("=")
    flaws = key_flaws(key)
    if not equals or flaws:
        why = flaws[0] if equals else "it begins with LABEL-KEY=LEASE-NAME"
        raise BadObject("", why)
    if not _DNS_SUBDOMAIN.fullmatch(lease):
        raise BadObject("", f'"{ascii(lease[:80])[1:-1]}" is no name of a Lease')
    values: dict[str, str] = {}
    for other in others:
        role, _, value = other.partition("=")
        if role not in _ROLES or role in values:
            raise BadObject("", "after a semicolon comes leader=VALUE or follower=VALUE, each once")
        if not value or (flaws := value_flaws(value)):
            raise BadObject("", f"{role}: {flaws[0] if value else 'a value is missing'}")
        values[role] = value
    found = RoleLease(key, lease, **values)
    if found.leader == found.follower:
        raise BadObject("", "leader and follower need different values")
    return found


def role_lease_of(annotations: Mapping[str, str]) -> RoleLease | None:
    """Return what an annotation says, None without one, or with one that cannot be read."""
    text = annotations.get(ROLE_LEASE_ANNOTATION)
    try:
        return None if text is None else parse_role_lease(text)
    except BadObject:
        return None


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The spec of a Lease as it was written; equal ones are no renewal of each other."""

    written: tuple[Any, ...]
    holder: str = ""  # empty: it was given up
    duration: timedelta = timedelta()
    problem: str = ""  # why it cannot be used


def read_lease(item: Object) -> LeaseRecord:
    """Read a Lease; what is wrong with it is a problem, because others write it as they like."""
    spec = item.get("spec")
    if not isinstance(spec, dict):
        return LeaseRecord((spec,), problem="" if spec is None else "its spec is no object")
    holder, seconds = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
    written = (
        holder,
        seconds,
        spec.get("renewTime"),
        spec.get("acquireTime"),
        spec.get("leaseTransitions"),
    )
    if not holder:
        return LeaseRecord(written)
    if not isinstance(holder, str):
        return LeaseRecord(written, problem="its holderIdentity is no text")
    if type(seconds) is not int or not 0 < seconds <= _LONGEST_SECONDS:
        told = f"{seconds!r}"[:40] if seconds is not None else "missing"
        problem = f"its leaseDurationSeconds is {told}, not 1 to {_LONGEST_SECONDS}"
        return LeaseRecord(written, problem=problem)
    return LeaseRecord(written, holder, timedelta(seconds=seconds))


@dataclass(frozen=True, slots=True)
class LeaseHistory:
    """What was seen of a Lease, by the clock of the process that watches."""

    record: LeaseRecord | None  # None: there is no such Lease
    seen_at: datetime  # when that was seen first
    holder: str = ""  # who holds it, or held it last
    duration: timedelta = timedelta()  # for which it was held each time
    since: datetime | None = None  # when that holder got it, as far as it is known
    held_until: datetime | None = None  # when it was given up or expired, of one not held any more
    handovers: tuple[datetime, ...] = ()  # the latest, from one holder to another
    unstable_until: datetime | None = None
    seen_since: datetime | None = None  # when that holder was seen first


def observed(
    history: LeaseHistory | None, record: LeaseRecord | None, now: datetime
) -> LeaseHistory:
    """Take in a Lease as it is now, None if it does not exist."""
    if history is None:
        if record is None or not record.holder:
            return LeaseHistory(record, now, held_until=now)  # who held it last is not known
        seen = LeaseHistory(record, now, record.holder, record.duration, seen_since=now)
        return replace(seen, since=_acquired(record, now))
    if record == history.record:
        return history
    now = max(now, history.seen_at)
    if record is None or not record.holder:
        return replace(history, record=record, seen_at=now, held_until=_held_until(history, now))
    seen = LeaseHistory(  # as `replace` would, at half the cost: renewals are frequent
        record,
        now,
        record.holder,
        record.duration,
        history.since,
        None,
        history.handovers,
        history.unstable_until,
        history.seen_since,
    )
    if not history.holder:
        return replace(seen, since=_acquired(record, now), seen_since=now)
    if bearer(record.holder) == bearer(history.holder):
        return seen
    return _handed_over(seen, now)


def bearer(identity: str) -> str:
    """Return a holder's identity without the UUID with which many mark a process."""
    return _UUID.sub("", identity)


def _acquired(record: LeaseRecord, now: datetime) -> datetime:
    """Return when a Lease was acquired: as it says, if that is over by our clock too."""
    try:
        told = time_at({"acquireTime": record.written[3]}, "acquireTime", "spec")
    except BadObject:
        return now
    return now if told is None else min(told, now)


def _held_until(history: LeaseHistory, now: datetime) -> datetime | None:
    """Return until when the last holder held a Lease, None if it is not known to any."""
    if history.held_until is not None or not history.holder:
        return history.held_until
    return min(later(history.seen_at, history.duration), now)


def _handed_over(seen: LeaseHistory, now: datetime) -> LeaseHistory:
    """Count a change of hands; too many of them make a Lease unstable until it is quiet."""
    recent = (*(one for one in seen.handovers if now - one < _WINDOW), now)
    was_unstable = seen.unstable_until is not None and now < seen.unstable_until
    is_unstable = was_unstable or len(recent) > _MOST_HANDOVERS
    return replace(
        seen,
        since=now,
        seen_since=now,
        handovers=recent[-_MOST_HANDOVERS:],
        unstable_until=later(now, _WINDOW) if is_unstable else None,
    )


class LeaseState(StrEnum):
    """Whether a Lease tells who leads."""

    HELD = "held"
    KEPT = "kept"  # not held any more; its last holder is believed for two durations
    VACANT = "vacant"  # nothing leads
    MISSING = "missing"  # there is no such Lease
    UNREADABLE = "unreadable"  # it says nothing that can be used
    FORBIDDEN = "forbidden"  # we have no right to watch it


@dataclass(frozen=True, slots=True)
class LeaseStanding:
    """What counts of a Lease at a moment; renewals do not change it."""

    state: LeaseState
    holder: str = ""  # who leads, of a Lease that is held or kept
    since: datetime | None = None  # when it came to its holder, or is held no more
    is_unstable: bool = False  # it changed hands too often lately
    problem: str = ""
    seen_since: datetime | None = None  # by the clock of who watches; None: it was seen once


def standing(history: LeaseHistory, now: datetime) -> LeaseStanding:
    """Return what counts of a Lease at a moment."""
    now, record = max(now, history.seen_at), history.record
    is_unstable = history.unstable_until is not None and now < history.unstable_until
    until, kept = _expires(history), _kept_until(history)
    if kept is not None and now < kept:
        state = LeaseState.HELD if until is not None and now < until else LeaseState.KEPT
        holder, since, seen = history.holder, history.since, history.seen_since
        return LeaseStanding(state, holder, since, is_unstable, seen_since=seen)
    state, problem = LeaseState.VACANT, ""
    if record is None:
        state = LeaseState.MISSING
    elif record.problem:
        state, problem = LeaseState.UNREADABLE, record.problem
    ended = history.held_until or _expires(history)
    return LeaseStanding(state, "", ended, is_unstable, problem, ended)


def next_change(history: LeaseHistory, now: datetime) -> datetime | None:
    """Return when the standing may change by itself after a moment, None if it does not."""
    moments = (_expires(history), _kept_until(history), history.unstable_until)
    return min((one for one in moments if one is not None and one > now), default=None)


def _expires(history: LeaseHistory) -> datetime | None:
    """Return when a Lease that is held expires unless it is renewed."""
    if history.held_until is not None or not history.holder:
        return None
    return later(history.seen_at, history.duration)


def _kept_until(history: LeaseHistory) -> datetime | None:
    until = history.held_until or _expires(history)
    return until and later(until, history.duration * _KEPT_DURATIONS)


def first_standing(item: Object) -> LeaseStanding:
    """Return what a Lease says that is seen once, as in a file: who is named in it holds it."""
    record = read_lease(item)
    if record.problem:
        return LeaseStanding(LeaseState.UNREADABLE, problem=record.problem)
    state = LeaseState.HELD if record.holder else LeaseState.VACANT
    try:
        since = time_at({"acquireTime": record.written[3]}, "acquireTime", "spec")
    except (BadObject, IndexError):
        since = None
    return LeaseStanding(state, record.holder, since)
