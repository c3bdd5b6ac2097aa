"""A back-test of one container in the plainest words: one step after the other, no arrays.

Strategy: the plain reference of the recommender recommends, the updater's rules are written out.
Whatever a walk counts for many containers at once must come out the same here.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from app.backtest.core.scores import Measure
from app.backtest.recording import Recording
from tests.recommender.core.reference import Reference

POD, NAME, VPA = "web-1", "app", "web"
GIB = 2**30
HOUR = 3600


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


@dataclass
class PlainWalk:
    """One container with usual rules; limits keep the ratio to requests that was recorded."""

    recording: Recording
    mode: str
    counts: Counter[Measure] = field(default_factory=Counter)
    cpu_request: int = 0  # millicores
    memory_request: int = 0  # bytes
    since: float = 0.0  # when the pod was last changed
    began: float = 0.0  # when the container began

    def __post_init__(self) -> None:
        self.reference = Reference({VPA: {"app": "web"}})
        self.recommended: dict[str, tuple[int, int, int]] = {}
        self.made = 0
        self.samples: list[tuple[int, float]] = []

    @property
    def memory_limit(self) -> int:
        """The limit in bytes, 0 without one."""
        limit = int(self.first_limit)
        if not limit:
            return 0
        return limit * self.memory_request // int(self.first_request)

    def walk(self) -> Counter[Measure]:
        """Walk to the end."""
        told = self.recording
        self.first_request = float(told.memory_request[0, 0])
        self.first_limit = float(told.memory_limit[0, 0])
        for at in range(told.count):
            now = float(told.start + told.step * (at + 1))
            if at == 0:
                self.reference.see(POD, {"app": "web"}, (NAME,), now)
                self.cpu_request = round(float(told.cpu_request[0, 0]) * 1000)
                self.memory_request = int(told.memory_request[0, 0])
                self.since = self.began = now
            self._step(at, now)
            if (at + 1) * told.step % HOUR == 0:
                self._hour(now)
        return self.counts

    def _step(self, at: int, now: float) -> None:
        told = self.recording
        cpu, memory = _known(told.cpu[0, at]), _known(told.memory[0, at])
        was_killed, limit = bool(told.oom_kills[0, at] > 0), self.memory_limit
        had = float(told.memory_limit[0, at])
        is_killed = bool(limit) and (
            (memory or 0) > limit or (was_killed and (limit <= had or not had))
        )
        request = int(told.memory_request[0, max(at - 1, 0)]) if was_killed else self.memory_request
        asks = (is_killed or was_killed) and self._kill(request, now)
        target = self._memory_target(now)
        if memory is not None:
            row = self.reference.rows[VPA, NAME]
            row.use_memory(POD, math.ceil(memory), now, is_oom=False)
            window = row.windows[POD]
            needed = _more(max(request, window.usage))
            if (is_killed or was_killed) and needed > window.oom:
                asks |= self._ask(needed, target, now)
        self._score(cpu, memory)
        if cpu is not None:
            self.samples.append((math.ceil(cpu * 1000 * (1 - 2**-22)), now))
        if is_killed:
            self.counts[Measure.KILLS] += 1
        if asks:
            found = self.reference.recommend(VPA, now).get(NAME, {})
            self.recommended |= {key: value for key, value in found.items() if key == "memory"}
        if is_killed:
            is_quick, self.began = now - self.began < 600, now
            self._update(now, is_quick=is_quick)

    def _kill(self, request: int, now: float) -> bool:
        window = self.reference.rows[VPA, NAME].windows.get(POD)
        usage = window.usage if window else 0
        oom = window.oom if window and now < (window.end or 0) else 0
        used = max(request, usage)
        needed = max(_more(used), min(_more(max(used, oom)), 2 * used))
        return self._ask(needed, self._memory_target(now), now)

    def _ask(self, needed: int, target: int, now: float) -> bool:
        if needed <= min(self.made, target):
            return False
        self.made = needed
        self.reference.rows[VPA, NAME].use_memory(POD, needed, now, is_oom=True)
        return True

    def _memory_target(self, now: float) -> int:
        found = self.reference.recommend(VPA, now).get(NAME, {})
        return found.get("memory", (0, 0, 0))[0]

    def _score(self, cpu: float | None, memory: float | None) -> None:
        hours = self.recording.step / HOUR
        for used, has, first in (
            (cpu, self.cpu_request / 1000, Measure.CPU_USED),
            (
                None if memory is None else memory / GIB,
                self.memory_request / GIB,
                Measure.MEMORY_USED,
            ),
        ):
            if used is None:
                continue
            amount = math.ceil(used * 1000 * (1 - 2**-22)) / 1000 if first == 0 else used
            _, slack, unmet, over, steps = (Measure(first + index) for index in range(5))
            self.counts[first] += amount * hours  # type: ignore[assignment]
            self.counts[slack] += max(has - amount, 0) * hours  # type: ignore[assignment]
            self.counts[unmet] += max(amount - has, 0) * hours  # type: ignore[assignment]
            self.counts[over] += amount > has
            self.counts[steps] += 1

    def _hour(self, now: float) -> None:
        for cpu, time in self.samples:
            self.reference.use(POD, NAME, cpu, None, time)
        self.samples = []
        self.recommended = dict(self.reference.recommend(VPA, now).get(NAME, {}))
        self._update(now, is_quick=False)

    def _update(self, now: float, *, is_quick: bool) -> None:
        has = {"cpu": self.cpu_request, "memory": self.memory_request}
        pairs = [(has[name], *amounts) for name, amounts in self.recommended.items()]
        if self.mode == "UpscaleOnly":
            pairs = [pair for pair in pairs if pair[1] > pair[0]]
        difference = sum(abs(target - had) / max(had, 1) for had, target, _, _ in pairs)
        is_outside = any(not had or had < lower or had > upper for had, _, lower, upper in pairs)
        at_once = (is_outside or is_quick) and difference >= 0.01
        in_time = now - self.since >= 12 * HOUR and difference >= 0.1
        if self.mode == "Initial" or not difference or not (at_once or in_time):
            return
        self.cpu_request = self.recommended.get("cpu", (self.cpu_request,))[0]
        self.memory_request = self.recommended.get("memory", (self.memory_request,))[0]
        self.since = now
        if self.mode == "InPlaceOrRecreate":
            self.counts[Measure.RESIZES] += 1
        else:
            self.counts[Measure.EVICTIONS] += 1
            self.began = now


def _more(used: int) -> int:
    return max(used + 100 * 2**20, int(used * 1.2))
