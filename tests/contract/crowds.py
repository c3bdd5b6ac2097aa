"""Pods that run by their status alone, which a test writes.

Their controllers believe it; no kubelet contradicts, for they have no node.
"""

from __future__ import annotations

from app.model.errors import NotFound
from app.ports import PODS, Json, Resource
from tests.contract.building import NOBODY, template
from tests.contract.space import Space

READY: Json = {
    "phase": "Running",
    "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ],
}


def idle(**spec: object) -> Json:
    """Return a pod template whose pods get no node."""
    return template(schedulerName=NOBODY, **spec)


def job(name: str = "work", **spec: object) -> Json:
    """A Job of idle pods."""
    return {"metadata": {"name": name}, "spec": {"template": idle(restartPolicy="Never"), **spec}}


def cron_job(name: str, spec: Json, template: Json | None = None) -> Json:
    """A CronJob, by default of each minute, of idle pods or of others."""
    made = {"template": template} if template else job()["spec"]
    body = {"schedule": "* * * * *", "jobTemplate": {"spec": made}, **spec}
    return {"metadata": {"name": name}, "spec": body}


class Pods(Space):
    """The pods of a namespace."""

    def all(self) -> list[Json]:
        """All that are not on their way out."""
        items = self.items(PODS)
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def names(self) -> list[str]:
        """Their names."""
        return [item["metadata"]["name"] for item in self.all()]

    def say(self, name: str, status: Json) -> None:
        """Say something of a pod, if it is still there."""
        try:
            self.merge(PODS, name, {"status": status}, "status")
        except NotFound:
            return

    def run(self) -> int:
        """Say of all pods that run that they are Ready; return how many there are."""
        found = self.all()
        for item in found:
            if item["status"].get("phase") == "Pending":
                self.say(item["metadata"]["name"], READY)
        return len(found)

    def await_count(self, number: int) -> list[Json]:
        """Wait until there are so many."""
        self.eventually(lambda: len(self.all()) == number)
        return self.all()

    def await_running(self, number: int) -> None:
        """Let all pods run until there are so many."""
        self.eventually(lambda: self.run() == number)

    def await_status(self, resource: Resource, name: str, **wanted: object) -> Json:
        """Let all pods run until the status of their controller says what is wanted."""

        def status() -> Json | None:
            self.run()
            found: Json = self.get(resource, name).get("status", {})
            return found if {key: found.get(key) for key in wanted} == wanted else None

        return self.eventually(status)
