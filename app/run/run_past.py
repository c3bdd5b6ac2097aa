"""What settings would have made of the history of the cluster in memory, again as it grows.

Strategy: a walk begins anew with each hour of the cluster's time, as pods may have come meanwhile;
until it is over the page shows the one before. Walks take a tenth of the time at most, so the
cluster goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.backtest.core.settings import Setting
from app.commands.page_past import RecordedPast
from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot
from app.page.core.past import WorkloadPast
from app.ports import Clock
from app.run.run_history import RunHistory

NAME: Final = "This run"
_LOOK_SECONDS: Final = 1.0
_HOUR_SECONDS: Final = 3600.0
_REST: Final = 9.0  # times as long as a walk
_NOTHING_YET: Final = WorkloadPast(
    "What other settings would have requested is shown here after an hour of the cluster's time."
)


class RunPast:
    """Walks a history under some settings whenever it is an hour longer."""

    def __init__(self, history: RunHistory, settings: Sequence[Setting], clock: Clock) -> None:
        self._history = history
        self._settings = settings
        self._clock = clock
        self._hours = 0  # that were there when the last walk began
        self._began = 0.0
        self._walking: RecordedPast | None = None
        self._shown: RecordedPast | None = None

    def tick(self, snapshot: Snapshot) -> float:
        """Walk an hour of the history, or begin again if there is more of it."""
        if self._walking is None:
            hours = int(self._history.lasts_seconds // _HOUR_SECONDS)
            if hours <= self._hours:
                return _LOOK_SECONDS
            self._hours, self._began = hours, self._clock.monotonic()
            seen = self._history.recording()
            self._walking = RecordedPast(seen, NAME, self._settings, is_growing=True)
        if not self._walking.tick(snapshot):
            return 0.0
        self._shown, self._walking = self._walking, None
        return max((self._clock.monotonic() - self._began) * _REST, _LOOK_SECONDS)

    def of(self, namespace: str, key: ObjectKey) -> WorkloadPast | None:
        """Return what is known of a workload, None if the last walk knew none like it."""
        return _NOTHING_YET if self._shown is None else self._shown.of(namespace, key)
