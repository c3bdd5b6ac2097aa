"""A Lease is judged by when it was seen to change, and the annotation names one."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import BadObject
from app.model.fields import Json
from app.model.role_leases import (
    LeaseHistory,
    LeaseRecord,
    LeaseStanding,
    LeaseState,
    RoleLease,
    bearer,
    first_standing,
    next_change,
    observed,
    parse_role_lease,
    read_lease,
    role_lease_of,
    standing,
)
from tests import make
from tests.cases import cases

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DURATION = 15 * SECOND
ACQUIRED = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
UUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
GIVEN_UP = read_lease(make.lease_json("", seconds=1))
GARBAGE = read_lease(make.lease_json(seconds=-5))


def held(holder: str = "web-0_4f5c", renewed: int = 0) -> LeaseRecord:
    """Return a record by which a holder has a Lease for 15 s."""
    return read_lease(make.lease_json(holder, renewed=renewed))


def folded(*seen: tuple[float, LeaseRecord | None]) -> LeaseHistory:
    """Return the history of what was seen at some seconds."""
    history: LeaseHistory | None = None
    for seconds, record in seen:
        history = observed(history, record, make.NOW + seconds * SECOND)
    assert history is not None
    return history


def at(history: LeaseHistory, seconds: float) -> tuple[LeaseState, str]:
    """Return whether a Lease is held after some seconds, and by whom."""
    found = standing(history, make.NOW + seconds * SECOND)
    return found.state, found.holder


# --- the annotation


@cases(
    "text found",
    {
        "key and Lease": ("role=web", RoleLease("role", "web")),
        "a prefix, both values": (
            "example.com/role=my.lease-1;leader=primary;follower=replica",
            RoleLease("example.com/role", "my.lease-1", "primary", "replica"),
        ),
        "one value, in any order": (
            "role=web;follower=standby",
            RoleLease("role", "web", "leader", "standby"),
        ),
        "the longest name": (f"r={'a' * 253}", RoleLease("r", "a" * 253)),
    },
)
def test_annotations(text: str, found: RoleLease) -> None:
    """The label's key, the Lease, and values where they are not leader and follower."""
    assert parse_role_lease(text) == found
    assert role_lease_of({"plumbline/role-lease": text}) == found


@cases(
    "text told",
    {
        "nothing": ("", "it begins with LABEL-KEY=LEASE-NAME"),
        "no Lease": ("role=", '"" is no name of a Lease'),
        "no equals sign": ("role", "it begins with LABEL-KEY=LEASE-NAME"),
        "no key": ("=web", "a label's name has 1 to 63"),
        "a bad key": ("my role=web", "a label's name has 1 to 63"),
        "capitals in the Lease": ("role=Web", '"Web" is no name of a Lease'),
        "a Lease of another namespace": ("role=shop/web", '"shop/web" is no name'),
        "what a terminal obeys": ("role=\x1b[2J\n", r'"\\x1b\[2J\\n" is no name'),
        "a Lease too long": (f"r={'a' * 254}", "is no name of a Lease"),
        "an unknown part": ("role=web;master=a", "after a semicolon comes leader=VALUE"),
        "a semicolon at the end": ("role=web;", "after a semicolon comes leader=VALUE"),
        "a value twice": ("role=web;leader=a;leader=b", "each once"),
        "an empty value": ("role=web;leader=", "leader: a value is missing"),
        "a bad value": ("role=web;leader=a b", "leader: a label's value"),
        "equal values": ("role=web;leader=follower", "need different values"),
    },
)
def test_malformed_annotations(text: str, told: str) -> None:
    """What is wrong is said, and outside of a review such an annotation counts as none."""
    with pytest.raises(BadObject, match=told.replace("(", r"\(")):
        parse_role_lease(text)
    assert role_lease_of({"plumbline/role-lease": text}) is None


def test_no_annotation() -> None:
    """Without the annotation there is nothing to read."""
    assert role_lease_of({}) is None


@given(st.text(alphabet="ab/=;.- leadrfow0\x00é", max_size=40))
def test_any_annotation_is_read_or_refused(text: str) -> None:
    """Any text is read or refused, and nothing else happens."""
    with suppress(BadObject):
        assert parse_role_lease(text).lease


# --- Leases as others write them


