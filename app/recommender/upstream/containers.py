"""A running container: which samples were counted, and the running memory interval."""

from __future__ import annotations

from collections.abc import Callable

from app.recommender.core.moments import UNSET
from app.recommender.core.oom import needed_memory
from app.recommender.upstream.aggregates import Aggregate


class ContainerState:
    """One container of one pod."""

    def __init__(self, aggregate: Callable[[], Aggregate]) -> None:
        self.aggregate = aggregate  # asked at every use: it may have been collected meanwhile
        self.last_cpu_ns = UNSET
        self.last_memory_ns = UNSET
        self.end_ns = UNSET
        self.usage_bytes = 0
        self.oom_bytes = 0

    @property
    def peak_bytes(self) -> int:
        """The highest peak of the running interval."""
        return max(self.usage_bytes, self.oom_bytes)

    def use_cpu(self, millicores: int, time_ns: int) -> bool:
        """Count a CPU sample; tell whether it counted."""
        if millicores < 0 or time_ns <= self.last_cpu_ns:
            return False
        self.aggregate().add_cpu(millicores, time_ns)
        self.last_cpu_ns = time_ns
        return True

    def use_memory(self, memory_bytes: int, time_ns: int, *, is_oom: bool = False) -> bool:
        """Count a memory sample; tell whether it counted."""
        if memory_bytes < 0 or (not is_oom and time_ns < self.last_memory_ns):
            return False
        self.last_memory_ns = time_ns
        if self.end_ns == UNSET:
            self.end_ns = time_ns
        if time_ns < self.end_ns:
            old = self.peak_bytes
            if old == 0 or memory_bytes <= old:
                return True
            self.aggregate().take_peak(old, self.end_ns)
        else:
            interval_ns = self.aggregate().settings.interval_ns
            self.end_ns += (time_ns - self.end_ns) // interval_ns * interval_ns + interval_ns
            self.usage_bytes = self.oom_bytes = 0
        self.aggregate().add_peak(memory_bytes, self.end_ns)
        if is_oom:
            self.oom_bytes = memory_bytes
        else:
            self.usage_bytes = memory_bytes
        return True

    def kill(self, memory_bytes: int, time_ns: int) -> bool:
        """Count an OOM kill; tell whether it counted."""
        settings = self.aggregate().settings
        if self.last_memory_ns != UNSET and time_ns < self.last_memory_ns - settings.interval_ns:
            return False
        return self.use_memory(self.needed(memory_bytes), time_ns, is_oom=True)

    def needed(self, memory_bytes: int) -> int:
        """Return how much would have been enough for a container that had so much."""
        settings = self.aggregate().settings
        return needed_memory(
            memory_bytes,
            self.usage_bytes,
            ratio=settings.bump_up_ratio,
            bump_bytes=settings.min_bump_up_bytes,
        )
