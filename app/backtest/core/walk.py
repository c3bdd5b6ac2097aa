"""The walk through a recording: what is known, decided and in force, step by step.

Strategy: what happens in a step is scored against what was decided before it. Kills are judged at
once: memory of the workload is estimated again, and the updater's rules look at the killed pods;
all else is decided at the end of each hour.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from app.backtest.core.blocks import Block, blocks
from app.backtest.core.days import Days
from app.backtest.core.learning import Learning, Recommended
from app.backtest.core.recorded_fleet import Fleet, RecordedWorkload, parts
from app.backtest.core.scores import GIB, Scores, Tally, killed, together
from app.backtest.core.settings import Given, Setting
from app.backtest.core.updating import THOUSANDTHS, Killed, Updating
from app.backtest.recording import Recording
from app.model.quantity import MEMORY
from app.recommender.core.histograms import Flags, Floats
from app.recommender.core.moments import SECOND, span
from app.updater.core.rules import UpdateRules

_HOUR_SECONDS: Final = 3_600.0
_MOST_ROWS: Final = 2000  # of a part
_UNITS: Final = np.array([1.0, GIB])  # from cores and bytes to what is scored


def walked(
    recording: Recording,
    settings: Sequence[Setting],
    given: Given,
    progress: Callable[[float], None],
    *,
    keeps_killed: bool = False,
) -> tuple[Scores, list[Floor]]:
    """Walk all workloads, part by part, which keeps what is worked on small.

    Returns what was counted, and what containers that were killed need if they keep it.
    """
    scores, floors, done = list[Scores](), list[Floor](), 0
    for fleet in parts(recording.rows, _MOST_ROWS):
        walk = Walk(recording, fleet, settings, given, keeps_killed=keeps_killed)
        for time_ns in walk.hours():
            share = (time_ns / SECOND - recording.start) / (recording.count * recording.step)
            progress((done + share * len(fleet.rows)) / len(recording.rows))
        scores.append(walk.scores())
        floors += walk.floors()
        done += len(fleet.rows)
    return together(scores), floors


class Kill(NamedTuple):
    """A container that was killed for memory, in the recording or under a setting."""

    setting: int
    row: int


@dataclass(frozen=True, slots=True)
class Floor:
    """What a container had that was killed for memory, and that its VPA does not ask for."""

    workload: RecordedWorkload
    container: str
    memory_bytes: int


class Walk:
    """A walk of a fleet under some settings."""

    def __init__(
        self,
        recording: Recording,
        fleet: Fleet,
        settings: Sequence[Setting],
        given: Given,
        *,
        keeps_killed: bool = False,
    ) -> None:
        """Begin; with `keeps_killed` no container is recommended less than what killed it."""
        self.recommended: list[Recommended] = []  # at the end of the last hour, by setting
        self._recording = recording
        self._given = given
        self._fleet = fleet
        self._settings = settings
        self._rules = UpdateRules()
        self._keeps_killed = keeps_killed
        self._learning = Learning(fleet, settings, given)
        self._updating = Updating(fleet, settings, given, self._rules)
        self._days = Days(recording)
        step_hours = recording.step / _HOUR_SECONDS
        requests = (recording.cpu_request, recording.memory_request)
        has_requests = [bool((~np.isnan(each)).any()) for each in requests]
        self._tally = Tally(fleet, len(settings) + 1, self._days.count, step_hours, has_requests)
        self.is_there: Flags = np.zeros(len(fleet.rows), dtype=np.bool_)  # in the last step
        self._told: Floats = np.zeros((len(fleet.rows), 4))  # requests and limits, likewise
        self._requested: Floats = np.zeros(len(fleet.rows))  # bytes in the recording, a step ago
        # Cores and GiB by setting and row; first those of the recording.
        self.in_force: Floats = np.zeros((len(settings) + 1, len(fleet.rows), 2))
        self._floors: dict[int, int] = {}  # bytes, by line
        self._last_step = recording.count - 1

    def scores(self) -> Scores:
        """Return what was counted so far."""
        return self._tally.scores()

    def floors(self) -> list[Floor]:
        """Return what containers had that were killed, if no VPA makes sure that they keep it."""
        fleet, found = self._fleet, list[Floor]()
        for line, memory in sorted(self._floors.items()):
            workload, name = fleet.workloads[fleet.line_workloads[line]], fleet.containers[line]
            policy = self._given.vpa(workload).policy(name)
            least, most = (
                one[MEMORY].milli // THOUSANDTHS if one and MEMORY in one else usual
                for one, usual in (
                    (policy and policy.min_allowed, 0),
                    (policy and policy.max_allowed, memory),
                )
            )
            if least < min(memory, most):
                found.append(Floor(workload, name, min(memory, most)))
        return found

    def hours(self) -> Iterator[int]:
        """Walk, and yield each time at which all was decided."""
        for block in blocks(self._recording, self._fleet):
            for step in range(len(block.times)):
                self._step(block, step)
            self._learning.learn_cpu(block)
            now_ns = int(block.times[-1])
            self._decide(block, now_ns)
            yield now_ns

    def _step(self, block: Block, step: int) -> None:
        time_ns, is_there = int(block.times[step]), block.is_there[step]
        self._learning.see(is_there, time_ns)
        self._take_pods(block, step, time_ns)
        self.is_there = is_there
        kills = killed(block, step, self._updating.limits[..., 1] / THOUSANDTHS)
        found = [Kill(*pair) for pair in np.argwhere(kills + block.kills[step] > 0).tolist()]
        asking = {one for one in found if self._learn_kill(one, block, step)}
        targets = [self._learning.target(*one, time_ns) for one in found]
        self._learning.learn_memory(block.memory[step], time_ns)
        for kill, target in zip(found, targets, strict=True):
            requested = self._requested_by(kill, block, step)
            if self._learning.amend(*kill, requested, time_ns, target):
                asking.add(kill)
        self.in_force[0] = block.requests[step] / _UNITS
        self._tally.count(block, step, self.in_force)
        self._tally.count_kills(np.concatenate([block.kills[step][None], kills]))
        self._answer([one for one in found if kills[one]], asking, is_there, time_ns)
        self._requested = block.requests[step][:, 1]
        self._end_day(block.first + step)

    def _take_pods(self, block: Block, step: int, time_ns: int) -> None:
        """Let pods begin, and be as they were changed in the recording."""
        requests, limits, is_there = block.requests[step], block.limits[step], block.is_there[step]
        told = np.concatenate([requests, limits], axis=1)
        is_other = is_there & (~self.is_there | (told != self._told).any(axis=1))
        self._told = told
        if is_other.any():
            self._updating.take(np.unique(self._fleet.pods[is_other]), requests, limits, time_ns)
            self._put_in_force()

    def _put_in_force(self) -> None:
        self.in_force[1:] = self._updating.requests / THOUSANDTHS / _UNITS

    def _end_day(self, step: int) -> None:
        """Sum up the day that ends with a step of the recording, if one does."""
        day = self._days.of(step)
        if day != self._days.of(step + 1) or step == self._last_step:
            self._tally.end_day(day, self._updating.resizes, self._updating.evictions)
            self._updating.resizes[:] = 0
            self._updating.evictions[:] = 0

    # --- kills

    def _learn_kill(self, kill: Kill, block: Block, step: int) -> bool:
        """Let a setting learn of a kill; tell whether it asks for more memory."""
        setting, row = kill
        if self._keeps_killed and block.kills[step][row]:
            line, had = int(self._fleet.lines[row]), int(block.limits[step][row, 1])
            used = int(block.memory[step][row])
            memory = max(had, int(self._requested[row]), used, self._floors.get(line, 0))
            self._floors[line] = memory
            self._learning.raise_least(setting, line, memory)
        requested = self._requested_by(kill, block, step)
        return self._learning.learn_kill(setting, row, requested, int(block.times[step]))

    def _requested_by(self, kill: Kill, block: Block, step: int) -> int:
        """Return the bytes that a killed container requested, as its recommender knew them."""
        setting, row = kill
        if not block.kills[step][row]:
            return int(self._updating.requests[setting, row, 1]) // THOUSANDTHS
        return int(self._requested[row] or block.requests[step][row, 1])

    def _answer(
        self, kills: Sequence[Kill], asking: Collection[Kill], is_there: Flags, time_ns: int
    ) -> None:
        """Recommend memory again where a kill asks for more, and let the updater look at once."""
        fleet, updating = self._fleet, self._updating
        workloads = {(one.setting, int(fleet.workload_of(one.row))) for one in asking}
        for setting, workload in sorted(workloads):
            found = self._learning.recommend(setting, time_ns, workload)
            updating.publish_memory(setting, found)
        within_ns = span(self._rules.quick_oom_within)
        for setting in sorted({one.setting for one in kills}):
            rows = np.array([one.row for one in kills if one.setting == setting])
            is_quick = time_ns - updating.began[setting, rows] < within_ns
            pods = fleet.pods[rows]
            updating.began[setting, rows] = time_ns
            updating.update(setting, is_there, time_ns, Killed(pods, pods[is_quick]))
        if kills:
            self._put_in_force()

    # --- hours

    def _decide(self, block: Block, now_ns: int) -> None:
        self._learning.tidy(now_ns)
        is_there = block.is_there[-1]
        self.recommended = [
            self._learning.recommend(setting, now_ns) for setting in range(len(self._settings))
        ]
        for setting, found in enumerate(self.recommended):
            self._updating.publish(setting, found)
            self._updating.update(setting, is_there, now_ns)
        self._put_in_force()
