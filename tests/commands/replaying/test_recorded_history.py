"""Events are read line by line; what is wrong with one is said with its line and field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.commands.replaying.changes import RecordedChange, RecordedKind
from app.commands.replaying.playback import Replay, ReplaySchedule
from app.commands.replaying.printing import json_lines
from app.commands.replaying.recorded_history import read_history
from app.model.errors import BadObject
from app.model.fields import Json
from app.recommender.configuration import RoundRules
from app.recommender.core.checkpoints import Checkpoint, to_json
from app.recommender.core.moments import nanoseconds
from app.recommender.core.oom import OomRecord
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import ABSENT, REFUSED
from app.recommender.upstream.variant import UPSTREAM
from app.recommender.variants import OURS
from tests import make
from tests.cases import cases
from tests.commands.replaying.story import (
    MINUTE_NS,
    WEB,
    WORKLOADS,
    Story,
    eviction_json,
    objects_of,
    pod_json,
)
from tests.junk import objects_like

TIME = "2026-01-05T10:00:00Z"
TIME_NS = 1_767_607_200 * 10**9
NAMES = {"namespace": "shop", "pod": "web-0", "container": "app"}


def line(kind: str = "usage", **more: object) -> bytes:
    """Return an event about a container; None leaves a member out."""
    event = {"time": TIME, "type": kind} | NAMES | more
    return orjson.dumps({key: value for key, value in event.items() if value is not None})


@cases(
    "told cpu memory",
    {
        "both": ({"cpu": "250m", "memory": "300Mi"}, 250, 300 * 2**20),
        "rounded up": ({"cpu": "498501465n"}, 499, ABSENT),
        "no cpu": ({"memory": "656Ki"}, ABSENT, 671_744),
        "numbers": ({"cpu": 2, "memory": 1000}, 2000, 1000),
        "other spellings": ({"cpu": "0.5", "memory": "1e3"}, 500, 1000),
        "huge": ({"cpu": "1" * 30, "memory": "9" * 30 + "Ki"}, REFUSED, REFUSED),
        "tiny": ({"cpu": "1u", "memory": "1m"}, 1, 1),
    },
)
def test_amounts(told: Json, cpu: int, memory: int) -> None:
    """Amounts are millicores and bytes, rounded up; one may be missing."""
    usage = read_history([line(**told)], "x").usage.between(0, 1)
    assert (usage.cpu_millicores.tolist(), usage.memory_bytes.tolist()) == ([cpu], [memory])


@cases(
    "told stamp_ns window_ns",
    {
        "neither": ({}, TIME_NS, 0),
        "both": (
            {"timestamp": "2026-01-05T09:59:30Z", "window": "15s"},
            TIME_NS - 30 * 10**9,
            15 * 10**9,
        ),
        "another zone": ({"timestamp": "2026-01-05T11:00:00+01:00"}, TIME_NS, 0),
    },
)
def test_times(told: Json, stamp_ns: int, window_ns: int) -> None:
    """A sample stands for its timestamp, and is seen at its time."""
    usage = read_history([line(cpu="1", **told)], "x").usage
    found = (usage.seen.tolist(), usage.times.tolist(), usage.windows.tolist())
    assert found == ([TIME_NS], [stamp_ns], [window_ns])
    assert usage.between(0, 1).containers == [("shop", "web-0", "app")]


@cases(
    "told expected",
    {
        "a kill": (
            line("oom", memory="1Gi", finishedAt="2026-01-05T09:59:30Z"),
            OomRecord("shop", "web-0", "app", TIME_NS - 30 * 10**9, 2**30),
        ),
        "a kill without request": (
            line("oom", namespace=None),
            OomRecord("default", "web-0", "app", TIME_NS, 0),
        ),
        "a pod that goes": (
            line("delete", object={"kind": "Pod", "namespace": "shop", "name": "web-0"}),
            RecordedChange(RecordedKind.POD, "shop", "web-0", None),
        ),
    },
)
def test_other_events(told: bytes, expected: object) -> None:
    """Kills and deletions are kept with their time."""
    (found,) = read_history([told], "x").events
    assert (found.time_ns, found.what) == (TIME_NS, expected)


def test_restarts() -> None:
    """The moments of restarts are kept in order."""
    lines = [line("restart", time="2026-01-05T10:00:01Z"), line("restart"), line("restart")]
    found = read_history(lines, "x")
    assert (found.restarts, found.events) == ([TIME_NS, TIME_NS, TIME_NS + 10**9], [])


def test_objects_are_created_when_they_come() -> None:
    """An object that does not say since when it is there is new."""
    vpa = make.vpa_json("web", created=None)
    (found,) = read_history([line("apply", object=vpa)], "x").events
    assert isinstance(found.what, RecordedChange)
    assert found.what.value.created.isoformat() == "2026-01-05T10:00:00+00:00"


@cases(
    "told sentence",
    {
        "no JSON": (b"{", "invalid JSON: "),
        "no object": (b"[]", "event: expected an object, found a list"),
        "no time": (line(time=None), "time: is missing"),
        "no text": (line(time=1), "time: expected a time, found the number 1"),
        "some time": (line(time="noon"), 'time: "noon" is no RFC 3339 time'),
        "unknown": (
            line("use"),
            'type: expected usage, oom, apply, delete or restart, found the string "use"',
        ),
        "no type": (orjson.dumps({"time": TIME}), "type: is missing"),
        "no pod": (line(pod=None), "pod: is missing"),
        "a list for a pod": (line(pod=[]), "pod: expected a string, found a list"),
        "no container": (line(container=""), "container: is missing"),
        "a number": (line(namespace=3), "namespace: expected a string, found the number 3"),
        "no quantity": (line(cpu="lots"), "cpu: quantities must match"),
        "a boolean": (line(cpu=True), "cpu: quantities must match"),
        "an object": (line(memory={}), "memory: expected a text, found an object"),
        "no timestamp": (line(timestamp="x"), 'timestamp: "x" is no RFC 3339'),
        "no window": (line(window="1"), 'window: "1" has no unit'),
        "seconds": (line(window=30), "window: expected a text, found the number"),
        "a negative request": (line("oom", memory="-1"), "memory: -1 is negative"),
        "a huge request": (line("oom", memory="1e30"), "memory: 1e30 is too much"),
        "no object to apply": (line("apply"), "object: is missing"),
        "no name": (line("apply", object={"kind": "Pod"}), "object.metadata.name: is missing"),
        "a broken pod": (
            line("apply", object={"kind": "Pod", "metadata": {"name": "a", "labels": 1}}),
            "object.metadata.labels: expected an object, found the number 1",
        ),
        "nobody goes": (line("delete", object={"kind": "Pod"}), "object.name: is missing"),
    },
)
def test_lines_that_cannot_be_read(told: bytes, sentence: str) -> None:
    """A bad line is told with file, line and field, skipped and counted; the rest is read."""
    found = read_history([b"\n", line(cpu="1"), told, line(cpu="1")], "events.jsonl")
    assert len(found.problems) == 1
    assert found.problems[0].startswith(f"events.jsonl:3: {sentence}")
    assert (found.lines, found.skipped, len(found.usage.seen)) == (3, 1, 2)


@cases(
    "cpu problem strict",
    {
        "negative": ("-1", "-1 is negative", REFUSED),
        "too much": ("100000000001", "100000000001 is too much", 100000000001000),
        "far too much": (1e300, "1e+300 is too much", 2**62),
        "m": ("100000000001000m", "100000000001000m is too much", 100000000001000),
    },
)
def test_amounts_that_cannot_be(cpu: object, problem: str, strict: int) -> None:
    """What cannot be is left out, and the other amount of the line counts; upstream takes more."""
    told = line(cpu=cpu, memory="1Mi")
    found = read_history([told], "x")
    assert found.problems == [f"x:1: cpu: {problem}, so it is left out"]
    assert found.skipped == 0
    assert (found.usage.cpu.tolist(), found.usage.memory.tolist()) == ([REFUSED], [2**20])
    assert read_history([told], "x", UPSTREAM.most_usage).usage.cpu.tolist() == [strict]


def test_a_broken_status_costs_itself_alone() -> None:
    """A VPA counts without the status that cannot be read."""
    vpa = make.vpa_json("web", status={"conditions": 7})
    found = read_history([line("apply", object=vpa)], "x")
    assert found.problems == [
        "x:1: object.status.conditions: expected a list, found the number 7; status left out"
    ]
    assert (found.skipped, len(found.events)) == (0, 1)


def test_a_file_that_ends_too_soon() -> None:
    """What was read of a damaged file counts."""

    def damaged() -> Iterator[bytes]:
        yield line(cpu="1")
        raise BadObject("", "damaged: too short")

    found = read_history(damaged(), "x")
    assert (found.lines, found.problems) == (1, ["x: damaged: too short behind line 1"])


@cases(
    "lines bounds",
    {
        "nothing": ([], None),
        "one": ([line("restart")], (TIME_NS, TIME_NS)),
        "two kinds": (
            [line(cpu="1", time="2026-01-05T10:00:01Z"), line("restart")],
            (TIME_NS, TIME_NS + 10**9),
        ),
    },
)
def test_bounds(lines: list[bytes], bounds: tuple[int, int] | None) -> None:
    """The first and the last event are known, whatever they are."""
    assert read_history(lines, "x").bounds == bounds


@cases(
    "start days leap",
    {
        "far from the one before it": (0, [5, 104, 205], (3, 101)),
        "in any order": (0, [205, 104, 5], (1, 101)),
        "near enough": (0, [5, 105, 205], None),
        "far from the start": (0, [101], (1, 101)),
        "what was before the start is no matter": (300, [5, 300, 301], None),
        "nothing": (0, [], None),
    },
)
def test_leaps(start: int, days: list[int], leap: tuple[int, int] | None) -> None:
    """A line that is too far from all before it is known, with the days between."""

    def day(number: int) -> datetime:
        return datetime(2026, 1, 5, 12, tzinfo=UTC) + timedelta(days=number)

    lines = [line("restart", time=day(number).isoformat()) for number in days]
    assert read_history(lines, "x").leap(nanoseconds(day(start)), 100) == leap


CAST = ("a", "b", "c")


def scene() -> list[tuple[int, str, bytes]]:
    """Return events of three VPAs that have nothing to do with each other: minute, VPA, line."""
    found: list[tuple[int, str, bytes]] = []
    for name in CAST:
        story, labels = Story(), {"app": name}
        story.put(0, make.workload_json(f"Deployment/{name}", labels=labels))
        story.put(0, make.vpa_json(name, target=f"Deployment/{name}"))
        story.put(0, pod_json(name, labels=labels))
        for minute in range(1, 6):
            story.use(minute, f"{100 * minute}m", f"{200 + minute}Mi", pod=name)
        story.kill(3, "1Gi", pod=name).drop(5, "Pod", name)
        times = [0, 0, 0, 1, 2, 3, 4, 5, 3, 5]
        found += [(time, name, one) for time, one in zip(times, story.lines, strict=True)]
    return found


@settings(max_examples=15, deadline=None)
@given(shuffled=st.permutations(range(30)), upstream=st.booleans())
def test_the_order_of_lines_does_not_matter(shuffled: list[int], upstream: bool) -> None:
    """Events of different times, and of different objects, may come in any order."""
    events = scene()
    places = [events[index][:2] for index in shuffled]
    turns = {
        place: iter([one for *where, one in events if tuple(where) == place]) for place in places
    }
    lines = [next(turns[place]) for place in places]
    told = [Story([*WORKLOADS], found) for found in ([one for *_, one in events], lines)]
    first, second = (story.play(2, 4, 6, upstream=upstream).lines for story in told)
    assert first == second


CHECKPOINT = Checkpoint("default", "web-app", "web", "app")
EVENTS = [
    orjson.loads(told)
    for told in (
        line("usage", cpu="100m", memory="300Mi", timestamp=TIME, window="15s"),
        line("oom", memory="300Mi", finishedAt=TIME),
        line("delete", object={"kind": "Pod", "namespace": "default", "name": "web-0"}),
        line("restart"),
        *(
            line("apply", object=item)
            for item in (*WEB, eviction_json("app", "1Gi", "memory"), to_json(CHECKPOINT))
        ),
    )
]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    events=st.lists(st.sampled_from(EVENTS).flatmap(objects_like), max_size=6),
    upstream=st.booleans(),
)
def test_whatever_stands_in_a_file_is_played(events: list[Json], upstream: bool) -> None:
    """A line is played or told to be wrong, and never ends the others."""
    lines = [json.dumps(event).encode() for event in (*EVENTS, *events)]
    found = read_history(lines, "x")
    assert len(found.problems) >= found.skipped
    schedule = ReplaySchedule(TIME_NS - MINUTE_NS, MINUTE_NS, TIME_NS + 3 * MINUTE_NS)
    variant = UPSTREAM if upstream else OURS
    rules = RoundRules(variant.adjust_rules(RecommenderRules()), variant)
    replay = Replay(found, objects_of(()), rules, schedule)
    for look in replay.play():
        assert list(json_lines(look, checkpoints=True))
