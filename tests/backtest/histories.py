"""Histories of a fleet at random, as a recording and as the events and objects of a replay."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import orjson

from app.backtest.core.recorded_fleet import RecordedWorkload
from app.backtest.core.settings import Given
from app.backtest.recording import RecordedContainer, Recording
from app.model.fields import Json
from app.model.vpa import read_vpa
from tests import make
from tests.backtest.recordings import START
from tests.commands.replaying.story import Story

KIB = 2**10
MIB = 2**20
POLICIES = (
    None,
    [make.policy_json("app", min_allowed={"cpu": "150m"}, max_allowed={"memory": "400Mi"})],
    [make.policy_json("*", resources=["cpu"])],
    [make.policy_json("side", mode="Off")],
)


def random_recording(
    dice: Random, workloads: int, hours: int, step: int = 900, *, limits: bool = False
) -> Recording:
    """Return what some workloads used, with pods that come and go, gaps and kills."""
    rows = [
        RecordedContainer("default", "StatefulSet", f"w{number:02}", f"w{number:02}-{pod}", name)
        for number in range(workloads)
        for pod in range(dice.randint(1, 3))
        for name in ("app", "side")[: dice.randint(1, 2)]
    ]
    count = hours * 3600 // step
    found = Recording.unknown(START, step, count, rows)
    lives: dict[str, tuple[int, int]] = {}
    for row, one in enumerate(rows):
        usual = (0, count) if dice.random() < 0.6 else tuple(sorted(dice.sample(range(count), 2)))
        first, last = lives.setdefault(one.pod, (usual[0], usual[1]))
        _fill(found, row, range(first, max(last, first + 1)), dice, has_limits=limits)
    return found


def _fill(found: Recording, row: int, steps: range, dice: Random, *, has_limits: bool) -> None:
    cpu, memory = dice.uniform(3, 900), dice.uniform(5, 900) * KIB
    request = round(memory * dice.uniform(0.5, 2)) * KIB
    phase = dice.uniform(0, math.tau)
    for at in steps:
        found.cpu_request[row, at] = dice.choice((0.1, cpu / 1000)) if at == steps[0] else np.nan
        found.memory_request[row, at] = request
        if has_limits:
            found.memory_limit[row, at], found.cpu_limit[row, at] = request * 1.5, cpu / 500
        day = 1 + 0.6 * math.sin(at * found.step / 86400 * math.tau + phase)
        if dice.random() > 0.05:
            found.cpu[row, at] = round(cpu * day * dice.lognormvariate(0, 0.4)) / 1000
        if dice.random() > 0.05:
            found.memory[row, at] = round(memory * day * dice.lognormvariate(0, 0.1)) * KIB
        found.oom_kills[row, at] = dice.random() < 0.01


def given_for(recording: Recording) -> Given:
    """Return VPAs for the workloads of a recording, with policies of several kinds."""
    names = {(one.owner_kind, one.owner_name) for one in recording.rows}
    return Given(
        {
            RecordedWorkload("default", kind, name): read_vpa(vpa_json(name, number))
            for number, (kind, name) in enumerate(sorted(names))
        }
    )


def vpa_json(name: str, number: int) -> Json:
    """Return the VPA of a workload."""
    return make.vpa_json(
        name, target=f"StatefulSet/{name}", policies=POLICIES[number % len(POLICIES)]
    )


def story_of(recording: Recording, stays: int) -> Story:
    """Return the same history as a replay plays it; pods that are silent stay so many steps."""
    names = sorted({one.owner_name for one in recording.rows})
    objects = [make.workload_json(f"StatefulSet/{one}", labels={"app": one}) for one in names]
    objects += [vpa_json(one, number) for number, one in enumerate(names)]
    story = Story(objects)
    for at in range(recording.count):
        _tell_step(story, recording, at, stays)
    return story


def _tell_step(story: Story, recording: Recording, at: int, stays: int) -> None:
    end = datetime.fromtimestamp(recording.start, UTC) + timedelta(
        seconds=recording.step * (at + 1)
    )
    time = make.time(end)

    def tell(kind: str, row: int, **more: object) -> None:
        one = recording.rows[row]
        names = {"namespace": "default", "pod": one.pod, "container": one.container}
        story.lines.append(orjson.dumps({"time": time, "type": kind} | names | more))

    for pod, rows in _pods(recording):
        known = [_is_known(recording, rows, step) for step in range(max(at - stays, 0), at + 1)]
        if known[-1] and not any(known[:-1]):
            item = make.pod_json(
                *(make.container_json(recording.rows[row].container) for row in rows),
                name=pod,
                labels={"app": recording.rows[rows[0]].owner_name},
                owner=f"StatefulSet/{recording.rows[rows[0]].owner_name}",
                status={"phase": "Running"},
            )
            story.lines.append(orjson.dumps({"time": time, "type": "apply", "object": item}))
        if known[0] and not any(known[1:]) and len(known) > stays:
            gone = {"kind": "Pod", "namespace": "default", "name": pod}
            story.lines.append(orjson.dumps({"time": time, "type": "delete", "object": gone}))
    for row in range(len(recording.rows)):
        if recording.oom_kills[row, at] > 0:
            before = recording.memory_request[row, max(at - 1, 0)]
            request = recording.memory_request[row, at] if np.isnan(before) else before
            tell("oom", row, memory=str(int(request)))
    for row in range(len(recording.rows)):
        told = _usage(recording, row, at)
        if told:
            tell("usage", row, **told)


def _pods(recording: Recording) -> Iterator[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for row, one in enumerate(recording.rows):
        found.setdefault(one.pod, []).append(row)
    yield from found.items()


def _is_known(recording: Recording, rows: list[int], at: int) -> bool:
    return not np.isnan(recording.memory_request[rows, at]).all()


def _usage(recording: Recording, row: int, at: int) -> Json:
    cpu, memory = float(recording.cpu[row, at]), float(recording.memory[row, at])
    told: Json = {}
    if not math.isnan(cpu):
        told["cpu"] = f"{round(cpu * 1000)}m"
    if not math.isnan(memory):
        told["memory"] = f"{int(memory) // KIB}Ki"
    return told
