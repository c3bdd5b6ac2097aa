"""`plumbline replay`: files in, lines out, and a sentence for whatever cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
import yaml

from app.cli import main
from app.model.fields import Json
from tests import make
from tests.commands.replaying.story import WEB, Story

PAGE = Path(__file__).parents[2] / "docs" / "replay.md"
OBJECTS = make.snapshot_json(*WEB)
Capture = pytest.CaptureFixture[bytes]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did."""

    code: int
    out: list[bytes]
    said: str

    @property
    def lines(self) -> list[Json]:
        """What was printed, as read."""
        return [orjson.loads(line) for line in self.out]


Run = Callable[..., Outcome]


def story() -> Story:
    """Return half an hour of the same usage."""
    found = Story()
    for minute in range(1, 31):
        found.use(minute, "100m", "400Mi")
    return found


@pytest.fixture
def run(tmp_path: Path, capsysbinary: Capture) -> Run:
    """Return a function that replays events on the objects of the story."""

    def replay(*flags: str, events: bytes | Sequence[bytes], objects: object = OBJECTS) -> Outcome:
        body = events if isinstance(events, bytes) else b"\n".join(events)
        (tmp_path / "events").write_bytes(body)
        (tmp_path / "objects.json").write_bytes(orjson.dumps(objects))
        paths = [f"--objects={tmp_path}/objects.json", f"--events={tmp_path}/events"]
        code = main(["replay", *paths, *flags])
        found = capsysbinary.readouterr()
        said = found.err.decode().replace(f"{tmp_path}/", "")
        return Outcome(code, found.out.splitlines(), said)

    return replay


def test_the_end_is_shown(run: Run) -> None:
    """Without further words the statuses in the end are printed, one line each."""
    found = run(events=story().lines)
    assert (found.code, found.said) == (0, "")
    (line,) = found.lines
    # The first event is at 00:01, so the tick at 00:30 has seen all of them.
    assert (line["time"], line["name"]) == ("2026-01-05T00:30:00Z", "web")
    (one,) = line["recommendation"]["containerRecommendations"]
    assert one["target"] == {"cpu": "126m", "memory": "511772986"}
    assert [found["type"] for found in line["conditions"]] == ["RecommendationProvided"]


def test_several_moments(run: Run) -> None:
    """Each moment has its lines, in order of time, with checkpoints where they are wanted."""
    flags = ["--at=2026-01-05T00:20:00Z", "--at", "2026-01-05T00:10:30Z", "--checkpoints"]
    found = run(*flags, "--start=2026-01-05T00:00:00Z", "--interval=2m", events=story().lines)
    assert [(line["time"][11:], *sorted(line)) for line in found.lines] == [
        ("00:10:30Z", "conditions", "name", "namespace", "recommendation", "time"),
        ("00:10:30Z", "checkpoint", "time"),
        ("00:20:00Z", "conditions", "name", "namespace", "recommendation", "time"),
        ("00:20:00Z", "checkpoint", "time"),
    ]
    assert sorted(found.lines[1]["checkpoint"]) == ["metadata", "spec", "status"]


def test_csv(run: Run) -> None:
    """`--csv` gives a row for each tick, or for each moment that is named."""
    found = run("--csv", "--until=2026-01-05T00:03:00Z", events=story().lines)
    assert found.out == [
        b"time,namespace,vpa,container,cpu_millicores,memory_bytes",
        b"2026-01-05T00:02:00Z,default,web,app,126,511772986",
        b"2026-01-05T00:03:00Z,default,web,app,126,511772986",
    ]
    assert len(run("--csv", "--at=2026-01-05T00:03:00Z", events=story().lines).out) == 2


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (
            "table",
            [
                b"TIME                  NAMESPACE  VPA  CONTAINER  CPU   MEMORY",
                b"2026-01-05T00:03:00Z  default    web  app        126m  488Mi",
            ],
        ),
        ("name", [b"verticalpodautoscaler.autoscaling.k8s.io/web"]),
    ],
)
def test_formats(run: Run, output: str, lines: list[bytes]) -> None:
    """The same moment for people, for other commands, and for table programs."""
    found = run("-o", output, "--at=2026-01-05T00:03:00Z", events=story().lines)
    assert (found.out, found.said) == (lines, "")


