"""A recording is read out of a Prometheus over HTTP, whatever the server does on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

from app.backtest.recording import Recording
from app.backtest.recording_file import load_recording, save_recording
from app.commands.record import record_report
from app.commands.record_flags import RecordSettings
from app.flags.command_line import parse
from app.model.errors import BadSetting, ClusterError, Invalid, Refused, Unavailable
from app.output import Report
from tests.backtest.fleet import MI, Fleet, Load
from tests.cases import cases
from tests.prometheus_server import Asked, PrometheusServer, Reply, prometheus
from tests.stepped_clock import SteppedClock
from tests.waiting import eventually

STEP = 300
HOURS = 6
STEPS = HOURS * 12
END = SteppedClock().now().timestamp()
BEGIN = END - HOURS * 3600
TWO = (
    Load("db-0", cpu=lambda time: (time - BEGIN) / 36_000),
    Load("db-1", memory=lambda _time: 300 * MI),
)


def column(time: float) -> int:
    """Return the step that ends at a time."""
    return round((time - BEGIN) / STEP) - 1


@pytest.fixture
def server() -> Iterator[PrometheusServer]:
    """A server on loopback."""
    with prometheus() as found:
        yield found


class Recorded:
    """What a command line made."""

    def __init__(self, server: PrometheusServer, folder: Path, *words: str) -> None:
        self.file = folder / "fleet.npz"
        self.clock = SteppedClock()
        address = f"--prometheus-address={server.url}"
        days, output = f"--days={HOURS / 24}", f"--output={self.file}"
        settings = parse(RecordSettings, [address, days, output, *words], {})
        self.report: Report = record_report(settings, self.clock, self.clock.wait)
        self.notes = list(self.report.notes)
        self.recording = load_recording(self.file)


def owners(found: Recording) -> Mapping[str, tuple[str, str]]:
    """Return the owner of each pod."""
    return {row.pod: (row.owner_kind, row.owner_name) for row in found.rows}


def test_what_is_recorded(server: PrometheusServer, tmp_path: Path) -> None:
    """Usage, requests and limits lie in the steps in which they were; no folder stays behind."""
    server.otherwise = Fleet(TWO)
    found = Recorded(server, tmp_path)
    recording = found.recording

    assert (recording.start, recording.step, recording.count) == (BEGIN, STEP, STEPS)
    assert [str(row) for row in recording.rows] == ["shop/db-0/app", "shop/db-1/app"]
    ramp = (np.arange(STEPS) + 1) * STEP / 36_000
    np.testing.assert_allclose(recording.cpu[0], ramp, rtol=1e-6)
    assert set(recording.memory[1].tolist()) == {300 * MI}
    assert set(recording.cpu_request[0].tolist()) == {1.0}
    assert set(recording.memory_limit[0].tolist()) == {1024 * MI}
    assert set(recording.cpu_limit[0].tolist()) == {0.0}
    assert set(recording.throttled[0].tolist()) == {0.0}
    assert owners(recording) == {"db-0": ("StatefulSet", "db"), "db-1": ("StatefulSet", "db")}
    assert list(tmp_path.iterdir()) == [found.file]
    assert found.report.items[0]["containers"] == 2
    told = "nothing has the labels pod_name and name of job kubernetes-cadvisor"
    assert len(found.notes) == 1
    assert found.notes[0].startswith(told)


@cases(
    "owner topmost",
    {
        "a Deployment": (("ReplicaSet", "web-5d4f"), ("Deployment", "web")),
        "a CronJob": (("Job", "nightly-1"), ("CronJob", "nightly")),
        "a ReplicaSet of its own": (("ReplicaSet", "lone"), ("ReplicaSet", "lone")),
        "a Job whose owner is gone": (("Job", "gone-1"), ("", "")),
        "a pod that nothing tells of": (None, ("", "")),
        "a custom kind": (("Database", "main"), ("Database", "main")),
        "a pod without a controller": (("<none>", "<none>"), None),
        "a pod of the kubelet's files": (("Node", "node-1"), None),
    },
)
def test_owners(
    server: PrometheusServer,
    tmp_path: Path,
    owner: tuple[str, str] | None,
    topmost: tuple[str, str] | None,
) -> None:
    """A pod counts for its topmost controller; what no VPA can size is left out."""
    known = {
        ("ReplicaSet", "web-5d4f"): ("Deployment", "web"),
        ("ReplicaSet", "lone"): ("<none>", "<none>"),
        ("Job", "nightly-1"): ("CronJob", "nightly"),
    }
    server.otherwise = Fleet([*TWO, Load("one", owner=owner)], known)
    found = Recorded(server, tmp_path)
    assert owners(found.recording).get("one") == topmost
    strange = "1 container of 3 under unknown owner"
    assert (strange in found.notes) == (topmost == ("", ""))


def test_init_containers(server: PrometheusServer, tmp_path: Path) -> None:
    """What ends before the containers start is none of them."""
    server.otherwise = Fleet([*TWO, Load("db-0", "migrate", is_init=True)])
    assert len(Recorded(server, tmp_path).recording.rows) == 2


def test_kills_and_restarts(server: PrometheusServer, tmp_path: Path) -> None:
    """Restarts are counted in their step, also across a counter that begins again."""

    def totals(time: float) -> float:
        at = column(time)
        return 7.0 if at < 10 else 9.0 if at < 40 else 2.0

    crashing = Load("a", restarts=totals, was_killed=lambda time: float(column(time) < 40))
    finished = Load("b", is_killed=lambda time: float(column(time) >= 20))
    server.otherwise = Fleet([crashing, finished])
    found = Recorded(server, tmp_path).recording
    assert {at: n for at, n in enumerate(found.restarts[0].tolist()) if n} == {10: 2.0, 40: 2.0}
    assert {at: n for at, n in enumerate(found.oom_kills[0].tolist()) if n} == {10: 2.0}
    assert {at: n for at, n in enumerate(found.oom_kills[1].tolist()) if n} == {20: 1.0}


def test_restarts_for_several_reasons(server: PrometheusServer, tmp_path: Path) -> None:
    """Only the last of some restarts has a reason, which those before need not share."""

    def totals(time: float) -> float:
        return 5.0 * (column(time) >= 10) + 3.0 * (column(time) >= 20) + (column(time) >= 30)

    killed = Load("a", restarts=totals, was_killed=lambda time: float(10 <= column(time) < 30))
    server.otherwise = Fleet([killed])
    found = Recorded(server, tmp_path).recording
    assert {at: n for at, n in enumerate(found.restarts[0].tolist()) if n} == {10: 5, 20: 3, 30: 1}
    assert {at: n for at, n in enumerate(found.oom_kills[0].tolist()) if n} == {10: 1, 20: 3}


def test_throttling_that_is_not_known(server: PrometheusServer, tmp_path: Path) -> None:
    """Where nothing tells how often a CPU limit held back, it is said of how many."""
    limits = {"cpu": 2.0}
    seen = Load("b", limits=limits, throttled=lambda _time: 0.0)
    server.otherwise = Fleet([Load("a", limits=limits), seen, Load("c")])
    notes = Recorded(server, tmp_path).notes
    said = "how often their limit held CPU back is not known of 1 of 2 containers with a CPU limit"
    assert said in notes


def test_gaps(server: PrometheusServer, tmp_path: Path) -> None:
    """What was not scraped is not known, nor what a container of a pod that waits requests."""

    def scraped(time: float) -> float | None:
        return None if 10 <= column(time) < 17 else 0.5

    ended = Load("job-1", cpu=lambda time: 1.0 if column(time) < 30 else None, memory=scraped)
    server.otherwise = Fleet([replace(TWO[1], cpu=scraped), ended])
    found = Recorded(server, tmp_path)
    recording = found.recording
    assert np.flatnonzero(np.isnan(recording.cpu[0])).tolist() == list(range(10, 17))
    assert not np.isnan(recording.cpu_request[0]).any()
    assert "CPU is not known for 34.0% of the time in which containers ran" in found.notes
    assert "memory is not known for 4.9% of the time in which containers ran" in found.notes


def test_names_that_cannot_be(server: PrometheusServer, tmp_path: Path) -> None:
    """Series whose names are none cost themselves alone, and do nothing to a terminal."""
    strange = [
        Load("evil\x1b[31m\nname"),
        Load("p" * 300),
        Load("db-2", owner=("StatefulSet", "\x1b[1mdb")),
        Load("db-0", namespace="n" * 300),
        Load("db-0", namespace="../../etc"),
    ]
    server.otherwise = Fleet([*TWO, *strange])
    found = Recorded(server, tmp_path)
    assert [row.pod for row in found.recording.rows] == ["db-0", "db-1", "db-2"]
    assert owners(found.recording)["db-2"] == ("", "")
    assert "'../../etc' is no name of a namespace, so it is left out" in found.notes
    assert any("series and 0 points cannot be read" in note for note in found.notes)
    assert "".join(found.notes).isprintable()


def test_a_short_history(server: PrometheusServer, tmp_path: Path) -> None:
    """Where usage begins late, it is said when."""

    def late(time: float) -> float | None:
        return None if column(time) < 36 else 0.5

    server.otherwise = Fleet([replace(TWO[0], cpu=late, memory=lambda t: late(t) and 200 * MI)])
    found = Recorded(server, tmp_path)
    assert "there is no usage before 2026-03-01T09:00:00Z" in found.notes


def test_amounts_that_cannot_be(server: PrometheusServer, tmp_path: Path) -> None:
    """An amount that no machine has costs itself alone, and is counted."""
    strange = Load("a", cpu=lambda time: 1e9 if column(time) == 5 else 0.5)
    server.otherwise = Fleet([strange])
    found = Recorded(server, tmp_path)
    assert np.isnan(found.recording.cpu[0, 5])
    assert np.isnan(found.recording.cpu).sum() == 1
    assert any("0 series and 1 points cannot be read" in note for note in found.notes)


FLEET = [Load(f"db-{index}", namespace=name) for index in range(5) for name in ("a", "b")]


def whole(server: PrometheusServer, folder: Path) -> Recording:
    """Return what a server without faults tells of the fleet."""
    server.otherwise = Fleet(FLEET)
    folder.mkdir()
    return Recorded(server, folder).recording


def equal(one: Recording, other: Recording) -> bool:
    """Whether two recordings are the same."""
    same = all(
        np.array_equal(found, wanted, equal_nan=True)
        for (_, found), (_, wanted) in zip(one.arrays(), other.arrays(), strict=True)
    )
    return same and one.rows == other.rows


def test_too_much_at_once(server: PrometheusServer, tmp_path: Path) -> None:
    """What a server refuses because it is too much is read in halves, and is the same."""
    wanted = whole(server, tmp_path / "whole")
    server.otherwise = fleet = Fleet(FLEET, most_points=100)
    found = Recorded(server, tmp_path)
    assert fleet.refused
    assert equal(found.recording, wanted)


def test_busy_servers(
    server: PrometheusServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that is busy is asked again, not before it wants to be, and that is told."""
    wanted = whole(server, tmp_path / "whole")
    busy = Reply(b"{}", 503, {"Retry-After": "40"})
    server.ready.extend([busy, busy, Reply.of(429, "too_many", "later"), Reply(b"", 502)])
    server.otherwise = Fleet(FLEET)
    found = Recorded(server, tmp_path)
    assert equal(found.recording, wanted)
    assert found.clock.monotonic() >= 80
    told = "plumbline: Prometheus is busy (status 503), it is asked again in 40 s\n"
    assert capsys.readouterr().err.startswith(told)


