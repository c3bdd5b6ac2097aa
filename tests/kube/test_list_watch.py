"""What is asked next after every kind of answer, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kube.reflector import (
    AWAY_PAUSE_SECONDS,
    FAILURES_TO_LIST,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MISSES_TO_BELIEVE,
    ListWatch,
)
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
from app.ports import PODS, Delta, EventType, Json, ListPage, WatchEvent
from tests.cases import cases
from tests.stepped_clock import START


def item(name: str, version: int | str, namespace: str = "default") -> Json:
    """An object of which only the head matters."""
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version)}}


def event(change: str, name: str, version: int | str) -> WatchEvent:
    """A line of a watch."""
    return WatchEvent(EventType(change), item(name, version))


def told(changes: Sequence[Delta]) -> list[str]:
    """The changes as words: `+name` came or changed, `-name` went."""
    return [f"{'+' if change.object else '-'}{change.name}" for change in changes]


def step(known: ListWatch) -> tuple[str, float, str]:
    """What is asked next, after how many seconds, and for which page or from which version."""
    if known.listing:
        return "list", known.pause_seconds, known.continue_token
    return "watch", known.pause_seconds, known.resource_version


def list_watch() -> ListWatch:
    """A list and watch that knows nothing, with pauses as long as they get."""
    return ListWatch(PODS, lambda: 1.0)


def watching(*names: str, version: int = 10) -> ListWatch:
    """A list and watch that has read a list of these names."""
    found = list_watch()
    found.listed(ListPage([item(name, version) for name in names], str(version)), START)
    return found


def test_begins_with_a_list() -> None:
    """Nothing is known before a whole list was read."""
    begun = list_watch()
    first = step(begun)
    one = begun.listed(ListPage([item("a", 3), item("b", 4)], "9", "more"), START)
    half = (begun.synced, begun.last_event_at, step(begun))
    two = begun.listed(ListPage([item("c", 5)], "9"), START)

    assert (first, half) == (("list", 0.0, ""), (False, None, ("list", 0.0, "more")))
    assert (told(one), told(two)) == (["+a", "+b"], ["+c"])
    assert (begun.synced, begun.last_event_at) == (True, START)
    assert step(begun) == ("watch", 0, "9")


def test_events() -> None:
    """Events are told in order and move the version on; a bookmark only moves it."""
    known = watching("a", "b")
    lines = [
        event("ADDED", "c", 11),
        event("MODIFIED", "a", 12),
        event("DELETED", "b", 13),
        WatchEvent(EventType.BOOKMARK, {"metadata": {"resourceVersion": "20"}}),
    ]
    changes = [told(known.saw(line, START + timedelta(seconds=5))) for line in lines]

    assert changes == [["+c"], ["+a"], ["-b"], []]
    assert known.resource_version == "20"
    assert known.last_event_at == START + timedelta(seconds=5)


@cases(
    "line changes version",
    {
        "older than what is known": (event("MODIFIED", "a", 9), [], "10"),
        "known already": (event("MODIFIED", "a", 10), [], "10"),
        "deletion of what never was": (event("DELETED", "z", 11), [], "11"),
        "deletion at its last version": (event("DELETED", "a", 10), ["-a"], "10"),
        "versions that are no numbers": (event("MODIFIED", "a", "x1"), ["+a"], "x1"),
        "no version": (event("ADDED", "b", ""), ["+b"], "10"),
        "an empty bookmark": (WatchEvent(EventType.BOOKMARK, {}), [], "10"),
    },
)
def test_odd_events(line: WatchEvent, changes: list[str], version: str) -> None:
    """Nothing older ever replaces what is known."""
    known = watching("a")

    assert told(known.saw(line, START)) == changes
    assert known.resource_version == version


def test_a_list_again_tells_the_difference() -> None:
    """After a gap only what changed is told, and what went meanwhile."""
    known = watching("same", "changed", "gone")
    known.saw(event("ADDED", "late", 15), START)
    known.failed(Gone("too old"), START)
    assert step(known) == ("list", 0.2, "")
    page = ListPage([item("same", 10), item("changed", 21), item("new", 22)], "30")

    assert told(known.listed(page, START)) == ["+changed", "+new", "-gone", "-late"]
    assert step(known) == ("watch", 0, "30")
    assert known.lists == 2


def test_one_name_in_two_namespaces() -> None:
    """Objects of the same name are told apart."""
    known = list_watch()
    known.listed(ListPage([item("a", 1, "x"), item("a", 2, "y")], "5"), START)

    assert known.listed(ListPage([item("a", 2, "y")], "6"), START) == [Delta("x", "a", None)]


def test_a_list_that_breaks_goes_on_where_it_was() -> None:
    """A page is asked for again; the pages before it are not."""
    begun = list_watch()
    begun.listed(ListPage([item("a", 1)], "5", "more"), START)
    begun.failed(Unavailable("broken"), START)

    assert step(begun) == ("list", 0.2, "more")


@pytest.mark.parametrize("error", [Gone("too old"), Invalid("bad token")])
def test_a_token_that_expires_starts_over(error: ClusterError) -> None:
    """Half a list is never taken for a whole one."""
    begun = watching("a", "b")
    begun.failed(Gone("too old"), START)
    begun.listed(ListPage([item("a", 10)], "12", "more"), START)
    begun.failed(error, START)
    assert begun.listing

    assert told(begun.listed(ListPage([item("b", 10)], "15"), START)) == ["-a"]


@pytest.mark.parametrize(
    "error", [Unavailable("500"), TooMany("slow"), Refused("403"), Conflict("odd")]
)
def test_a_watch_that_breaks_is_resumed(error: ClusterError) -> None:
    """The list is not read again for a broken connection."""
    known = watching("a")
    known.saw(event("ADDED", "b", 17), START)
    changes = known.failed(error, START)

    assert (changes, known.synced, known.problem) == ([], True, str(error))
    assert step(known) == ("watch", 0.2, "17")


def test_while_the_server_is_away_pauses_stay_short() -> None:
    """However long there was no server, its return is noticed soon, and the watch is resumed."""
    known = watching("a")
    pauses = set()
    for _ in range(20):
        known.failed(NotSent("no connection"), START)
        pauses.add(known.pause_seconds)
    assert pauses == {AWAY_PAUSE_SECONDS}
    assert step(known) == ("watch", AWAY_PAUSE_SECONDS, "10")
    known.failed(Unavailable("starting", status=503), START)
    assert known.pause_seconds <= FIRST_PAUSE_SECONDS


def test_pauses_grow_and_end() -> None:
    """Failures in a row are spaced out more and more; a success ends that."""
    begun = list_watch()
    pauses = []
    for _ in range(9):
        begun.failed(Unavailable("down"), START)
        pauses.append(begun.pause_seconds)
    begun.listed(ListPage([], "5"), START)

    assert pauses == [0.2, 0.5, 1, 2, 4, 8, 10, 10, 10]
    assert step(begun) == ("watch", 0, "5")
    assert begun.problem == ""


@pytest.mark.parametrize(("asked", "pause"), [(None, 0.2), (0.01, 0.2), (7, 7.7), (1e6, 330.0)])
def test_retry_after(asked: float | None, pause: float) -> None:
    """The server's wish is granted, within reason and not by all at the same moment."""
    known = watching("a")
    known.failed(TooMany("slow", retry_after_seconds=asked), START)

    assert known.pause_seconds == pytest.approx(pause)


