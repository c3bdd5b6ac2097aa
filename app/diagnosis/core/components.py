"""Which processes run, ours and upstream's, how each is called, and what mends what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from app.diagnosis.core.facts import Check, Facts, Finding, Level, Unasked, unknown
from app.model.fields import Json

ADMISSION: Final = "admission-controller"
COMPONENTS: Final = (ADMISSION, "recommender", "updater")
_UPSTREAM: Final = re.compile(rf"(?:^|/)vpa-({'|'.join(COMPONENTS)})(?:[:@-]|$)")
_OURS: Final = "plumbline"
# In its manifests and its chart anyway, and about how it is installed.
_UNTOLD: Final = (
    *("--v=", "--stderrthreshold", "--reload-cert", "--register-webhook=", "--webhook-service="),
    "--leader-elect",
)

Found = Mapping[str, list[Json]]
_HOME: Final = "kube-system"  # that the documents name
_CHART: Final = "deploy/chart"
_ARGUMENTS: Final = "/spec/template/spec/containers/0/args/-"


def of_components(facts: Facts) -> Iterator[Finding]:
    """Judge which processes run, ours and upstream's."""
    if isinstance(facts.deployments, Unasked):
        yield unknown(Check.COMPONENTS, "deployment", facts.deployments)
        return
    yield from _elsewhere(facts)
    found, theirs = by_component(facts.deployments)
    for component in COMPONENTS:
        mine, upstream = found.get(component, []), theirs.get(component, [])
        yield from (_ready(component, item) for item in mine)
        yield from (_upstream(component, item, mine) for item in upstream)
        if not mine and not upstream:
            about = f"deployment/vpa-{component}"
            told = "it was not found; it may run by other means"
            yield Finding(Check.COMPONENTS, Level.NOTE, about, told, is_absence=True)


def by_component(deployments: Sequence[Json]) -> tuple[Found, Found]:
    """Return our Deployments and upstream's, each by the process that it runs."""
    mine: dict[str, list[Json]] = {}
    theirs: dict[str, list[Json]] = {}
    for item in deployments:
        labels = item.get("metadata", {}).get("labels") or {}
        component = labels.get("app.kubernetes.io/component")
        if labels.get("app.kubernetes.io/name") == _OURS and component in COMPONENTS:
            mine.setdefault(component, []).append(item)
            continue
        for container in _containers(item):
            if found := _UPSTREAM.search(str(container.get("image"))):
                theirs.setdefault(found[1], []).append(item)
    return mine, theirs


def ours(component: str, facts: Facts) -> Sequence[Json]:
    """Return our Deployments of a process that are known, those that are looked at first."""
    known = () if isinstance(facts.deployments, Unasked) else facts.deployments
    found = by_component(known)[0].get(component, [])
    return sorted(found, key=lambda item: _place(item)[0] != facts.namespace)


def only_recommends(facts: Facts) -> bool:
    """Say whether recommendations are all that is wanted: nothing is installed that would act."""
    if isinstance(facts.deployments, Unasked):
        return False
    found = set().union(*by_component(facts.deployments))
    return found == {"recommender"} and bool(ours("recommender", facts))


def place_of(component: str, facts: Facts) -> tuple[str, str]:
    """Return the namespace of a process, and what kubectl calls it; ours goes before upstream's."""
    if not isinstance(facts.deployments, Unasked):
        _, theirs = by_component(facts.deployments)
        for item in (*ours(component, facts), *theirs.get(component, ())):
            namespace, name = _place(item)
            return namespace, f"deployment/{name}"
    return facts.namespace, f"deployment/vpa-{component}"


def logs_of(component: str, facts: Facts) -> str:
    """Return the command that shows what a process says, or that installs one if there is none."""
    namespace, about = place_of(component, facts)
    is_known = isinstance(facts.deployments, Unasked) or any(
        component in found for found in by_component(facts.deployments)
    )
    if is_known:
        return f"kubectl -n {namespace} logs {about} --tail=50"
    verb = component.partition("-")[0]
    return f"plumbline manifests {verb} | kubectl apply --server-side --force-conflicts -f -"


def _elsewhere(facts: Facts) -> Iterator[Finding]:
    """Warn if none of our processes lives in the namespace that is looked at."""
    places = {_place(item)[0] for component in COMPONENTS for item in ours(component, facts)}
    if places and facts.namespace not in places:
        for namespace in sorted(places):
            told = f"it is looked at, and our processes live in {namespace}"
            about, fix = f"namespace/{facts.namespace}", f"plumbline doctor -n {namespace}"
            yield Finding(Check.COMPONENTS, Level.WARNING, about, told, fix)


def _containers(item: Json) -> Sequence[Json]:
    spec = item.get("spec", {}).get("template", {}).get("spec", {})
    found: Sequence[Json] = spec.get("containers") or ()
    return found


