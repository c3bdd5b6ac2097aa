"""What an API server fills into controllers and budgets, and refuses in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.ports import Json
from app.sandbox.objects import member, selector_of, uid_of
from app.sandbox.pod_rules import fill_template, template_problems
from app.sandbox.refusals import Problem, immutable, required, wrong
from app.sandbox.resources import tidy_map
from app.sandbox.schedules import BadSchedule, Schedule, zone_named

_LASTING: Final = ("Always",)
_ENDING: Final = ("OnFailure", "Never")
_ROLLING: Final[Json] = {"maxSurge": "25%", "maxUnavailable": "25%"}


def fill_deployment(item: Json) -> None:
    """Fill in what a Deployment leaves out."""
    spec = _fill_controller(item, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**_ROLLING, **(strategy.get("rollingUpdate") or {})}


def fill_replica_set(item: Json) -> None:
    """Fill in what a ReplicaSet leaves out."""
    _fill_controller(item)


def fill_replication_controller(item: Json) -> None:
    """Fill in what a ReplicationController leaves out, its selector included."""
    spec = _fill_controller(item)
    labels = member(spec, "template.metadata.labels") or {}
    spec.setdefault("selector", dict(labels))
    item["metadata"].setdefault("labels", dict(labels))


def fill_stateful_set(item: Json) -> None:
    """Fill in what a StatefulSet leaves out."""
    spec = _fill_controller(item, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {"partition": 0, **(strategy.get("rollingUpdate") or {})}


def fill_daemon_set(item: Json) -> None:
    """Fill in what a DaemonSet leaves out."""
    spec = item.setdefault("spec", {})
    _fill_pod_template(spec, "DaemonSet")
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        usual = {"maxSurge": 0, "maxUnavailable": 1}
        strategy["rollingUpdate"] = {**usual, **(strategy.get("rollingUpdate") or {})}


def fill_job(item: Json) -> None:
    """Fill in what a Job leaves out."""
    _fill_job_spec(item.setdefault("spec", {}))


def begin_job(item: Json) -> None:
    """Give a new Job the selector and the labels that make its pods its own."""
    spec, name, uid = item["spec"], item["metadata"]["name"], uid_of(item)
    if spec.get("manualSelector"):
        return
    metadata = spec["template"].setdefault("metadata", {})
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def fill_cron_job(item: Json) -> None:
    """Fill in what a CronJob leaves out."""
    spec = item.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {})
    fill_template(template.setdefault("spec", {}), "CronJob")


def fill_limit_range(item: Json) -> None:
    """Fill in what a LimitRange leaves out: defaults follow from the bounds."""
    for entry in (item.get("spec") or {}).get("limits") or ():
        for key in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
            tidy_map(entry, key, "LimitRange")
        if entry.get("type") == "Container":
            entry["default"] = {**(entry.get("max") or {}), **(entry.get("default") or {})}
            asked = entry.get("defaultRequest") or {}
            entry["defaultRequest"] = {**(entry.get("min") or {}), **entry["default"], **asked}


def controller_problems(item: Json, old: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with a controller whose pods run for ever."""
    spec = item["spec"]
    yield from template_problems(spec["template"], "spec.template", _LASTING)
    if isinstance(spec.get("replicas"), int) and spec["replicas"] < 0:
        detail = "must be greater than or equal to 0"
        yield wrong("spec.replicas", spec["replicas"], detail)
    if spec.get("selector") is None:
        yield required("spec.selector")
        return
    if item["kind"] == "ReplicationController":
        selected = dict(spec["selector"])
        labels = member(spec, "template.metadata.labels") or {}
        fits = selected.items() <= labels.items()
    else:
        labels = member(spec, "template.metadata.labels") or {}
        fits = selector_of(item).matches(labels)
    if not fits:
        detail = "`selector` does not match template `labels`"
        yield wrong("spec.template.metadata.labels", labels, detail)
    if old is not None and item["kind"] != "ReplicationController":
        yield from _fixed(item, old, "spec.selector")


def job_problems(item: Json, old: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with a Job."""
    yield from template_problems(item["spec"]["template"], "spec.template", _ENDING)
    if old is not None:
        yield from _fixed(item, old, "spec.completions", "spec.selector", "spec.template")


def cron_job_problems(item: Json, _old: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with a CronJob."""
    spec = item["spec"]
    schedule = spec.get("schedule")
    if not schedule:
        yield required("spec.schedule")
    else:
        try:
            Schedule.parse(str(schedule))
        except BadSchedule as error:
            yield wrong("spec.schedule", schedule, str(error))
    try:
        zone_named(spec.get("timeZone"))
    except BadSchedule as error:
        yield wrong("spec.timeZone", spec["timeZone"], str(error))
    path = "spec.jobTemplate.spec.template"
    yield from template_problems(spec["jobTemplate"]["spec"]["template"], path, _ENDING)


def budget_problems(item: Json, _old: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with a PodDisruptionBudget."""
    spec = item.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield wrong("spec", "object", "minAvailable and maxUnavailable cannot be both set")


def _fill_controller(item: Json, **more: object) -> Json:
    spec: Json = item.setdefault("spec", {})
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    _fill_pod_template(spec, item["kind"])
    for key, value in more.items():
        spec.setdefault(key, value)
    return spec


def _fill_pod_template(spec: Json, kind: str) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    fill_template(template.setdefault("spec", {}), kind)


def _fill_job_spec(spec: Json) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    usual = {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
    for key, value in usual.items():
        if spec.get(key) is None:
            spec[key] = value
    _fill_pod_template(spec, "Job")


def _fixed(item: Json, old: Json, *paths: str) -> Iterator[Problem]:
    for path in paths:
        if member(item, path) != member(old, path):
            yield immutable(path, member(item, path))
