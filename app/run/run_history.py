"""What was used in the cluster in memory, as a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np

from app.backtest.observed import ObservedFleet, owner_of
from app.backtest.recording import save_recording
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
_STEP_SECONDS: Final = 300
_MILLI: Final = 1000.0


class RunHistory:
    """Watches pods, and reads their usage each minute of the cluster's time."""

    def __init__(self, runtime: Runtime, cluster: Cluster) -> None:
        self._clock = runtime.clock
        self._cluster = cluster
        self._fleet = ObservedFleet()
        sources = [WatchedResource(PODS, Collection.PODS, read_pod), *watched_workloads("")]
        self._mirror = runtime.mirror(cluster, sources)
        self._mirror.listen(self._objects_changed)
        self._task = runtime.loop("history", self._look)

    @contextmanager
    def kept(self, path: Path) -> Iterator[None]:
        """Look until the block ends, and write what was seen to a file.

        Raises:
            BadSetting: it cannot be written there, or nothing was seen.
        """
        if not path.absolute().parent.is_dir():
            raise BadSetting(f"--record: there is no folder for {path}")
        self._mirror.start()
        self._task.start()
        try:
            yield
        finally:
            self._task.stop()
            self._mirror.stop()
        try:
            save_recording(self._fleet.recording(_STEP_SECONDS), path)
        except BadObject as error:
            raise BadSetting(f"--record: {error}") from None

    def _objects_changed(self, transitions: Sequence[Transition]) -> None:
        time = nanoseconds(self._clock.now())
        for found in transitions:
            if isinstance(found.after, Pod):
                view = self._mirror.snapshot.of(found.namespace)
                self._fleet.see(found.after, owner_of(found.after, view, lambda _: Absent()), time)
            elif isinstance(found.before, Pod):
                self._fleet.lose(found.namespace, found.name, time)

    def _look(self, _now: datetime) -> float:
        batch = read_metrics({"items": self._cluster.list(POD_METRICS).items})
        cores = np.where(batch.cpu_millicores < 0, np.nan, batch.cpu_millicores / _MILLI)
        memory = np.where(batch.memory_bytes < 0, np.nan, batch.memory_bytes / 1.0)
        self._fleet.use(batch.containers, batch.times, cores, memory)
        return _INTERVAL_SECONDS
