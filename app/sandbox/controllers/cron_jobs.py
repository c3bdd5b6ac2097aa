"""CronJobs: a Job whenever it is time."""

from __future__ import annotations

from datetime import datetime

from app.model.fields import time_at
from app.model.times import rfc3339
from app.ports import CRON_JOBS, JOBS, Json
from app.sandbox.controllers.hands import Hands
from app.sandbox.controllers.jobs import finished_by, has_finished
from app.sandbox.objects import (
    Key,
    copied,
    is_deleted,
    key_of,
    member,
    owner_reference,
    uid_of,
)
from app.sandbox.schedules import Schedule, zone_named

_MOMENT_SECONDS = 0.1  # after the time, so that it is surely over
_HISTORY = (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit"))


class CronJobs:
    """The controller of CronJobs."""

    resource = CRON_JOBS

    def __init__(self, hands: Hands) -> None:
        self._hands = hands

    def look(self, key: Key) -> float | None:
        """Create a Job if it is time; return after how many seconds to look again."""
        owner = self._hands.store.read("cronjobs.batch", key)
        if owner is None or is_deleted(owner):
            return None
        jobs = [job for job in self._hands.owned(owner, JOBS) if not is_deleted(job)]
        self._forget_old(owner, jobs)
        running = [job for job in jobs if not has_finished(job)]
        status: Json = {}
        wait = None if owner["spec"].get("suspend") else self._start(owner, running, status)
        running = [job for job in running if self._hands.store.exists(uid_of(job))]
        active = [_reference(job) for job in running]
        if active != ((owner.get("status") or {}).get("active") or []) or status:
            self._hands.set_status(CRON_JOBS, owner, {**status, "active": active})
        return wait

    def _start(self, owner: Json, running: list[Json], status: Json) -> float | None:
        spec = owner["spec"]
        schedule = Schedule.parse(spec["schedule"], zone_named(spec.get("timeZone")))
        now = self._hands.clock.now()
        last = time_at(owner.get("status") or {}, "lastScheduleTime", "") or time_at(
            owner["metadata"], "creationTimestamp", ""
        )
        due = schedule.after(last or now)
        if due is not None and due <= now:
            due = _latest(schedule, due, now)
            self._run(owner, running, due)
            status["lastScheduleTime"] = rfc3339(due)
        upcoming = schedule.after(now)
        return (upcoming - now).total_seconds() + _MOMENT_SECONDS if upcoming else None

    def _run(self, owner: Json, running: list[Json], due: datetime) -> None:
        policy = owner["spec"].get("concurrencyPolicy")
        if running and policy == "Forbid":
            self._hands.tell(CRON_JOBS, owner, "JobAlreadyActive", "Not starting job")
            return
        if policy == "Replace":
            for job in running:
                self._hands.delete(JOBS, job)
            running.clear()
        template = copied(owner["spec"]["jobTemplate"])
        name = f"{owner['metadata']['name']}-{int(due.timestamp() // 60)}"
        metadata = {
            **(template.get("metadata") or {}),
            "name": name,
            "ownerReferences": [owner_reference(CRON_JOBS, owner)],
        }
        body = {"metadata": metadata, "spec": template.get("spec") or {}}
        kind = self._hands.catalogue.find(JOBS)
        running.append(self._hands.writes.create(kind, owner["metadata"]["namespace"], body))
        self._hands.tell(CRON_JOBS, owner, "SuccessfulCreate", f"Created job {name}")

    def _forget_old(self, owner: Json, jobs: list[Json]) -> None:
        """Delete Jobs that ended long ago, keeping the last few of each outcome."""
        for outcome, limit in _HISTORY:
            ended = [job for job in jobs if (finished_by(job) or {}).get("type") == outcome]
            ended.sort(key=lambda job: str(member(job, "status.startTime")))
            for job in ended[: max(len(ended) - int(owner["spec"].get(limit) or 0), 0)]:
                self._hands.delete(JOBS, job)


def _latest(schedule: Schedule, due: datetime, now: datetime) -> datetime:
    """Return the last time that is over; what was missed before is not made up for."""
    following = schedule.after(due)
    while following is not None and following <= now:
        due, following = following, schedule.after(following)
    return due


def _reference(job: Json) -> Json:
    name, namespace = key_of(job).name, key_of(job).namespace
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "name": name,
        "namespace": namespace,
        "uid": uid_of(job),
    }
