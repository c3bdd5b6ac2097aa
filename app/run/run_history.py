"""What was used in the cluster in memory, as a recording.

Strategy: pods and their usage are watched by the thread that moves the time; a recording is laid
out by whoever asks for one, of a copy. Unless all of it goes to a file, what is older than a week
is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np

from app.backtest.observed import ObservedFleet, owner_of
from app.backtest.recording import Recording
from app.backtest.recording_file import save_recording
from app.kube.watch_cache import Transition
from app.kube.watched_resources import WatchedResource, watched_workloads
from app.model.errors import BadObject, BadSetting
from app.model.pods import Pod, read_pod
from app.model.snapshot import Collection
from app.model.workloads import Absent
from app.ports import POD_METRICS, PODS, Cluster
from app.recommender.core.moments import nanoseconds
from app.recommender.core.usage import read_metrics
from app.runtime.live import Runtime

_INTERVAL_SECONDS: Final = 60.0
_FORGET_SECONDS: Final = 3600.0
STEP_SECONDS: Final = 300
KEPT: Final = timedelta(days=7)
_MILLI: Final = 1000.0


class RunHistory:
    """Watches pods, and reads their usage each minute of the cluster's time."""

    def __init__(self, runtime: Runtime, cluster: Cluster, file: Path | None = None) -> None:
        """Begin with nothing; all that is seen will be written to a file, if one is named.

        Raises:
            BadSetting: it cannot be written there.
        """
        if file is not None and not file.absolute().parent.is_dir():
            raise BadSetting(f"--record: there is no folder for {file}")
        self._clock = runtime.clock
        self._cluster = cluster
        self._file = file
        self._fleet = ObservedFleet()
        self._lock = Lock()
        sources = [WatchedResource(PODS, Collection.PODS, read_pod), *watched_workloads("")]
        self._mirror = runtime.mirror(cluster, sources)
        self._mirror.listen(self._objects_changed)
        self._looking = runtime.loop("history", self._look)
        self._forgetting = runtime.loop("forgetting", self._forget)
        self._began: datetime | None = None
        self.lasts_seconds = 0.0  # from the first look to the last one

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look until the block ends, and write what was seen if a file was named.

        Raises:
            BadSetting: it cannot be written, or nothing was seen.
        """
        loops = [self._looking, *([self._forgetting] if self._file is None else [])]
        self._mirror.start()
        for loop in loops:
            loop.start()
        try:
            yield
        finally:
            for loop in loops:
                loop.stop()
            self._mirror.stop()
        if self._file is None:
            return
        try:
            save_recording(self._fleet.recording(STEP_SECONDS), self._file)
        except BadObject as error:
            raise BadSetting(f"--record: {error}") from None

    def recording(self) -> Recording:
        """Return what was seen so far; for other threads.

        Raises:
            BadObject: there is nothing yet.
        """
        with self._lock:
            seen = self._fleet.copy()
        return seen.recording(STEP_SECONDS)

    def _objects_changed(self, transitions: Sequence[Transition]) -> None:
        time = nanoseconds(self._clock.now())
        with self._lock:
            for found in transitions:
                if isinstance(found.after, Pod):
                    view = self._mirror.snapshot.of(found.namespace)
                    owner = owner_of(found.after, view, lambda _: Absent())
                    self._fleet.see(found.after, owner, time)
                elif isinstance(found.before, Pod):
                    self._fleet.lose(found.namespace, found.name, time)

    def _look(self, now: datetime) -> float:
        batch = read_metrics({"items": self._cluster.list(POD_METRICS).items})
        cores = np.where(batch.cpu_millicores < 0, np.nan, batch.cpu_millicores / _MILLI)
        memory = np.where(batch.memory_bytes < 0, np.nan, batch.memory_bytes / 1.0)
        with self._lock:
            self._fleet.use(batch.containers, batch.times, cores, memory)
        self._began = self._began or now
        self.lasts_seconds = (now - self._began).total_seconds()
        return _INTERVAL_SECONDS

    def _forget(self, now: datetime) -> float:
        with self._lock:
            self._fleet.forget(nanoseconds(now - KEPT))
        return _FORGET_SECONDS
