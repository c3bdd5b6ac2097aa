"""No fault of server or network leaves a gap: each is done to a real connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from threading import Condition, Thread

import pytest

from app.kube.client import KubeCluster
from app.kube.reflector import FAILURES_TO_LIST, Reflector
from app.kube.transport import Deadlines
from app.ports import PODS, VPAS, Delta, EventType, Json, ListPage, WatchEvent
from tests.cases import cases
from tests.kube.api_server import ApiServer, serving
from tests.kube.api_state import PATIENCE_SECONDS, line_of
from tests.kube.connecting import connected
from tests.stepped_clock import START, SteppedClock

EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
DEADLINES = Deadlines(read_seconds=5, silence_seconds=0.4)


class Told:
    """What a reflector told, as the state that follows from it."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.changed = Condition()
        self._half: dict[str, Json | None] = {}

    def __call__(self, changes: Sequence[Delta], whole: bool) -> None:
        """Take in changes; half a list does not count yet."""
        self._half.update((change.name, change.object) for change in changes)
        if whole:
            with self.changed:
                for name, item in self._half.items():
                    self.versions.pop(name, None)
                    self.versions |= {name: version_of(item)} if item else {}
                self._half = {}
                self.changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds that follows from what was told."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_SECONDS), self.versions


def version_of(item: Json) -> str:
    """The version of an object."""
    return str(item["metadata"]["resourceVersion"])


def truth(server: ApiServer) -> dict[str, str]:
    """The names and versions of all pods."""
    with server.changed:
        return {name: version_of(item) for (_, name), item in server.objects[PODS].items()}


@contextmanager
def running(reflector: Reflector, cluster: KubeCluster) -> Iterator[None]:
    """Run a reflector in a thread until the block ends."""
    thread = Thread(target=reflector.run)
    thread.start()
    try:
        yield
    finally:
        reflector.stop()
        cluster.close()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def while_down(server: ApiServer) -> None:
    """What happens unseen."""
    server.put(PODS, "new")
    server.put(PODS, "changed", status={"phase": "Running"})
    server.remove(PODS, "gone")


Fault = Callable[[ApiServer], None]


def orders(*lines: bytes | str) -> Fault:
    """Let the watch send these lines, or come to some end."""
    return lambda server: server.order(PODS, *lines)


def refusing(
    status: int,
    *,
    body: Json | bytes = b"",
    times: int = 1,
    watching: bool | None = None,
    retry_after: str = "",
) -> Fault:
    """Break the watch, and refuse what is asked after that."""
    headers = {"Retry-After": retry_after} if retry_after else {}

    def fault(server: ApiServer) -> None:
        server.fail("/pods", status, body=body, headers=headers, times=times, watching=watching)
        server.order(PODS, "drop")

    return fault


def forget(server: ApiServer) -> None:
    """Break the watch, and keep no history for the next one."""
    server.compact()
    server.order(PODS, "drop")


def forget_pages(server: ApiServer) -> None:
    """Do the same, and let the second page of the next list be too old."""
    server.fail("continue", 410, body=EXPIRED)
    forget(server)


HALF_A_LINE = b'{"type": "MODIFIED", "object": {"metadata": {"na'


@cases(
    "fault lists least_seconds",
    {
        "watch dropped": (orders("drop"), 1, 0),
        "half-open connection": (orders("freeze"), 1, 0),
        "cut within a line": (orders(HALF_A_LINE, "drop"), 1, 0),
        "410 in the watch": (orders(line_of("ERROR", EXPIRED), "end"), 2, 0),
        "410 when resumed": (forget, 2, 0),
        "410 as status": (refusing(410, body=EXPIRED, watching=True), 2, 0),
        "410 on a page of the list": (forget_pages, 3, 0),
        "500 a few times": (refusing(500, times=FAILURES_TO_LIST - 2), 1, 1.5),
        "500 many times": (refusing(500, times=FAILURES_TO_LIST + 2), 2, 5),
        "429 with Retry-After": (refusing(429, retry_after="7"), 1, 7),
    },
)
def test_faults(fault: Fault, lists: int, least_seconds: float) -> None:
    """After any fault the state is the truth, read again only where it has to be."""
    clock, told = SteppedClock(), Told()
    with serving(PODS) as server, connected(server, DEADLINES) as cluster:
        for name in ("same", "changed", "gone", *(f"more-{number}" for number in range(500))):
            server.put(PODS, name)
        reflector = Reflector(cluster, PODS, "", "", clock, told, jitter=lambda: 1.0)
        with running(reflector, cluster):
            server.wait_for_watches(PODS)
            with server.changed:
                fault(server)
                while_down(server)
            told.wait_for(lambda: told.versions == truth(server))
            server.put(PODS, "last")
            told.wait_for(lambda: told.versions == truth(server))

    assert reflector.state.lists == lists
    assert clock.monotonic() >= least_seconds
    state = reflector.state
    assert (state.synced, state.missing, state.problem) == (True, False, "")