def test_yaml_says_what_json_says(run: Run) -> None:
    """A document for each line."""
    texts = run("-oyaml", "--checkpoints", events=story().lines).out
    expected = run("--checkpoints", events=story().lines).lines
    assert list(yaml.safe_load_all(b"\n".join(texts))) == expected


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        ([], {"cpu": "126m", "memory": "511772986"}),
        (["--recommendation-margin-fraction=0"], {"cpu": "110m"}),
        (["--pod-recommendation-min-memory-mb=500"], {"memory": "500Mi"}),
        (["--round-cpu-millicores=50"], {"cpu": "150m"}),
        (["--round-cpu-millicores=-5"], {"cpu": "126m"}),
        (["--container-recommendation-max-allowed-cpu=100m"], {"cpu": "100m"}),
        (["--recommender-name=perf"], {}),
        (["--vpa-object-namespace=other"], {}),
        (["--storage=prometheus", "--parity=upstream"], {"cpu": "126m"}),
        (["--feature-gates=AllAlpha=true"], {"cpu": "126m"}),
    ],
)
def test_flags_of_the_recommender(flags: Sequence[str], target: Json, run: Run) -> None:
    """Every flag of the recommender counts."""
    found = run(*flags, events=story().lines).lines
    recommended = [one["recommendation"] for one in found if one["recommendation"]]
    shown = [one["containerRecommendations"][0]["target"] for one in recommended]
    assert [target.items() <= one.items() for one in shown] == ([True] if target else [])


@pytest.mark.parametrize(("parity", "is_shown"), [("", False), ("none", False), ("upstream", True)])
def test_parity(parity: str, is_shown: bool, run: Run) -> None:
    """As upstream a container without any sample gets the floor."""
    events = Story().use(1, "100m", container="other").lines
    (line,) = run(f"--parity={parity}", events=events).lines
    assert bool(line["recommendation"]) is is_shown


def test_what_cannot_be_read(run: Run) -> None:
    """Sentences tell file, line and field; one more tells how many lines were skipped."""
    events = [b"{", *story().lines, b'{"time":"noon","type":"usage"}']
    events.append(Story().use(2, "1", pod="ghost").lines[0])
    events.append(Story().kill(2, "1Gi", pod="ghost").lines[0])
    events.append(Story().kill(2, "1Gi", finishedAt="2020-01-01T00:00:00Z").lines[0])
    objects = make.snapshot_json(*WEB, {"kind": "Pod"})
    found = run(events=events, objects=objects)
    assert (found.code, len(found.lines)) == (0, 1)
    assert found.said.splitlines() == [
        "plumbline: objects.json:1.items[4]: metadata.name: is missing",
        "plumbline: events:1: invalid JSON: unexpected end of data (column 1)",
        'plumbline: events:32: time: "noon" is no RFC 3339 time',
        "plumbline: 2 of 35 events cannot be read and were skipped",
        "plumbline: 1 usage sample ignored: no such container at that time",
        "plumbline: 1 OOM kill ignored: no such container at that time",
        "plumbline: 1 OOM kill ignored: dated far from the time of the event",
    ]


def test_many_problems(run: Run) -> None:
    """Nobody reads thousands of sentences."""
    said = run(events=[b"{"] * 100 + story().lines).said.splitlines()
    assert len(said) == 22
    assert said[20] == "plumbline: and 80 more"