def test_answers_that_are_cut(server: PrometheusServer, tmp_path: Path) -> None:
    """An answer that ends too early is asked for again, then in halves."""
    wanted, fleet = whole(server, tmp_path / "whole"), Fleet(FLEET)

    def cut(asked: Asked) -> Reply:
        reply = fleet(asked)
        return replace(reply, body=reply.body[:8_000])

    server.otherwise = cut
    assert equal(Recorded(server, tmp_path).recording, wanted)


def test_answers_that_say_they_are_not_whole(server: PrometheusServer, tmp_path: Path) -> None:
    """A step that stays too much is not known, and is told."""
    fleet = Fleet(FLEET[:1])
    cut = replace(fleet, warning="results truncated due to limit")

    def warned(asked: Asked) -> Reply:
        return (cut if "max_over_time" in asked.told["query"] else fleet)(asked)

    server.otherwise = warned
    found = Recorded(server, tmp_path, "--step=1h")
    assert np.isnan(found.recording.memory).all()
    assert not np.isnan(found.recording.cpu).any()
    told = "a: memory: the answer is not whole: results truncated due to limit"
    assert found.notes.count(told) == 1
    assert len([one for one in server.asked if "max_over_time" in one.told["query"]]) < 10


@cases(
    "word unknown",
    {
        "of each step": ("throttled", "throttled"),
        "of all steps": ("kube_pod_owner", "pods"),
        "of what ends too early": ("rate(", "cpu"),
    },
)
def test_a_question_that_is_always_too_much(
    server: PrometheusServer, tmp_path: Path, word: str, unknown: str
) -> None:
    """It is given up after a few steps, and nothing else is asked for again."""
    fleet = Fleet(FLEET)
    much = Reply.of(422, "execution", "cannot select more than 9 samples")

    def refusing(asked: Asked) -> Reply:
        if "count" in asked.told["query"][:6] or word not in asked.told["query"]:
            return fleet(asked)
        return replace(fleet(asked), missing=100) if unknown == "cpu" else much

    server.otherwise = refusing
    found = Recorded(server, tmp_path)
    assert sorted(note[:3] for note in found.notes if f": {unknown}: " in note) == ["a: ", "b: "]
    assert not np.isnan(found.recording.memory).any()
    others = [one.told["query"] for one in server.asked if word not in one.told["query"]]
    assert len([one for one in others if not one.startswith("count")]) == 2 * 12
    assert len(server.asked) - len(others) < 2 * 12 * (3 if unknown == "cpu" else 1)


