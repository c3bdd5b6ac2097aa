"""A recording of events in the form of `plumbline replay`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.backtest.observed import ObservedFleet, owner_of
from app.backtest.recording import Recording
from app.commands.replaying.changes import RecordedChange, RecordedKind
from app.commands.replaying.recorded_history import RecordedHistory
from app.commands.replaying.recorded_objects import RecordedObjects
from app.model.pods import Pod
from app.model.workloads import Lookup, LookupResult
from app.recommender.core.moments import moment

_MILLI = 1000.0


def recording_of_events(history: RecordedHistory, objects: RecordedObjects, step: int) -> Recording:
    """Return what events and objects tell, in steps of so many seconds.

    Raises:
        BadObject: there is no usage, or it makes no sense.
    """
    fleet, usage = ObservedFleet(), history.usage
    begin = history.bounds[0] if history.bounds is not None else 0

    def find(lookup: Lookup) -> LookupResult:
        return objects.find(lookup, 0.0)

    def see(pod: Pod, time: int) -> None:
        fleet.see(pod, owner_of(pod, objects.views[pod.namespace], find), time)

    for view in objects.views.values():
        for pod in view.pods.values():
            see(pod, begin)
    for one in history.events:
        change = one.what
        if not isinstance(change, RecordedChange):
            fleet.kill((change.namespace, change.pod, change.container), change.time_ns)
            continue
        objects.take(change, moment(one.time_ns))
        if change.subject is RecordedKind.POD and change.value is None:
            fleet.lose(change.namespace, change.key, one.time_ns)
        elif change.subject is RecordedKind.POD:
            see(objects.views[change.namespace].pods[change.key], one.time_ns)
    names = [usage.names[index] for index in usage.which.tolist()]
    fleet.use(names, usage.times, _known(usage.cpu, _MILLI), _known(usage.memory, 1.0))
    return fleet.recording(step)


def _known(amounts: NDArray[np.int64], unit: float) -> NDArray[np.float64]:
    return np.where(amounts < 0, np.nan, amounts / unit)