@cases(
    "spec problem",
    {
        "no spec": (None, ""),
        "a spec that is a list": ([1], "its spec is no object"),
        "no holder": ({"leaseDurationSeconds": 15}, ""),
        "an empty holder": ({"holderIdentity": "", "leaseDurationSeconds": 1}, ""),
        "a holder that is a number": (
            {"holderIdentity": 7, "leaseDurationSeconds": 15},
            "its holderIdentity is no text",
        ),
        "no duration": ({"holderIdentity": "a"}, "is missing"),
        "no time at all": ({"holderIdentity": "a", "leaseDurationSeconds": 0}, "is 0, not 1 to"),
        "a negative time": ({"holderIdentity": "a", "leaseDurationSeconds": -5}, "is -5, not"),
        "true": ({"holderIdentity": "a", "leaseDurationSeconds": True}, "is True, not 1 to"),
        "a text": ({"holderIdentity": "a", "leaseDurationSeconds": "15"}, "is '15', not 1 to"),
        "more than a day": ({"holderIdentity": "a", "leaseDurationSeconds": 86_401}, "is 86401"),
        "the year 9999": (
            {
                "holderIdentity": "a",
                "leaseDurationSeconds": 15,
                "acquireTime": "9999-12-31T23:59:59Z",
                "renewTime": "9999-12-31T23:59:59Z",
            },
            "",
        ),
        "no times": (
            {"holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": {}, "renewTime": 3},
            "",
        ),
    },
)
def test_garbage(spec: object, problem: str) -> None:
    """A Lease that cannot be used says why, and nothing in it is an error of ours."""
    record = read_lease({"spec": spec})
    history = observed(None, record, make.NOW)
    found, first = standing(history, make.NOW), first_standing({"spec": spec})
    assert problem in record.problem
    assert bool(record.problem) == (found.state is LeaseState.UNREADABLE)
    assert found.state is first.state
    assert found.problem == first.problem
    assert (history.since or make.NOW) <= make.NOW


@pytest.mark.parametrize("item", [{"spec": {"holderIdentity": ""}}, {"spec": None}])
def test_a_lease_that_nobody_holds_at_first_sight(item: Json) -> None:
    """Who held it last may have done so until now, so nobody has followed for longer."""
    history = folded((0, read_lease(item)))
    found = standing(history, make.NOW + SECOND)
    assert found == LeaseStanding(LeaseState.VACANT, since=make.NOW, seen_since=make.NOW)
    assert at(observed(history, held("web-1"), make.NOW + SECOND), 1)[1] == "web-1"


def test_a_lease_in_a_file() -> None:
    """A Lease that is seen once is held by the holder it names, since it was acquired."""
    expected = LeaseStanding(LeaseState.HELD, "web-0_4f5c", ACQUIRED)
    assert first_standing(make.lease_json()) == expected


# --- time


@cases(
    "seen seconds expected",
    {
        "held at first": ([(0, held())], 14.9, (LeaseState.HELD, "web-0_4f5c")),
        "renewed": ([(0, held()), (10, held(renewed=1))], 24, (LeaseState.HELD, "web-0_4f5c")),
        "read again without a renewal": (
            [(0, held()), (10, held())],
            15,
            (LeaseState.KEPT, "web-0_4f5c"),
        ),
        "expired: believed for two durations": (
            [(0, held())],
            44.9,
            (LeaseState.KEPT, "web-0_4f5c"),
        ),
        "expired: then none": ([(0, held())], 45, (LeaseState.VACANT, "")),
        "given up: believed for two durations": (
            [(0, held()), (5, GIVEN_UP)],
            34.9,
            (LeaseState.KEPT, "web-0_4f5c"),
        ),
        "given up: then none": ([(0, held()), (5, GIVEN_UP)], 35, (LeaseState.VACANT, "")),
        "expired before it was given up": (
            [(0, held()), (40, GIVEN_UP)],
            45,
            (LeaseState.VACANT, ""),
        ),
        "given up, then deleted": (
            [(0, held()), (5, GIVEN_UP), (10, None)],
            35,
            (LeaseState.MISSING, ""),
        ),
        "deleted: believed for two durations": (
            [(0, held()), (5, None)],
            34,
            (LeaseState.KEPT, "web-0_4f5c"),
        ),
        "created again by the next one": (
            [(0, held()), (5, None), (6, held("web-1_9"))],
            7,
            (LeaseState.HELD, "web-1_9"),
        ),
        "garbage: the holder is believed for a while": (
            [(0, held()), (5, GARBAGE)],
            34,
            (LeaseState.KEPT, "web-0_4f5c"),
        ),
        "garbage: then nothing is known": (
            [(0, held()), (5, GARBAGE)],
            35,
            (LeaseState.UNREADABLE, ""),
        ),
        "acquired again by the last holder": (
            [(0, held()), (5, GIVEN_UP), (100, held(renewed=9))],
            110,
            (LeaseState.HELD, "web-0_4f5c"),
        ),
        "never there": ([(0, None)], 0, (LeaseState.MISSING, "")),
        "never held": ([(0, GIVEN_UP)], 0, (LeaseState.VACANT, "")),
        "held at last": ([(0, GIVEN_UP), (9, held())], 9, (LeaseState.HELD, "web-0_4f5c")),
    },
)
def test_time(
    seen: list[tuple[float, LeaseRecord | None]], seconds: float, expected: tuple[LeaseState, str]
) -> None:
    """A Lease is held while it keeps changing; then its last holder is kept for two durations."""
    assert at(folded(*seen), seconds) == expected