@cases("history_kept lists", {"kept": (True, 1), "lost": (False, 2)})
def test_restart(history_kept: bool, lists: int) -> None:
    """A server that comes back on the same port is followed as if it had never been away."""
    clock, told = SteppedClock(), Told()
    with serving(PODS) as server, connected(server, DEADLINES) as cluster:
        for name in ("same", "changed", "gone"):
            server.put(PODS, name)
        reflector = Reflector(cluster, PODS, "", "", clock, told, jitter=lambda: 1.0)
        with running(reflector, cluster):
            server.wait_for_watches(PODS)
            server.stop()
            while_down(server)
            if not history_kept:
                server.compact()
            server.start()
            told.wait_for(lambda: told.versions == truth(server))

    # How often it failed meanwhile depends on how long the restart took.
    assert reflector.state.lists >= lists
    assert reflector.state.synced


def test_what_is_asked() -> None:
    """Namespace and field selector narrow list and watch; bookmarks keep the version young."""
    clock, told = SteppedClock(), Told()
    path = "/api/v1/namespaces/default/pods"
    with serving(PODS) as server, connected(server) as cluster:
        server.put(PODS, "elsewhere", "other")
        selector = "spec.nodeName!="
        reflector = Reflector(cluster, PODS, "default", selector, clock, told, jitter=lambda: 0.5)
        with running(reflector, cluster):
            server.wait_for_watches(PODS)
            clock.wait(60)
            stale = reflector.stale_seconds(clock.now())
            server.put(PODS, "unseen", "other")
            server.bookmark(PODS)
            server.put(PODS, "here")
            told.wait_for(lambda: "here" in told.versions)
            query = server.asked(path)[0].query
            watched = server.asked(path, watching=True)[0].query

    assert query == {"limit": "500", "fieldSelector": selector}
    assert (watched["fieldSelector"], watched["timeoutSeconds"]) == (selector, "300")
    assert list(told.versions) == ["here"]
    assert (stale, reflector.stale_seconds(clock.now())) == (60, 0)
    assert reflector.state.resource_version == str(server.version)


def test_a_quiet_resource_is_not_stale(caplog: pytest.LogCaptureFixture) -> None:
    """Where nothing happens and no bookmark comes, every watch that is taken is news enough."""
    clock, told = SteppedClock(), Told()
    with serving(PODS) as server, connected(server, DEADLINES) as cluster:
        server.put(PODS, "a")
        reflector = Reflector(cluster, PODS, "", "", clock, told, jitter=lambda: 1.0)
        with caplog.at_level(logging.WARNING), running(reflector, cluster):
            server.wait_for_watches(PODS)
            clock.wait(400)
            stale = reflector.stale_seconds(clock.now())
            server.wait_for(lambda: len(server.asked("/api/v1/pods", watching=True)) >= 3)

    assert (stale, reflector.stale_seconds(clock.now())) == (400, 0)
    assert reflector.state.lists == 1
    assert caplog.text == ""


def test_staleness_from_the_start() -> None:
    """Without any answer a reflector is as stale as it is old."""
    with serving(PODS) as server, connected(server) as cluster:
        server.fail("/pods", 503)
        reflector = Reflector(cluster, PODS, "", "", SteppedClock(), Told(), jitter=lambda: 1.0)
        reflector.step()

    assert (reflector.state.missing, reflector.state.synced) == (False, False)
    assert reflector.stale_seconds(START + timedelta(seconds=40)) == 40


