"""`python -m tests.parity [COUNT [SEED]]`: our recommender beside upstream's, on random stories.

Strategy: upstream's own packages, built from their Go module, play the stories that
`plumbline replay --parity=upstream` plays; every recommendation, condition and checkpoint must be
the same. Sums of weights may differ in their last digit: upstream adds in an order of chance.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from app.model.fields import Json
from app.model.quantity import Quantity
from tests.parity.stories import START, Story, moment

GO = Path(__file__).parent / "go"
ROOT = GO.parents[2]
_BOUNDS = ("target", "lowerBound", "upperBound", "uncappedTarget")
_LAST_DIGIT = 1e-12


def main(words: list[str]) -> int:
    """Compare; return 1 if anything differs."""
    count, seed = (*map(int, words), *(20, 0)[len(words) :])
    with tempfile.TemporaryDirectory(prefix="plumbline-parity-") as folder:
        stories = {Path(folder, str(seed + at)): Story(seed + at) for at in range(count)}
        for place, story in stories.items():
            _write(place, story)
        command = ["go", "test", "-count=1", "-timeout=60m", "."]
        subprocess.run(command, cwd=GO, check=True, env={**os.environ, "STORIES": folder})
        sums = [_compared(place, story) for place, story in stories.items()]
    answers, differences = (sum(numbers) for numbers in zip(*sums, strict=True))
    _say(f"{count} stories, {answers} answers compared, {differences} differ")
    return 1 if differences else 0


def _compared(place: Path, story: Story) -> tuple[int, int]:
    """Tell what differs; return how many answers there are, and how many differ."""
    ours = _told(_replayed(place, story), story)
    theirs = _told(_read((place / "upstream.jsonl").read_bytes()), story)
    differ = [what for what in {**theirs, **ours} if ours.get(what) != theirs.get(what)]
    for what in differ:
        _say(f"story {story.seed}, {what}:")
        _say(f"  upstream {theirs.get(what)}\n  ours     {ours.get(what)}")
    return len(theirs), len(differ)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _write(place: Path, story: Story) -> None:
    place.mkdir()
    plan: Json = {"At": story.moments, "Until": moment(story.until)}
    texts = {"objects": story.objects, "events": story.events, "plan": [plan]}
    for name, found in texts.items():
        (place / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, found)))


def _replayed(place: Path, story: Story) -> Iterator[Json]:
    command = [sys.executable, "-m", "app", "replay", "--parity=upstream", "--checkpoints", "--v=0"]
    command += [f"--objects={place}/objects.jsonl", f"--events={place}/events.jsonl"]
    command += [f"--start={moment(START)}", f"--until={moment(story.until)}"]
    command += ["--feature-gates=PerVPAConfig=true", *(f"--at={at}" for at in story.moments)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return _read(done.stdout)


def _read(lines: bytes) -> Iterator[Json]:
    return map(orjson.loads, lines.splitlines())


def _told(answers: Iterable[Json], story: Story) -> dict[str, object]:
    """Return what was answered, by what it is about; of checkpoints those of the end."""
    found: dict[str, object] = {}
    for answer in answers:
        if "checkpoint" not in answer:
            about = f"{answer['name']} at {answer['time']}"
            found[about] = (_recommended(answer), _conditions(answer))
        elif answer.get("time", moment(story.until)) == moment(story.until):
            checkpoint = answer["checkpoint"]
            status = {k: v for k, v in checkpoint["status"].items() if k != "lastUpdateTime"}
            found[f"checkpoint {checkpoint['metadata']['name']}"] = Stored(status)
    return found


def _recommended(answer: Json) -> object:
    """Return amounts as numbers: how they are spelt changes when upstream's side reads them."""
    if answer["recommendation"] is None:
        return None
    return {
        one["containerName"]: {
            bound: {name: Quantity.parse(text).nano for name, text in one[bound].items()}
            for bound in _BOUNDS
            if bound in one
        }
        for one in answer["recommendation"].get("containerRecommendations") or ()
    }


def _conditions(answer: Json) -> list[Json]:
    names = ("type", "status", "reason", "message", "lastTransitionTime")
    found = [{name: one.get(name) for name in names} for one in answer["conditions"] or ()]
    return sorted(found, key=lambda one: str(one["type"]))


class Stored:
    """The status of a checkpoint; equal to another up to the last digit of sums of weights."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self._status = status

    def __repr__(self) -> str:
        return repr(self._status)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stored) and _are_close(self._status, other._status)

    __hash__ = None  # type: ignore[assignment]  # equality up to a tolerance allows no hash


def _are_close(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_close(one[key], other[key]) for key in one)
    if isinstance(one, float | int) and isinstance(other, float | int):
        return abs(one - other) <= _LAST_DIGIT * abs(one)
    return one == other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