def test_renewals_change_nothing() -> None:
    """What counts of a Lease stays equal from one renewal to the next, for an hour."""
    seen = [(2.0 * step, held(renewed=step)) for step in range(1800)]
    history, first = folded(*seen), standing(folded(seen[0]), make.NOW)
    assert standing(history, make.NOW + timedelta(hours=1)) == first


@cases(
    "acquired since",
    {
        "over": ("2026-01-05T09:00:00Z", ACQUIRED),
        "in the future, by a clock that is ahead": ("2026-01-05T11:00:00Z", make.NOW),
        "the year 9999": ("9999-12-31T23:59:59Z", make.NOW),
        "no time": ("soon", make.NOW),
        "missing": (None, make.NOW),
    },
)
def test_since_at_first_sight(acquired: str | None, since: datetime) -> None:
    """A holder has a Lease since it acquired it, as far as that can be true."""
    record = read_lease(make.lease_json(acquired=acquired))
    assert standing(observed(None, record, make.NOW), make.NOW).since == since


def test_since_after_a_change_of_hands() -> None:
    """A change of hands that is seen is dated by our clock; so is the end of a tenure."""
    history = folded((0, held()), (5, held("web-1_9")))
    assert standing(history, make.NOW + 6 * SECOND).since == make.NOW + 5 * SECOND
    assert standing(history, make.NOW + MINUTE).since == make.NOW + 20 * SECOND


@cases(
    "history seconds seen",
    {
        "first sight: whatever it says": (folded((0, held())), 1, 0),
        "renewed": (folded((0, held()), (5, held(renewed=1))), 6, 0),
        "another process in the pod": (
            folded((0, held(f"web-0_{UUID}")), (5, held(f"web-0_9{UUID[1:]}"))),
            6,
            0,
        ),
        "another holder": (folded((0, held()), (5, held("web-1_9"))), 6, 5),
        "the first holder": (folded((0, GIVEN_UP), (5, held())), 6, 5),
        "given up: kept": (folded((0, held()), (5, GIVEN_UP)), 6, 0),
        "given up: over": (folded((0, held()), (5, GIVEN_UP)), 40, 5),
        "expired: over": (folded((0, held())), 60, 15),
    },
)
def test_seen_since(history: LeaseHistory, seconds: float, seen: float) -> None:
    """Decisions go by when it was seen here; a holder's clock may be behind by any time."""
    found = standing(history, make.NOW + seconds * SECOND)
    assert found.seen_since == make.NOW + seen * SECOND


@cases(
    "history seconds due",
    {
        "held: when it expires": (folded((0, held())), 0, 15),
        "expired: when the last holder is forgotten": (folded((0, held())), 15, 45),
        "forgotten: never": (folded((0, held())), 45, None),
        "never held": (folded((0, None)), 0, None),
        "given up": (folded((0, held()), (5, GIVEN_UP)), 5, 35),
    },
)
def test_next_change(history: LeaseHistory, seconds: float, due: float | None) -> None:
    """It is known when something changes without any event."""
    expected = None if due is None else make.NOW + due * SECOND
    assert next_change(history, make.NOW + seconds * SECOND) == expected