def test_a_server_that_is_away() -> None:
    """It is asked for every second."""
    clock = SteppedClock()
    with serving(PODS) as server, connected(server) as cluster:
        reflector = Reflector(cluster, PODS, "", "", clock, Told(), jitter=lambda: 1.0)
        for _ in range(2):
            server.stop()
            for _ in range(30):
                reflector.step()
            server.start()
            reflector.step()
            reflector.state.listing = True

    assert clock.monotonic() == pytest.approx(60)
    assert (reflector.state.failed_steps, reflector.state.failure) == (60, "NotSent 0")


def test_a_resource_that_comes_later() -> None:
    """A resource that is not served is asked for now and then."""
    clock, told = SteppedClock(), Told()
    with serving() as server, connected(server) as cluster:
        reflector = Reflector(cluster, VPAS, "", "", clock, told, jitter=lambda: 1.0)
        for _ in range(3):
            reflector.step()
        waited, stale_seconds = clock.monotonic(), reflector.stale_seconds(clock.now())
        server.served.append(VPAS)
        server.objects[VPAS] = {}
        server.put(VPAS, "vpa")
        reflector.step()

    assert (waited, stale_seconds) == (50, 0)
    assert (reflector.state.missing, reflector.state.synced) == (False, True)
    assert list(told.versions) == ["vpa"]


@cases("failing_call", {"with a list": (1,), "with an event": (2,)})
def test_a_sink_that_fails_is_told_again(
    failing_call: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What could not be taken in is not lost."""
    told, calls = Told(), count(1)

    def sink(changes: Sequence[Delta], whole: bool) -> None:
        if next(calls) == failing_call:
            raise ValueError("full")
        told(changes, whole)

    with serving(PODS) as server, connected(server) as cluster:
        server.put(PODS, "a")
        reflector = Reflector(cluster, PODS, "", "", SteppedClock(), sink, jitter=lambda: 1.0)
        with running(reflector, cluster):
            server.wait_for_watches(PODS)
            server.put(PODS, "b")
            told.wait_for(lambda: told.versions == truth(server))

    assert (reflector.state.lists, reflector.state.synced) == (2, True)
    assert "changes not processed" in caplog.text


def test_an_unexpected_error_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a defect may raise, the thread goes on and says what happened, once."""

    class Broken(KubeCluster):
        def list(self, *_: object, **__: object) -> ListPage:
            raise ZeroDivisionError("defect")

    with serving(PODS) as server, connected(server) as cluster:
        broken = Broken(cluster._transport, DEADLINES)
        reflector = Reflector(broken, PODS, "", "", SteppedClock(), Told(), jitter=lambda: 1.0)
        for _ in range(3):
            reflector.step()

    assert reflector.state.problem == "unexpected: ZeroDivisionError('defect')"
    assert [record.message for record in caplog.records] == ["unexpected error"]


def test_events_of_a_busy_watch_are_collected() -> None:
    """Where most events are of no interest they are taken in together, after short pauses."""
    clock = SteppedClock()

    class Busy(KubeCluster):
        """A server that tells something every 8 ms, for as long as nothing waits for it."""

        def list(self, *_: object, **__: object) -> ListPage:
            return ListPage([], "1")

        def watch(self, *_: object, **__: object) -> Iterator[WatchEvent]:
            for version in range(2, 32):
                clock.wait(0.008)
                item = {"metadata": {"name": "web", "resourceVersion": str(version)}}
                yield WatchEvent(EventType.MODIFIED, item)

    with serving(PODS) as server, connected(server) as cluster:
        busy = Busy(cluster._transport, DEADLINES)
        reflector = Reflector(busy, PODS, "", "", clock, Told(), jitter=lambda: 1.0)
        reflector.gather_seconds = 0.25
        reflector.step()
        reflector.step()

    paused_seconds = clock.monotonic() - 30 * 0.008
    assert paused_seconds == pytest.approx(10 * 0.25)