def _place(item: Json) -> tuple[str, str]:
    metadata = item.get("metadata", {})
    return str(metadata.get("namespace")), str(metadata.get("name"))


def _ready(component: str, item: Json) -> Finding:
    namespace, name = _place(item)
    about = f"deployment/{name}"
    wanted = item.get("spec", {}).get("replicas", 1)
    ready = item.get("status", {}).get("availableReplicas", 0)
    if not wanted:
        told = f"the {component} is scaled to zero"
        fix = f"kubectl -n {namespace} scale {about} --replicas=1"
        return Finding(Check.COMPONENTS, Level.WARNING, about, told, fix)
    if not ready:
        told = f"no pod of the {component} is available"
        fix = f"kubectl -n {namespace} describe {about}"
        return Finding(Check.COMPONENTS, Level.SERIOUS, about, told, fix)
    return Finding(Check.COMPONENTS, Level.FINE, about, f"{ready} of {wanted} available")


def _upstream(component: str, item: Json, ours: Sequence[Json]) -> Finding:
    namespace, name = _place(item)
    about = f"deployment/{name}"
    fix = f"kubectl -n {namespace} scale {about} --replicas=0"
    if not item.get("spec", {}).get("replicas", 1):
        told = f"upstream's {component} is scaled to zero, ready for the way back"
        return Finding(Check.COMPONENTS, Level.FINE, about, told)
    if not ours:
        told = f"upstream's {component} runs, and ours does not" + _flags_told(item)
        return Finding(Check.COMPONENTS, Level.NOTE, about, told)
    if _is_aside(component, item, ours):
        told = f"upstream's {component} runs beside ours, and they do not meet"
        return Finding(Check.COMPONENTS, Level.FINE, about, told)
    told = f"upstream's {component} still runs, and does the same as ours"
    return Finding(Check.COMPONENTS, Level.SERIOUS, about, told, fix)


def _is_aside(component: str, upstream: Json, ours: Sequence[Json]) -> bool:
    """Whether two processes have agreed on who does what."""
    if component == "updater":
        return all(flag(item, "dry-run") not in ("", "false") for item in ours)
    if component == "recommender":
        theirs = flag(upstream, "recommender-name") or "default"
        return all((flag(item, "recommender-name") or "default") != theirs for item in ours)
    return False


def flag(item: Json, name: str) -> str:
    """Return the value of a flag on a Deployment's command line, empty if it is not there."""
    words = command_line(item)
    for index, word in enumerate(words):
        flag, equals, value = word.lstrip("-").partition("=")
        if flag.replace("_", "-") == name:
            following = words[index + 1 : index + 2]
            return value if equals else "".join(following) or "true"
    return ""


def command_line(item: Json) -> Sequence[str]:
    """Return the command line of a Deployment's containers."""
    return [
        str(word)
        for one in _containers(item)
        for key in ("command", "args")
        for word in one.get(key) or ()
    ]


def _flags_told(item: Json) -> str:
    """Return what a process is told, as far as it is not how upstream brings it."""
    words = command_line(item)
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    told = [word for word in words[first:] if not word.startswith(_UNTOLD)]
    return f"; give ours its flags: {' '.join(told)}" if told else ""


def with_rights(component: str, namespace: str, documents: Iterable[str], facts: Facts) -> str:
    """Return what grants a process the rights of some documents, and leaves the rest alone."""
    for item in ours(component, facts):
        if item["metadata"].get("namespace") == namespace and (release := _release(item)):
            return f"helm upgrade {release} {_CHART} -n {namespace} --reset-then-reuse-values"
    elsewhere = f" | sed 's/namespace: {_HOME}/namespace: {namespace}/'"
    moved = "" if namespace == _HOME else elsewhere
    printed = "; ".join(f"plumbline manifests {name}" for name in documents)
    printed = f"({printed})" if ";" in printed else printed
    return f"{printed}{moved} | kubectl auth reconcile -f -"


def with_flag(flag: str, value: str, facts: Facts) -> str:
    """Return what tells the webhook a flag, which in the chart is a value."""
    namespace, about = place_of(ADMISSION, facts)
    found = ours(ADMISSION, facts)
    if not found:
        return f"plumbline admission {flag}"  # started by hand, wherever it is
    if release := _release(found[0]):
        told = f"helm upgrade {release} {_CHART} -n {namespace} --reset-then-reuse-values"
        return f"{told} --set admissionController.{value}"
    operation = {"op": "add", "path": _ARGUMENTS, "value": flag}
    return f"kubectl -n {namespace} patch {about} --type=json -p '{json.dumps([operation])}'"


def _release(item: Json) -> str:
    """Return the release of a chart that an object belongs to, empty without one."""
    labels = item.get("metadata", {}).get("labels") or {}
    is_charted = labels.get("app.kubernetes.io/managed-by") == "Helm"
    return str(labels.get("app.kubernetes.io/instance")) if is_charted else ""
