"""What an API server fills into pods and their templates, and what it refuses in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from app.ports import Json
from app.sandbox.objects import containers_of
from app.sandbox.refusals import Problem, duplicate, forbidden_field, required, unsupported, wrong
from app.sandbox.resources import SIDES, SIZED, problems_of, qos_class, tidy

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


def pod_problems(pod: Json, old: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with a pod, or with its change."""
    yield from spec_problems(pod["spec"], "spec")
    if old is not None and _fixed(pod["spec"]) != _fixed(old["spec"]):
        yield forbidden_field("spec", _NO_OTHER_CHANGES)


def spec_problems(spec: Json, path: str) -> Iterator[Problem]:
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


def template_problems(template: Json, path: str, policies: tuple[str, ...]) -> Iterator[Problem]:
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


def _fixed(spec: Json) -> Json:
    """Return the part of a pod spec that never changes after creation."""
    found = {key: value for key, value in spec.items() if key not in _CHANGEABLE}
    for key in ("containers", "initContainers"):
        if key in found:
            found[key] = [{**container, "image": ""} for container in found[key]]
    return found


def _pull_policy(image: str) -> str:
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"