def test_a_watch_refused_for_ever_ends_in_a_list() -> None:
    """Without a watch what is there is still seen, now and then."""
    known = watching("a")
    steps = []
    for _ in range(FAILURES_TO_LIST):
        known.failed(Unavailable("too large resource version"), START)
        steps.append(known.listing)
    again = told(known.listed(ListPage([item("b", 11)], "11"), START))
    known.failed(Unavailable("too large resource version"), START)

    assert steps == [False] * (FAILURES_TO_LIST - 1) + [True]
    assert again == ["+b", "-a"]
    assert step(known) == ("list", 8, "")


def test_a_watch_refused_as_invalid_ends_in_a_list() -> None:
    """A version that the server cannot read is given up at once."""
    known = watching("a")
    known.failed(Invalid("resourceVersion: Invalid value"), START)

    assert known.listing


def test_a_long_watch_forgives() -> None:
    """What broke long after the last trouble is resumed at once."""
    known = watching("a")
    for _ in range(4):
        known.failed(Unavailable("down"), START)
    known.failed(Unavailable("silence"), START, lived_seconds=90)

    assert step(known) == ("watch", 0.2, "10")


def test_watches_that_end() -> None:
    """A watch that ran its time is opened again at once; those that end at once are spaced out."""
    known = watching("a")
    known.ended(300)
    steps = [step(known)]
    for _ in range(6):
        known.ended(0)
        steps.append(step(known))
    known.ended(300)

    assert steps[:5] == [("watch", pause, "10") for pause in (0, 0, 0.5, 1, 2)]
    assert steps[5:] == [("list", 4, ""), ("list", 8, "")]
    assert known.pause_seconds == 0


