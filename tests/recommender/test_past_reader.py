"""The past is read in the background until it is known, once for each VPA."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.model.errors import ClusterError, Invalid, TooMany, Unavailable
from app.model.times import PrometheusDuration
from app.ports import Json
from app.recommender.core.promql import PastRules
from app.recommender.core.reading import Reading
from app.recommender.past_reader import PastReader
from app.recommender.upstream.variant import ReadingOnce
from tests.cases import cases
from tests.stepped_clock import START, SteppedClock

RULES = PastRules(length=PrometheusDuration("3h", timedelta(hours=3)))
NOTHING: Json = {"status": "success", "data": {"resultType": "matrix", "result": []}}
DOWN = Unavailable("Prometheus is down")
HEAVY = Invalid("too many samples", status=422)
LATE = Unavailable("too late", status=504)
NONSENSE: Json = {"status": "success", "data": {"resultType": "scalar"}}


class Archive:
    """A Prometheus that answers or fails as it is told to, and else knows nothing."""

    def __init__(self) -> None:
        self.replies: deque[Json | ClusterError] = deque()
        self.asked: list[tuple[str, datetime]] = []
        self.meanwhile: deque[Callable[[], None]] = deque()  # happens before an answer

    def query(self, query: str, at: datetime) -> Json:
        """Answer for a moment."""
        self.asked.append((query, at))
        if self.meanwhile:
            self.meanwhile.popleft()()
        reply = self.replies.popleft() if self.replies else NOTHING
        if isinstance(reply, ClusterError):
            raise reply
        return reply

    def query_range(self, query: str, start: datetime, end: datetime, step: timedelta) -> Json:
        """Answer for a time."""
        assert step == timedelta(hours=1)
        assert start <= end
        return self.query(query, end)


class Scene:
    """Somebody who remembers, an archive and a clock."""

    def __init__(
        self,
        rules: PastRules = RULES,
        namespace: str = "",
        reading: type[Reading] = Reading,
    ) -> None:
        self.clock = SteppedClock()
        self.archive = Archive()
        self.memory = PastReader(self.archive, rules, self.clock, namespace, reading)
        self.memory.begin(self.clock.now())

    def tick(self) -> None:
        """Let what is due be read, and wait until the next look."""
        self.clock.wait(self.memory.tick(self.clock.now()))

    def waits(self, count: int) -> list[float]:
        """Let something fail so often; return how long it took until it was tried again."""
        found = []
        for _ in range(count):
            began, asked = self.clock.monotonic(), len(self.archive.asked)
            while len(self.archive.asked) == asked:
                before = self.clock.monotonic()
                self.tick()
            found.append(before - began)
        return found

    def wanted(self) -> list[Any]:
        """Return for whom something was found."""
        return [one.only for one in self.memory.taken()]


def test_past_of_all() -> None:
    """It is read once, up to shortly before the term, and is taken once."""
    scene = Scene(namespace="shop")
    assert not scene.memory.is_settled()
    scene.tick()
    (found,) = scene.memory.taken()

    assert found.only is None
    assert len(found.usage.times) == 4
    cpu, memory, labels = scene.archive.asked
    assert labels == ('up{job="kubernetes-pods"}[3h]', START - timedelta(minutes=2))
    assert 'namespace="shop"' in cpu[0]
    assert 'namespace="shop"' in memory[0]
    assert scene.memory.is_settled()
    scene.tick()
    assert (scene.memory.taken(), len(scene.archive.asked)) == ([], 3)


def test_retries(caplog: pytest.LogCaptureFixture) -> None:
    """What fails is asked again, later and later; what was read stays read, up to the same time."""
    scene = Scene()
    scene.archive.replies += [NOTHING, DOWN, NONSENSE, *[DOWN] * 6]
    scene.tick()
    waits = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert scene.waits(8) == [pytest.approx(one, abs=0.5) for one in waits]
    assert scene.wanted() == [None]
    assert {at for _, at in scene.archive.asked} == {START - timedelta(minutes=2)}
    assert len([query for query, _ in scene.archive.asked if "up{" in query]) == 1
    assert "history not read" in caplog.text


def test_a_term_that_begins_while_prometheus_is_down() -> None:
    """It does not wait for the retry of the last one."""
    scene = Scene()
    scene.archive.replies += [DOWN] * 9
    scene.waits(8)
    asked = len(scene.archive.asked)
    scene.memory.begin(scene.clock.now())
    scene.tick()
    assert len(scene.archive.asked) == asked + 1
    assert scene.waits(1) == [pytest.approx(5.0, abs=0.5)]


def test_busy_server() -> None:
    """A server that says when to come back is asked then."""
    scene = Scene()
    scene.archive.replies.append(TooMany("slow down", retry_after_seconds=77.0))
    scene.archive.replies.append(TooMany("slow down", retry_after_seconds=1e9))
    scene.tick()
    assert scene.waits(2) == [pytest.approx(77.0, abs=0.5), pytest.approx(300.0, abs=0.5)]


def test_too_much_at_once() -> None:
    """A question that is too much is asked in smaller parts at once."""
    scene = Scene()
    scene.archive.replies += [HEAVY, LATE]
    scene.tick()

    assert scene.wanted() == [None]
    cpu = [at for query, at in scene.archive.asked if "cpu" in query]
    assert [(at - cpu[0]) // timedelta(hours=1) for at in cpu] == [0, -2, -3, -2, -1, 0]


@cases(
    "error goes_on",
    {
        "too many samples": (HEAVY, True),
        "no query": (Invalid("parse error", status=400), True),
        "too late": (LATE, False),
        "down": (DOWN, False),
    },
)
def test_labels_that_cannot_be_had(error: ClusterError, goes_on: bool) -> None:
    """A query for labels that will never be answered is left; others come again."""
    scene = Scene()
    scene.archive.replies += [NOTHING, NOTHING, error]
    scene.tick()
    assert (scene.wanted() == [None]) is goes_on


@pytest.mark.parametrize("reply", [DOWN, LATE, NONSENSE], ids=["down", "late", "nonsense"])
def test_labels_that_never_come(reply: Json | ClusterError) -> None:
    """After some tries the rest of the past is taken without them."""
    scene = Scene()
    scene.archive.replies += [NOTHING, NOTHING, *[reply] * 9]
    scene.tick()
    scene.waits(2)
    assert scene.wanted() == []
    scene.clock.wait(60)
    scene.tick()

    assert scene.wanted() == [None]
    assert len(scene.archive.asked) == 5


def test_query_that_is_wrong() -> None:
    """A query for usage that is refused comes again: the server's settings may change."""
    scene = Scene()
    scene.archive.replies.append(Invalid("parse error", status=400))
    scene.tick()
    assert scene.waits(1) == [pytest.approx(5.0, abs=0.5)]
    assert scene.wanted() == [None]


