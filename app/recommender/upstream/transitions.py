"""OOM kills as upstream sees them: in transitions between two states of a pod, and only there."""

from __future__ import annotations

from app.model.pods import Pod
from app.recommender.core.oom import OomRecord, kill_record, was_killed


def kills_by_transition(before: Pod | None, after: Pod) -> list[OomRecord]:
    """Return the kills that upstream sees between two states of a pod."""
    found = []
    for status in after.statuses:
        old = before.status(status.name) if before is not None else None
        if before is None or old is None:
            continue
        restarted = status.restart_count > old.restart_count
        if was_killed(status.terminated) and (old.terminated is None or restarted):
            found.append(kill_record(after, status.name, status.terminated, after))
        elif (
            status.is_running
            and old.is_running
            and restarted
            and was_killed(status.last_terminated)
        ):
            found.append(kill_record(after, status.name, status.last_terminated, before))
    return found
