"""What happened to a pod, or to earlier pods of its name, read from Kubernetes Events.

Strategy: events are asked for by name, so of a large cluster little is read, with the rights of
the person who asks. Of a pod that exists only what the updater reported is told; of one that is
gone everything, because something else may have deleted it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from app.commands.flags import ExplainSettings
from app.diagnosis.core.pod_events import EVICTED_POD, PodEvents
from app.diagnosis.gathering import GatheredObjects, list_objects
from app.kube.client import connect
from app.kube.files import Unreadable
from app.model.fields import Json
from app.model.text import span
from app.output import Line, Piece, Tone, line
from app.ports import EVENTS, VPAS, Cluster

_MOST_EVENTS: Final = 20  # of a pod, for people
_OF_UPDATER: Final = "vpa-updater"


def past_events(
    settings: ExplainSettings,
    seen: GatheredObjects,
    namespace: str,
    texts: Sequence[str],
    problems: list[Unreadable],
) -> PodEvents:
    """Return the events about pods such as `pod/web-0`: from the files, or from the cluster."""
    pods = [text.rpartition("/")[2] for text in texts if not text.startswith("vpa/")]
    if settings.offline.objects or not pods:
        return PodEvents(seen.objects_of(EVENTS))
    reach = settings.cluster
    cluster = connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)
    try:
        return PodEvents(list(cluster_events(cluster, namespace, pods, problems)))
    finally:
        cluster.close()


def cluster_events(
    cluster: Cluster, namespace: str, pods: Sequence[str], problems: list[Unreadable]
) -> Iterator[Json]:
    """Yield the events about pods of some names; without the right to list them there is a note."""
    asked = [f"involvedObject.kind=Pod,involvedObject.name={pod}" for pod in pods]
    asked.append(f"involvedObject.kind={VPAS.kind},reason={EVICTED_POD}")
    for fields in asked:
        yield from list_objects(cluster, EVENTS, namespace, problems, fields=fields)


def nothing_found(pod: str) -> str:
    """Say where a pod that is nowhere was looked for, and where else its past may be."""
    log = f'kubectl -n kube-system logs deploy/vpa-updater | grep "pod updated" | grep {pod}'
    return (
        "If it was a pod: there is no Event about it (a cluster keeps Events for 1 h, unless its "
        f"API server has another --event-ttl); the updater's log may go further back: {log}"
    )


def past_lines(events: Sequence[Json], now: datetime, *, is_gone: bool) -> Iterator[Line]:
    """Yield what happened, the latest last."""
    left_out = len(events) - _MOST_EVENTS
    if left_out > 0:
        yield line(f"{left_out} earlier events; -o json shows them all", Tone.FAINT)
    for event in events[-_MOST_EVENTS:]:
        yield _event_line(event, now)
    if is_gone and not _has_updater(events):
        yield line(
            "None of these events is of the updater: something else evicted or deleted the pod, or "
            "the event of its eviction is gone.",
            Tone.FAINT,
        )


def _has_updater(events: Iterable[Json]) -> bool:
    return any(event.get("component") == _OF_UPDATER for event in events)


def _event_line(event: Json, now: datetime) -> Line:
    ago = span(now - datetime.fromisoformat(event["at"]))
    times = f" x{event['count']}" if "count" in event else ""
    of = f" by {event['component']}" if "component" in event else ""
    earlier = " (an earlier pod of this name)" if "earlierPod" in event else ""
    head = Piece(f"{event['at']}, {ago} ago: {event['reason']}{times}{of}{earlier}", Tone.STRONG)
    return head, Piece(f": {event['message']}")
