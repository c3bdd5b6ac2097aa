"""Jobs: pods that run until enough of them have succeeded, or too many failed; and CronJobs.

Strategy: a finalizer holds each pod until it is counted into the numbers of the status, once and
for all. As in a real cluster, a pod that is deleted before it succeeded counts as failed.
"""

from __future__ import annotations

from datetime import datetime

from app.model.fields import time_at
from app.model.times import rfc3339
from app.ports import CRON_JOBS, JOBS, PODS, Json
from app.sandbox.objects import (
    Key,
    ObjectCondition,
    condition_of,
    controller_of,
    copied,
    has_ended,
    is_active,
    is_deleted,
    is_ready,
    key_of,
    labels_of,
    member,
    owner_reference,
    seconds_since,
    set_condition,
    uid_of,
)
from app.sandbox.pod_control import Controller, PodControl
from app.sandbox.schedules import CronSchedule, zone_named

_FINALIZER = "batch.kubernetes.io/job-tracking"
_FIRST_PAUSE_SECONDS = 10.0  # after a failure
_LONGEST_PAUSE_SECONDS = 600.0
_COMPLETE = ObjectCondition(
    "Complete", "True", "CompletionsReached", "Reached expected number of pods"
)
_TOO_MANY_FAILED = ObjectCondition(
    "Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
)
_SUSPENDED = ObjectCondition("Suspended", "True", "JobSuspended", "Job suspended")
_RESUMED = ObjectCondition("Suspended", "False", "JobResumed", "Job resumed")

_MOMENT_SECONDS = 0.1  # after the time, so that it is surely over
_HISTORY = (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit"))


class Jobs(Controller):
    """The controller of Jobs."""

    resource = JOBS

    def __init__(self, control: PodControl) -> None:
        super().__init__(control)
        self._failed_at: dict[str, float] = {}  # by uid of the Job

    def look(self, key: Key) -> float | None:
        """Look also at Jobs that are gone or going: their pods wait for it."""
        job = self._control.store.read("jobs.batch", key)
        if job is not None:
            return self.move_on(job)
        self._release_orphans(key)
        return None

    def move_on(self, job: Json) -> float | None:
        """Create pods and count them."""
        pods = self.pods_of(job)
        if finished_by(job) or is_deleted(job):
            for pod in filter(_is_to_count, pods):
                self._release(pod)
            self._failed_at.pop(uid_of(job), None)
            return None if is_deleted(job) else self._expire(job)
        status = dict(job.get("status") or {})
        self._count(job, pods, status)
        active = [pod for pod in pods if is_active(pod)]
        verdict = self._verdict(job, status)
        wait: float | None = None
        try:
            if verdict is not None or job["spec"].get("suspend"):
                for pod in active:
                    self.delete_pod(job, pod)
                active = []
            else:
                wait = self._fill(job, status, len(active))
        finally:
            self._tell_status(job, status, active, verdict)
        return wait

    def _count(self, job: Json, pods: list[Json], status: Json) -> None:
        for pod in filter(_is_to_count, pods):
            key = "succeeded" if member(pod, "status.phase") == "Succeeded" else "failed"
            status[key] = (status.get(key) or 0) + 1
            if key == "failed":
                self._failed_at[uid_of(job)] = self._control.clock.monotonic()
            self._release(pod)

    def _release(self, pod: Json) -> None:
        """Let a pod go that is counted."""

        def release(item: Json) -> None:
            held = item["metadata"].get("finalizers") or ()
            item["metadata"]["finalizers"] = [found for found in held if found != _FINALIZER]

        self._control.change(PODS, pod, release)

    def _release_orphans(self, key: Key) -> None:
        """Let the pods of a Job go that is no more."""
        for pod in self._control.store.items("pods", key.namespace):
            owner = controller_of(pod)
            is_orphan = owner is None or not self._control.store.exists(owner["uid"])
            if is_orphan and labels_of(pod).get("job-name") == key.name and _is_held(pod):
                self._release(pod)

    def _verdict(self, job: Json, status: Json) -> ObjectCondition | None:
        completions = job["spec"].get("completions")
        succeeded = status.get("succeeded") or 0
        if completions is not None and succeeded >= completions:
            return _COMPLETE
        if (status.get("failed") or 0) > job["spec"]["backoffLimit"]:
            return _TOO_MANY_FAILED
        return None

    def _fill(self, job: Json, status: Json, active: int) -> float | None:
        spec = job["spec"]
        wanted = spec["parallelism"]
        if spec.get("completions") is not None:
            wanted = min(wanted, spec["completions"] - (status.get("succeeded") or 0))
        elif status.get("succeeded"):
            wanted = 0  # the others of a work queue only finish what they do
        if active >= wanted:
            return None
        failed = status.get("failed") or 0
        if failed:
            pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** (failed - 1), _LONGEST_PAUSE_SECONDS)
            since = self._control.clock.monotonic() - self._failed_at.get(uid_of(job), -pause)
            if since < pause:
                return pause - since
        held = {**(spec["template"].get("metadata") or {}), "finalizers": [_FINALIZER]}
        for _ in range(wanted - active):
            self.create_pod(job, {**spec["template"], "metadata": held})
        return None

    def _tell_status(
        self, job: Json, status: Json, active: list[Json], verdict: ObjectCondition | None
    ) -> None:
        now = self._control.clock.now()
        status["active"] = len(active)
        status["ready"] = sum(1 for pod in active if is_ready(pod))
        status.setdefault("startTime", rfc3339(now))
        draft: Json = {"status": {"conditions": list(status.get("conditions") or ())}}
        if verdict is not None:
            set_condition(draft, verdict, now)
            if verdict.type == "Complete":
                status["completionTime"] = rfc3339(now)
        elif job["spec"].get("suspend"):
            set_condition(draft, _SUSPENDED, now)
        elif condition_of(draft, _SUSPENDED.type) is not None:
            set_condition(draft, _RESUMED, now)
        if draft["status"]["conditions"]:
            status["conditions"] = draft["status"]["conditions"]
        self.set_status(job, status)

    def _expire(self, job: Json) -> float | None:
        lives = job["spec"].get("ttlSecondsAfterFinished")
        if lives is None:
            return None
        left = lives - seconds_since(finished_by(job), self._control.clock.now())
        if left > 0:
            return float(left)
        self._control.delete(JOBS, job)
        return None