def test_one_step_that_is_too_much(server: PrometheusServer, tmp_path: Path) -> None:
    """It alone stays unknown."""
    fleet, at = Fleet(FLEET), BEGIN + 10 * STEP

    def refusing(asked: Asked) -> Reply:
        told = asked.told
        if "max_over_time" in told["query"] and float(told["start"]) <= at <= float(told["end"]):
            return Reply.of(422, "execution", "query processing would load too many samples")
        return fleet(asked)

    server.otherwise = refusing
    found = Recorded(server, tmp_path).recording
    assert np.flatnonzero(np.isnan(found.memory[0])).tolist() == [9]


def test_a_question_that_fails_for_good(server: PrometheusServer, tmp_path: Path) -> None:
    """What cannot be executed is asked once for each piece, and nothing else is asked again."""
    fleet = Fleet(FLEET)
    failed = Reply.of(422, "execution", "found duplicate series for the match group")

    def failing(asked: Asked) -> Reply:
        return failed if "throttled" in asked.told["query"] else fleet(asked)

    server.otherwise = failing
    found = Recorded(server, tmp_path)
    assert not np.isnan(found.recording.memory).any()
    told = [note for note in found.notes if "found duplicate series" in note]
    assert sorted(note.partition(":")[0] for note in told) == ["a", "b"]
    queries = [one.told["query"] for one in server.asked if "start" in one.told]
    assert len(queries) == len(set(queries))