def test_a_clock_that_goes_back_changes_no_order() -> None:
    """What was seen later counts as later, whatever the clock says of it."""
    history = folded((0, held()), (100, held("web-1")), (40, held("web-2")))
    assert (history.since, history.seen_at) == (make.NOW + 100 * SECOND,) * 2
    gone = folded((0, held()), (100, None))
    assert at(gone, 100) == at(gone, 10) == (LeaseState.MISSING, "")


# --- changes of hands


def changing(*minutes: float) -> LeaseHistory:
    """Return a history in which the Lease changes hands after some minutes."""
    seen = [(60 * at, held(f"web-{count}")) for count, at in enumerate((0.0, *minutes))]
    return folded(*seen)


@cases(
    "history minutes unstable",
    {
        "three changes in ten minutes": (changing(1, 2, 3), 3, False),
        "four": (changing(1, 2, 3, 4), 4, True),
        "four in more than ten": (changing(1, 4, 8, 11), 11, False),
        "four, then nine quiet minutes": (changing(1, 2, 3, 4), 13.9, True),
        "four, then ten quiet minutes": (changing(1, 2, 3, 4), 14, False),
        "one more begins the ten minutes again": (changing(1, 2, 3, 4, 13), 22.9, True),
        "quiet, and one more": (changing(1, 2, 3, 4, 15), 15, False),
    },
)
def test_unstable(history: LeaseHistory, minutes: float, unstable: bool) -> None:
    """More than three changes of hands in ten minutes count until it is quiet for as long."""
    assert standing(history, make.NOW + minutes * MINUTE).is_unstable is unstable


def test_unstable_is_dated() -> None:
    """It is known when an unstable Lease is believed again, while it is renewed."""
    history = changing(1, 2, 3, 4)
    history = observed(history, held("web-4", renewed=1), make.NOW + 840 * SECOND - SECOND)
    assert next_change(history, make.NOW + 840 * SECOND - SECOND) == make.NOW + 14 * MINUTE


def test_restarts_of_one_process_are_no_change_of_hands() -> None:
    """A container that crashes comes back with another UUID in the same pod."""
    seen = [(60.0 * step, held(f"web-0_{step}{UUID[1:]}")) for step in range(9)]
    found = standing(folded(*seen), make.NOW + 8 * MINUTE)
    assert (found.is_unstable, found.since) == (False, ACQUIRED)
    assert found.holder == f"web-0_8{UUID[1:]}"


@cases(
    "identity expected",
    {
        "client-go": (f"web-0_{UUID}", "web-0"),
        "capitals": (f"web-0_{UUID.upper()}", "web-0"),
        "a UUID alone": (UUID, ""),
        "no UUID": ("web-0_4f5c", "web-0_4f5c"),
        "not at the end": (f"{UUID}_web-0", f"{UUID}_web-0"),
    },
)
def test_bearers(identity: str, expected: str) -> None:
    """The UUID that marks a process is left out."""
    assert bearer(identity) == expected


# --- whatever comes


def records() -> st.SearchStrategy[LeaseRecord | None]:
    """Return what a Lease may be: held by one of three, given up, garbage, or gone."""
    names = st.sampled_from(["web-0", f"web-0_{UUID}", "web-1", "web-2_x"])
    return st.one_of(
        st.builds(held, names, st.integers(0, 5)), st.sampled_from([None, GIVEN_UP, GARBAGE])
    )


@given(
    st.lists(st.tuples(st.floats(-60, 900, allow_nan=False), records()), min_size=1, max_size=30),
    st.floats(-60, 5000, allow_nan=False),
)
def test_one_holder_at_a_moment(
    seen: list[tuple[float, LeaseRecord | None]], seconds: float
) -> None:
    """In any order of events and clocks there is one holder or none, one that was seen."""
    history, now = folded(*seen), make.NOW + seconds * SECOND
    found = standing(history, now)
    assert bool(found.holder) == (found.state in (LeaseState.HELD, LeaseState.KEPT))
    if found.holder:
        assert found.holder in {record.holder for _, record in seen if record}
    due = next_change(history, now)
    if due is not None and now >= history.seen_at:
        assert standing(history, max(now, due - timedelta(microseconds=1))) == found


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=9), st.lists))
def test_any_spec_is_read(spec: Json) -> None:
    """Whatever a Lease says, it is read."""
    for item in ({"spec": spec}, make.lease_json(seconds=spec), make.lease_json(acquired=spec)):
        assert standing(observed(None, read_lease(item), make.NOW), make.NOW).state in LeaseState
        assert first_standing(item).state in LeaseState