def _is_held(pod: Json) -> bool:
    return _FINALIZER in (pod["metadata"].get("finalizers") or ())


def _is_to_count(pod: Json) -> bool:
    return _is_held(pod) and (is_deleted(pod) or has_ended(pod))


def finished_by(job: Json) -> Json | None:
    """Return the condition that ended a Job, None while it runs."""
    for kind in ("Complete", "Failed"):
        condition = condition_of(job, kind)
        if condition is not None and condition.get("status") == "True":
            return condition
    return None


class CronJobs(Controller):
    """The controller of CronJobs."""

    resource = CRON_JOBS

    def move_on(self, owner: Json) -> float | None:
        """Create a Job if it is time."""
        jobs = [job for job in self.owned(owner, JOBS) if not is_deleted(job)]
        self._forget_old(owner, jobs)
        running = [job for job in jobs if not finished_by(job)]
        status: Json = {}
        wait = None if owner["spec"].get("suspend") else self._start(owner, running, status)
        running = [job for job in running if self._control.store.exists(uid_of(job))]
        active = [_reference(job) for job in running]
        if active != ((owner.get("status") or {}).get("active") or []) or status:
            self.set_status(owner, {**status, "active": active})
        return wait

    def _start(self, owner: Json, running: list[Json], status: Json) -> float | None:
        spec = owner["spec"]
        schedule = CronSchedule.parse(spec["schedule"], zone_named(spec.get("timeZone")))
        now = self._control.clock.now()
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
            self.tell(owner, "JobAlreadyActive", "Not starting job")
            return
        if policy == "Replace":
            for job in running:
                self._control.delete(JOBS, job)
            running.clear()
        template = copied(owner["spec"]["jobTemplate"])
        name = f"{owner['metadata']['name']}-{int(due.timestamp() // 60)}"
        metadata = {
            **(template.get("metadata") or {}),
            "name": name,
            "ownerReferences": [owner_reference(CRON_JOBS, owner)],
        }
        body = {"metadata": metadata, "spec": template.get("spec") or {}}
        running.append(self._control.writes.create(JOBS, owner["metadata"]["namespace"], body))
        self.tell(owner, "SuccessfulCreate", f"Created job {name}")

    def _forget_old(self, owner: Json, jobs: list[Json]) -> None:
        """Delete Jobs that ended long ago, keeping the last few of each outcome."""
        for outcome, limit in _HISTORY:
            ended = [job for job in jobs if (finished_by(job) or {}).get("type") == outcome]
            ended.sort(key=lambda job: str(member(job, "status.startTime")))
            for job in ended[: max(len(ended) - int(owner["spec"].get(limit) or 0), 0)]:
                self._control.delete(JOBS, job)


def _latest(schedule: CronSchedule, due: datetime, now: datetime) -> datetime:
    """Return the last time that is over; what was missed before is not made up for."""
    following = schedule.after(due)
    while following is not None and following <= now:
        due, following = following, schedule.after(following)
    return due


def _reference(job: Json) -> Json:
    namespace, name = key_of(job)
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "name": name,
        "namespace": namespace,
        "uid": uid_of(job),
    }