def test_an_answer_that_is_none(server: PrometheusServer, tmp_path: Path) -> None:
    """One answer that cannot be read costs itself alone, and is told."""
    fleet, scalar = Fleet(FLEET[:1]), b'{"status":"success","data":{"resultType":"scalar"}}'
    server.otherwise = lambda asked: (
        Reply(scalar) if "throttled" in asked.told["query"] else fleet(asked)
    )
    found = Recorded(server, tmp_path)
    assert not np.isnan(found.recording.cpu).any()
    assert any(note.startswith("a: throttled: no answer that can be") for note in found.notes)


def test_series_that_are_left_out(server: PrometheusServer, tmp_path: Path) -> None:
    """A server that leaves series out without a word is noticed."""
    server.otherwise = Fleet(FLEET, most_series=3)
    notes = Recorded(server, tmp_path).notes
    assert "a: 3 of at least 5 containers are answered; does a limit cut answers short?" in notes


def test_what_was_broken_off_goes_on(server: PrometheusServer, tmp_path: Path) -> None:
    """Pieces that were read are not read again, and the time stays the same."""
    wanted, fleet = whole(server, tmp_path / "whole"), Fleet(FLEET)

    def refusing(asked: Asked) -> Reply:
        if 'namespace="b"' not in asked.told["query"]:
            return fleet(asked)
        assert eventually(lambda: any(tmp_path.glob("*.pieces/a.*.npz")))
        return Reply.of(403, "forbidden", "not yours")

    server.otherwise = refusing
    with pytest.raises(Refused, match=r"not yours; what was read is kept in .*npz\.pieces, repeat"):
        Recorded(server, tmp_path)
    with pytest.raises(
        BadSetting, match=r"npz\.pieces: keeps pieces of a recording that was asked"
    ):
        Recorded(server, tmp_path, "--step=10m")
    with pytest.raises(BadSetting, match="asked for otherwise"):
        Recorded(server, tmp_path, "--prometheus-tenant=two")
    server.otherwise = fleet
    server.asked.clear()
    found = Recorded(server, tmp_path)
    assert equal(found.recording, wanted)
    assert not [one for one in server.asked if 'namespace="a"' in one.told["query"]]
    assert found.notes[0] == "goes on with 1 piece that had been read before"


