"""What an API server fills into pods, controllers and budgets, and what it refuses in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from app.ports import Json
from app.sandbox.objects import containers_of, member, selector_of, uid_of
from app.sandbox.refusals import (
    FieldProblem,
    duplicate,
    forbidden_field,
    immutable,
    required,
    unsupported,
    wrong,
)
from app.sandbox.resources import SIDES, SIZED, problems_of, qos_class, tidy, tidy_map
from app.sandbox.schedules import BadSchedule, CronSchedule, zone_named

_SPEC_DEFAULTS: Final[Json] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_CONTAINER_DEFAULTS: Final[Json] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final[Json] = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_CHANGEABLE: Final = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NO_LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_NO_OTHER_CHANGES: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)

_LASTING: Final = ("Always",)
_ENDING: Final = ("OnFailure", "Never")


def fill_template(spec: Json, kind: str) -> None:
    """Fill in what a pod template leaves out."""
    for key, value in _SPEC_DEFAULTS.items():
        spec.setdefault(key, value)
    spec.setdefault("securityContext", {})
    for _, container in containers_of(spec):
        for key, value in _CONTAINER_DEFAULTS.items():
            container.setdefault(key, value)
        container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
        if not isinstance(container.get("resources"), dict):
            container["resources"] = {}
        tidy(container, kind)
        for probe in _PROBES:
            if isinstance(container.get(probe), dict):
                container[probe] = {**_PROBE_DEFAULTS, **container[probe]}


def fill_pod(pod: Json) -> None:
    """Fill in what a pod leaves out: also requests where there are limits, and resize policies."""
    spec = pod.setdefault("spec", {})
    fill_template(spec, "Pod")
    spec.setdefault("enableServiceLinks", True)
    for _, container in containers_of(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        _fill_resize_policy(container)


def begin_pod(pod: Json) -> None:
    """Give a new pod its first status."""
    spec = pod["spec"]
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}


def pod_problems(pod: Json, old: Json | None) -> Iterator[FieldProblem]:
    """Yield what is wrong with a pod, or with its change."""
    yield from spec_problems(pod["spec"], "spec")
    if old is not None and _lasting(pod["spec"]) != _lasting(old["spec"]):
        yield forbidden_field("spec", _NO_OTHER_CHANGES)


def spec_problems(spec: Json, path: str) -> Iterator[FieldProblem]:
    """Yield what is wrong with a pod spec, also of a template."""
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        choices = ("Always", "OnFailure", "Never")
        yield unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), choices)
    names: set[str] = set()
    for place, container in containers_of(spec):
        at = f"{path}.{place}"
        name = str(container.get("name") or "")
        if not name:
            yield required(f"{at}.name")
        elif not _DNS_LABEL.fullmatch(name):
            yield wrong(f"{at}.name", name, _NO_LABEL)
        elif name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        if not container.get("image"):
            yield required(f"{at}.image")
        yield from problems_of(container, at)


def template_problems(
    template: Json, path: str, policies: tuple[str, ...]
) -> Iterator[FieldProblem]:
    """Yield what is wrong with a pod template whose pods may be restarted so."""
    spec = template.get("spec") or {}
    yield from spec_problems(spec, f"{path}.spec")
    if spec.get("restartPolicy") not in policies:
        yield unsupported(f"{path}.spec.restartPolicy", spec.get("restartPolicy"), policies)


def _fill_resize_policy(container: Json) -> None:
    policy = list(container.get("resizePolicy") or ())
    spoken = {entry.get("resourceName") for entry in policy}
    sized = {name for side in SIDES for name in container["resources"].get(side) or ()}
    policy.extend(
        {"resourceName": name, "restartPolicy": "NotRequired"}
        for name in SIZED
        if name in sized and name not in spoken
    )
    if policy:
        container["resizePolicy"] = policy
    else:
        container.pop("resizePolicy", None)


def _lasting(spec: Json) -> Json:
    """Return the part of a pod spec that never changes after creation."""
    found = {key: value for key, value in spec.items() if key not in _CHANGEABLE}
    for key in ("containers", "initContainers"):
        if key in found:
            found[key] = [{**container, "image": ""} for container in found[key]]
    return found


def _pull_policy(image: str) -> str:
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"


def fill_deployment(item: Json) -> None:
    """Fill in what a Deployment leaves out."""
    spec = fill_controller(item, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    _fill_strategy(spec, "strategy", maxSurge="25%", maxUnavailable="25%")


def fill_replication_controller(item: Json) -> None:
    """Fill in what a ReplicationController leaves out, its selector included."""
    spec = fill_controller(item)
    labels = member(spec, "template.metadata.labels") or {}
    spec.setdefault("selector", dict(labels))
    item["metadata"].setdefault("labels", dict(labels))


def fill_stateful_set(item: Json) -> None:
    """Fill in what a StatefulSet leaves out."""
    spec = fill_controller(item, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    _fill_strategy(spec, "updateStrategy", partition=0)


def fill_daemon_set(item: Json) -> None:
    """Fill in what a DaemonSet leaves out."""
    spec = item.setdefault("spec", {})
    _fill_pod_template(spec, "DaemonSet")
    spec.setdefault("revisionHistoryLimit", 10)
    _fill_strategy(spec, "updateStrategy", maxSurge=0, maxUnavailable=1)


def fill_job(item: Json) -> None:
    """Fill in what a Job leaves out."""
    spec = item.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    usual = {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
    for key, value in usual.items():
        if spec.get(key) is None:
            spec[key] = value
    _fill_pod_template(spec, "Job")


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


def controller_problems(item: Json, old: Json | None) -> Iterator[FieldProblem]:
    """Yield what is wrong with a controller whose pods run for ever."""
    spec = item["spec"]
    yield from template_problems(spec["template"], "spec.template", _LASTING)
    if isinstance(spec.get("replicas"), int) and spec["replicas"] < 0:
        detail = "must be greater than or equal to 0"
        yield wrong("spec.replicas", spec["replicas"], detail)
    if spec.get("selector") is None:
        yield required("spec.selector")
        return
    labels = member(spec, "template.metadata.labels") or {}
    if not selector_of(item).matches(labels):
        detail = "`selector` does not match template `labels`"
        yield wrong("spec.template.metadata.labels", labels, detail)
    if old is not None and item["kind"] != "ReplicationController":
        yield from _fixed(item, old, "spec.selector")


def job_problems(item: Json, old: Json | None) -> Iterator[FieldProblem]:
    """Yield what is wrong with a Job."""
    yield from template_problems(item["spec"]["template"], "spec.template", _ENDING)
    if old is not None:
        yield from _fixed(item, old, "spec.completions", "spec.selector", "spec.template")


def cron_job_problems(item: Json, _old: Json | None) -> Iterator[FieldProblem]:
    """Yield what is wrong with a CronJob."""
    spec = item["spec"]
    schedule = spec.get("schedule")
    if not schedule:
        yield required("spec.schedule")
    else:
        try:
            CronSchedule.parse(str(schedule))
        except BadSchedule as error:
            yield wrong("spec.schedule", schedule, str(error))
    try:
        zone_named(spec.get("timeZone"))
    except BadSchedule as error:
        yield wrong("spec.timeZone", spec["timeZone"], str(error))
    path = "spec.jobTemplate.spec.template"
    yield from template_problems(spec["jobTemplate"]["spec"]["template"], path, _ENDING)


def budget_problems(item: Json, _old: Json | None) -> Iterator[FieldProblem]:
    """Yield what is wrong with a PodDisruptionBudget."""
    spec = item.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield wrong("spec", "object", "minAvailable and maxUnavailable cannot be both set")


def fill_controller(item: Json, **more: object) -> Json:
    """Fill in what a controller leaves out; return its spec."""
    spec: Json = item.setdefault("spec", {})
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    _fill_pod_template(spec, item["kind"])
    for key, value in more.items():
        spec.setdefault(key, value)
    return spec


def _fill_strategy(spec: Json, key: str, **usual: object) -> None:
    strategy = spec.setdefault(key, {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**usual, **(strategy.get("rollingUpdate") or {})}


def _fill_pod_template(spec: Json, kind: str) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    fill_template(template.setdefault("spec", {}), kind)


def _fixed(item: Json, old: Json, *paths: str) -> Iterator[FieldProblem]:
    for path in paths:
        if member(item, path) != member(old, path):
            yield immutable(path, member(item, path))