FORBIDDEN = Refused("no right", status=403)


@cases(
    "answers since",
    {
        "no right": ([FORBIDDEN, FORBIDDEN], 0),
        "no right, then the server is away": ([FORBIDDEN, Unavailable("503", status=503)], None),
        "the server is away, then no right": ([TooMany("429", status=429), FORBIDDEN], 1),
        "not known to the server": ([Refused("who", status=401)], None),
    },
)
def test_since_when_there_is_no_right(answers: list[ClusterError], since: int | None) -> None:
    """Only a steady 403 tells that the right is missing; any other trouble passes."""
    known = list_watch()
    for second, error in enumerate(answers):
        known.failed(error, START + timedelta(seconds=second))
    expected = None if since is None else START + timedelta(seconds=since)
    assert known.refused_since == expected
    known.listed(ListPage([], "9"), START)
    assert known.refused_since is None


def test_no_longer_served() -> None:
    """One 404 deletes nothing, for servers may start slowly; several in a row do."""
    known = watching("a", "b")
    changes = []
    for _ in range(MISSES_TO_BELIEVE):
        changes.append(told(known.failed(NotFound("no such path"), START)))
        assert known.listing

    assert changes == [[]] * (MISSES_TO_BELIEVE - 1) + [["-a", "-b"]]
    assert (known.missing, known.synced) == (True, False)


def test_what_got_lost_is_told_again() -> None:
    """Changes that could not be used come again, deletions as well."""
    known = watching("a", "b", "c")
    known.lost([*known.saw(event("DELETED", "a", 11), START), Delta("default", "b", {})])
    assert (known.synced, known.listing) == (False, True)
    page = ListPage([item("b", 10), item("c", 10)], "12")

    assert told(known.listed(page, START)) == ["+b", "-a"]


NAMES = st.sampled_from("abcdef")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES),
        st.tuples(st.just("remove"), NAMES),
        st.sampled_from([*[("answer", "")] * 3, ("gone", ""), ("drop", ""), ("miss", "")]),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 3))
def test_never_a_gap(steps: list[tuple[str, str]], page_size: int) -> None:
    """Whatever happens in between, two quiet rounds later exactly the truth was told."""
    server = _Truth(page_size)
    known = ListWatch(PODS, lambda: 0.5)
    state: dict[str, str] = {}
    for what, name in [*steps, *[("answer", "")] * 12]:
        before = known.resource_version
        for change in server.play(known, what, name):
            state.pop(change.name, None)
            if change.object:
                state[change.name] = change.object["metadata"]["resourceVersion"]
        assert int(known.resource_version or 0) >= int(before or 0)
        assert known.pause_seconds <= max(LONGEST_PAUSE_SECONDS, 25)

    assert state == server.objects


class _Truth:
    """A server of one resource, without a wire."""

    def __init__(self, page_size: int) -> None:
        self.objects: dict[str, str] = {}
        self.version = 1
        self._log: list[WatchEvent] = []
        self._rest: list[Json] = []
        self._page_size = page_size
        self._list_version = 1

    def play(self, known: ListWatch, what: str, name: str) -> list[Delta]:
        """Change an object, or answer what is asked next."""
        if what not in {"put", "remove"}:
            return self._answer(known, what)
        if what == "put" or (what == "remove" and name in self.objects):
            self.version += 1
            change = "DELETED" if what == "remove" else "MODIFIED"
            self._log.append(event(change, name, self.version))
            self.objects.pop(name, None)
            if what == "put":
                self.objects[name] = str(self.version)
        return []

    def _answer(self, known: ListWatch, how: str) -> list[Delta]:
        if how == "gone":
            return known.failed(Gone("too old"), START)
        if how == "miss":
            return known.failed(NotFound("starting"), START)
        if how == "drop":
            return known.failed(Unavailable("broken"), START)
        if known.listing:
            if not known.continue_token:
                self._rest = [item(*found) for found in sorted(self.objects.items())]
                self._list_version = self.version
            page, self._rest = self._rest[: self._page_size], self._rest[self._page_size :]
            token = "more" if self._rest else ""
            return known.listed(ListPage(page, str(self._list_version), token), START)
        since = int(known.resource_version)
        changes = []
        for line in self._log:
            if int(line.object["metadata"]["resourceVersion"]) > since:
                changes += known.saw(line, START)
        known.ended(300)
        return changes