@cases(
    "damage",
    {
        "cut": (lambda path: path.write_bytes(path.read_bytes()[:100]),),
        "of another time": (lambda path: save_recording(load_recording(path).part(0, 9), path),),
    },
)
def test_a_piece_that_is_damaged(
    server: PrometheusServer, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """It is read again, with nothing else."""
    wanted, fleet = whole(server, tmp_path / "whole"), Fleet(FLEET)

    def refusing(asked: Asked) -> Reply:
        if 'namespace="b"' not in asked.told["query"]:
            return fleet(asked)
        assert eventually(lambda: any(tmp_path.glob("*.pieces/a.*.npz")))
        return Reply.of(403, "forbidden", "no")

    server.otherwise = refusing
    with pytest.raises(Refused):
        Recorded(server, tmp_path)
    for path in tmp_path.glob("*.pieces/*.npz"):
        damage(path)
    server.otherwise = fleet
    assert equal(Recorded(server, tmp_path).recording, wanted)


def test_a_namespace_of_small_things(server: PrometheusServer, tmp_path: Path) -> None:
    """What would be strange of a fleet is not of one namespace."""
    small = Load("nap", namespace="a", memory=lambda _time: 40_000.0, requests={"memory": 9.0})
    server.otherwise = Fleet([*TWO, Load("db-2"), small])
    assert len(Recorded(server, tmp_path).recording.rows) == 4


def test_few_questions_at_once(server: PrometheusServer, tmp_path: Path) -> None:
    """No more than three connections are used."""
    fleet = Fleet([Load("p", namespace=f"n{index}") for index in range(12)])
    busy, most, lock = [0], [0], Lock()

    def counting(asked: Asked) -> Reply:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        reply = fleet(asked)
        with lock:
            busy[0] -= 1
        return reply

    server.otherwise = counting
    assert len(Recorded(server, tmp_path).recording.rows) == 12
    assert most[0] <= 3


def test_without_kube_state_metrics(server: PrometheusServer, tmp_path: Path) -> None:
    """Usage alone is recorded too, and what is missing is told."""
    server.otherwise = Fleet(TWO, has_state=False)
    found = Recorded(server, tmp_path)
    assert np.isnan(found.recording.cpu_request).all()
    told = [note.partition(" of kube-state")[0] for note in found.notes[1:3]]
    assert told == [
        "Prometheus has no kube_pod_owner",
        "Prometheus has no kube_pod_container_resource_requests",
    ]


TWICE = [Load("db-0", cluster="eu"), Load("db-0", cluster="us", cpu=lambda _time: 0.25)]


def test_two_clusters(server: PrometheusServer, tmp_path: Path) -> None:
    """Pods of two clusters are not added up: one has to be chosen, and is all that is read."""
    server.otherwise = Fleet(TWICE)
    said = r"containers of 2 clusters \(eu, us\): .*--prometheus-selector='cluster=\"eu\"'"
    with pytest.raises(BadSetting, match=said):
        Recorded(server, tmp_path)
    server.asked.clear()
    found = Recorded(server, tmp_path, '--prometheus-selector=cluster="us"')
    assert set(found.recording.cpu[0].tolist()) == {0.25}
    queries = [one.told["query"] for one in server.asked]
    assert not [one for one in queries if one.count("{") != one.count('cluster="us"')]


def test_one_cluster(server: PrometheusServer, tmp_path: Path) -> None:
    """A label that only some series have, or all alike, needs no choice."""
    server.otherwise = Fleet([Load("db-0", cluster="eu"), Load("db-1")])
    assert len(Recorded(server, tmp_path).recording.rows) == 2


def says(reply: Reply) -> Callable[[Asked], Reply]:
    """Return what always answers the same."""
    return lambda _: reply


@cases(
    "answer error said",
    {
        "no usage": (Fleet(()), BadSetting, "no usage of containers in any namespace"),
        "a wrong query": (says(Reply.of(400, "bad_data", "parse error")), Invalid, "parse error"),
        "words for a terminal": (
            says(Reply.of(400, "bad_data", "evil \x1b[31m \n line " + "x" * 3_000)),
            Invalid,
            r"evil \[31m line x{480,490}\.\.\.",
        ),
        "no rights": (says(Reply(b"", 401)), Refused, "HTTP status 401"),
        "busy for good": (says(Reply(b"", 503)), Unavailable, "HTTP status 503"),
        "no answer to read": (says(Reply(b"<html>")), ClusterError, "no JSON object"),
        "no metrics": (says(Reply()), BadSetting, "no usage of containers: nothing answers count"),
    },
)
def test_failures(
    server: PrometheusServer,
    tmp_path: Path,
    answer: Callable[[Asked], Reply],
    error: type[Exception],
    said: str,
) -> None:
    """What cannot be recorded ends with a sentence."""
    server.otherwise = answer
    with pytest.raises(error, match=said):
        Recorded(server, tmp_path)


def test_a_server_that_is_not_there(server: PrometheusServer, tmp_path: Path) -> None:
    """A wrong address is told at once."""
    clock, address = SteppedClock(), f"--prometheus-address={server.url}"
    settings = parse(RecordSettings, [address, f"--output={tmp_path / 'x'}"], {})
    server.stop()
    with pytest.raises(Unavailable, match="no connection: connection refused"):
        record_report(settings, clock, clock.wait)
    assert clock.monotonic() == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output=/no/such/x.npz"], "--output: there is no folder for /no/such/x.npz"),
        (["--output=/tmp"], "--output: /tmp is no file; name a new file"),
        (["--output=-"], "--output: - is no file; name a new file"),
        ([f"--output={__file__}"], "test_record.py is there already; name a new file"),
        (["--prometheus-selector=a=1", "--output=x"], "selector takes labels such as"),
        (
            ['--prometheus-selector=a="b"} or up', "--output=x"],
            "--prometheus-selector takes labels",
        ),
        (["--step=25h", "--output=x"], "--step takes whole seconds, a day at most"),
        (["--step=1500ms", "--output=x"], "--step takes whole seconds"),
        (["--days=0.001", "--output=x"], "--days is shorter than --step"),
        ([], "no file given: name one with --output"),
    ],
)
def test_settings_that_cannot_be(words: list[str], said: str) -> None:
    """What cannot be recorded is refused before anything is asked."""
    with pytest.raises(BadSetting, match=said):
        record_report(parse(RecordSettings, words, {}), SteppedClock())