def test_later_vpas() -> None:
    """The past is read for VPAs that come later, once for all of a namespace that wait."""
    scene = Scene()
    scene.memory.ask({("shop", "early")}, scene.clock.now())
    scene.tick()
    scene.memory.ask({("shop", "early")}, scene.clock.now())
    assert scene.wanted() == [None]

    scene.clock.wait(600)
    now = scene.clock.now()
    for keys in ({("shop", "a")}, {("other", "b")}, {("shop", "a"), ("shop", "c")}):
        scene.memory.ask(keys, now)
    for _ in range(3):
        scene.tick()
        scene.memory.ask({("other", "b")}, now)

    assert scene.wanted() == [{("shop", "a"), ("shop", "c")}, {("other", "b")}]
    assert len(scene.archive.asked) == 9
    assert scene.archive.asked[-1][1] == now - timedelta(minutes=2)
    assert 'namespace="other"' in scene.archive.asked[-2][0]


def test_vpas_that_come_while_a_namespace_is_read() -> None:
    """They are not forgotten: the namespace is read again."""
    scene = Scene()
    scene.tick()
    scene.memory.taken()
    scene.memory.ask({("shop", "a")}, scene.clock.now())
    scene.archive.replies.append(DOWN)
    scene.tick()
    scene.memory.ask({("shop", "b")}, scene.clock.now())
    scene.waits(2)

    assert scene.wanted() == [{("shop", "a")}, {("shop", "b")}]


@pytest.mark.parametrize("answers", [0, 2], ids=["in the midst of it", "with the last answer"])
def test_another_term(answers: int) -> None:
    """What belongs to a term that is over is thrown away, whenever the next one begins."""
    scene = Scene()
    later = scene.clock.now() + timedelta(hours=1)
    scene.archive.meanwhile += [lambda: None] * answers
    scene.archive.meanwhile.append(lambda: scene.memory.begin(later))
    scene.tick()
    assert scene.wanted() == []
    scene.tick()
    assert scene.archive.asked[-1][1] == START + timedelta(minutes=58)
    assert scene.wanted() == [None]


def test_the_end() -> None:
    """Nothing more is asked, not even in the midst of reading."""
    scene = Scene()
    scene.archive.meanwhile.append(scene.memory.end)
    scene.tick()
    scene.tick()
    assert (len(scene.archive.asked), scene.wanted()) == (1, [])


def test_reading_once(caplog: pytest.LogCaptureFixture) -> None:
    """As upstream: up to now, once, and if that fails never again; nobody may ask for more."""
    scene = Scene(reading=ReadingOnce)
    scene.archive.replies += [NOTHING, HEAVY]
    scene.tick()
    scene.memory.ask({("shop", "a")}, scene.clock.now())
    scene.tick()

    assert scene.memory.is_settled()
    assert (scene.wanted(), len(scene.archive.asked)) == ([], 2)
    assert scene.archive.asked[0][1] == START
    assert [one.levelname for one in caplog.records] == ["ERROR"]


def test_what_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """One line for what was read, one for its flaws, one when there was nothing."""
    caplog.set_level("INFO")
    scene = Scene()
    bad: Json = {"metric": {}, "values": []}
    data = {"resultType": "matrix", "result": [bad] * 9}
    scene.archive.replies += [NOTHING, {"status": "success", "data": data}]
    scene.tick()
    (found,) = scene.memory.taken()

    assert found.usage.refused_series == 9
    assert [one.message for one in caplog.records] == [
        "history read",
        "history read in part",
        "history is empty; do its labels have other names?",
    ]