def test_objects_that_are_no_objects(run: Run) -> None:
    """Half a VPA is told; what is no object at all ends the replay before it begins."""
    vpa = make.vpa_json("web", target="Deployment/web", status={"conditions": 1})
    found = run(events=story().lines, objects=[*WEB[:2], vpa, WEB[3]])
    assert found.lines[0]["recommendation"]
    assert found.said.splitlines() == [
        "plumbline: objects.json:1[2]: status.conditions: expected a list, found the number 1; "
        "status left out",
    ]
    broken = run(events=story().lines, objects=[*WEB, 7])
    assert (broken.code, broken.out) == (2, [])
    assert broken.said == "plumbline: objects.json:1[4]: not a Kubernetes object\n"


@pytest.mark.parametrize(
    ("flags", "events", "sentence"),
    [
        (["--events="], b"", "no events given"),
        (["--events=nowhere"], b"", "nowhere: No such file"),
        ([], b"", "there are no events: say with --start when to begin"),
        ([], b"{\n[", "events: no event can be read"),
        (["--start=noon"], b"", "--start takes a time such as"),
        (["--start=2026-01-05"], b"", "--start takes a time such as"),
        (["--interval=0s"], b"", "--interval takes a duration above"),
        (
            ["--start=2026-01-05T01:00:00Z", "--until=2026-01-05T00:00:00Z"],
            b"",
            "--until is before --start",
        ),
        (["--until=2026-01-04T00:00:00Z"], story().lines[0], "--until is before the start"),
        (
            ["--until=2026-01-06T00:00:00Z", "--at=2026-01-06T00:00:01Z"],
            story().lines[0],
            "--at is after --until",
        ),
        (
            [],
            b"\n".join(story().lines + Story().use(40_000_000, "1", "1Mi").lines[-1:]),
            "events:31: time: 27777 days after all before it; correct it, or say with --until",
        ),
        (
            ["--parity=upstream,stale_after"],
            b"",
            "--parity: since 0.2 there are no single words: --parity=upstream does everything",
        ),
    ],
)
def test_wrong_usage(flags: Sequence[str], events: bytes, sentence: str, run: Run) -> None:
    """What cannot be played is one sentence and exit code 2."""
    found = run(*flags, events=events)
    assert (found.code, found.out) == (2, [])
    assert sentence in found.said


@pytest.mark.parametrize("flag", ["--until", "--at"])
def test_an_event_beyond_the_end(flag: str, run: Run) -> None:
    """An event dated decades ahead is no matter where it is said when to end."""
    lines = story().lines
    far = Story().use(40_000_000, "1", "1Mi").lines[-1:]
    end = f"{flag}=2026-01-05T00:30:00Z"
    assert run(end, events=lines + far).out == run(end, events=lines).out


def test_nothing_happens(run: Run) -> None:
    """No events are no error if it is said when to begin."""
    found = run("--start=2026-01-05T00:00:00Z", "--parity=upstream", events=b"")
    (line,) = found.lines
    assert line["time"] == "2026-01-05T00:01:00Z"
    assert line["recommendation"]["containerRecommendations"][0]["target"]["memory"] == "250Mi"


def test_a_look_before_the_start(run: Run) -> None:
    """Statuses can be looked at before anybody has said anything."""
    flags = ["--start=2026-01-05T00:10:00Z", "--at=2026-01-05T00:05:00Z"]
    assert [line["conditions"] for line in run(*flags, events=story().lines).lines] == [[]]


def shown(language: str) -> list[str]:
    """Return the blocks of the page about replays in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("example", range(3))
def test_the_page_shows_what_a_reader_gets(
    example: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    """The examples of the documentation are run as they stand there."""
    monkeypatch.chdir(tmp_path)
    Path("objects.yaml").write_text(shown("yaml")[0], "utf-8")
    Path("events.jsonl").write_text(shown("json")[0], "utf-8")
    command, _, expected = shown("console")[example].partition("\n")
    assert main(command.split()[2:]) == 0
    assert capsysbinary.readouterr().out.decode() == expected
