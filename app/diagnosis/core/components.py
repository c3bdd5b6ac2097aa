"""Which processes run, ours and upstream's, how each is called, and whether they do their work.

Strategy: what they leave behind is looked at: certificates, Leases, and the source of metrics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from app.admission.core.rotation import defect
from app.diagnosis.core.facts import Check, Facts, Finding, Level, Unasked, unknown
from app.model.errors import BadObject
from app.model.fields import Json, object_at, time_at
from app.model.text import span

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

HEARTBEAT: Final = "vpa-admission-controller"
# By process; upstream's charts and manifests do not agree on one name.
LEADERS: Final = {
    "recommender": ("vpa-recommender-lease", "vpa-recommender"),
    "updater": ("vpa-updater", "vpa-updater-lease"),
}
_FRESH: Final = timedelta(minutes=1)
_DEAD: Final = timedelta(minutes=2)
_SOON: Final = timedelta(days=7)
_NEWS: Final = timedelta(minutes=5)
_AHEAD: Final = timedelta(seconds=5)
_METRICS_SERVER: Final = (
    "kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/"
    "components.yaml"
)


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


def of_certificate(facts: Facts) -> Iterator[Finding]:
    """Judge the certificate that the webhook serves."""
    found, about = facts.certificate, f"secret/{facts.secret}"
    if isinstance(found, Unasked):
        yield unknown(Check.CERTIFICATE, about, found)
        return
    if found is None:
        told = "there is none; it may be given by other means"
        yield Finding(Check.CERTIFICATE, Level.NOTE, about, told, is_absence=True)
        return
    fix = _certificate_fix(about, facts)
    if trouble := defect(found, facts.now):
        yield Finding(Check.CERTIFICATE, Level.SERIOUS, about, trouble, fix)
    elif found.missing_names:
        told = f"it is not made out to {', '.join(found.missing_names)}"
        yield Finding(Check.CERTIFICATE, Level.SERIOUS, about, told, fix)
    elif found.not_after - facts.now < _SOON:
        told = f"it expires in {span(found.not_after - facts.now)}, and nobody renewed it"
        yield Finding(Check.CERTIFICATE, Level.WARNING, about, told, fix)
    else:
        told = f"good for another {span(found.not_after - facts.now)}"
        yield Finding(Check.CERTIFICATE, Level.FINE, about, told)


def _certificate_fix(about: str, facts: Facts) -> str:
    """Return what makes another certificate; of one that is given, what tells whose it is."""
    if facts.is_given:
        return f"kubectl -n {facts.namespace} describe {about}"
    namespace, process = place_of(ADMISSION, facts)
    return (
        f"kubectl -n {facts.namespace} delete {about} && "
        f"kubectl -n {namespace} rollout restart {process}"
    )


def of_leases(facts: Facts) -> Iterator[Finding]:
    """Judge who gives a sign of life."""
    if isinstance(facts.leases, Unasked):
        yield unknown(Check.LEASES, "lease", facts.leases)
        return
    known = {str(item.get("metadata", {}).get("name")): item for item in facts.leases}
    yield _heartbeat(known.get(HEARTBEAT), facts)
    for component, names in LEADERS.items():
        leases = {name: known[name] for name in names if name in known}
        yield from _leaders(component, leases, facts)


def _heartbeat(item: Json | None, facts: Facts) -> Finding:
    about, fix = f"lease/{HEARTBEAT}", logs_of(ADMISSION, facts)
    if item is None and only_recommends(facts):
        told = "there is no webhook to give a sign, and no updater that waits for it"
        return Finding(Check.LEASES, Level.NOTE, about, told)
    if item is None:
        told = "the webhook never gave a sign, so the updater evicts nobody"
        return Finding(Check.LEASES, Level.SERIOUS, about, told, fix, is_absence=True)
    renewed = _renewed(item)
    if renewed is None or facts.now - renewed > _FRESH:
        ago = "an unknown time" if renewed is None else span(facts.now - renewed)
        told = f"the webhook gave its last sign {ago} ago, so the updater evicts nobody"
        return Finding(Check.LEASES, Level.SERIOUS, about, told, fix)
    if renewed - facts.now > _AHEAD:
        told = f"it was renewed {span(renewed - facts.now)} from now: a node's clock is ahead"
        return Finding(Check.LEASES, Level.WARNING, about, told, "chronyc tracking  # on its node")
    ago = span(max(facts.now - renewed, timedelta()))
    return Finding(Check.LEASES, Level.FINE, about, f"renewed {ago} ago")


def _leaders(component: str, leases: Mapping[str, Json], facts: Facts) -> Iterator[Finding]:
    """Judge who leads; who led before another took over is only noted, however that was done."""
    held = {
        name: (item["spec"]["holderIdentity"], facts.now - renewed)
        for name, item in leases.items()
        if item.get("spec", {}).get("holderIdentity") and (renewed := _renewed(item)) is not None
    }
    is_led = any(ago <= _DEAD for _, ago in held.values())
    for name, (holder, ago) in held.items():
        about, away = f"lease/{name}", f"kubectl -n {facts.namespace} delete lease/{name}"
        if ago <= _DEAD:
            yield Finding(Check.LEASES, Level.FINE, about, f"{holder} leads")
        elif is_led or _works_alone(component, facts):
            how = "leads by another Lease" if is_led else f"is the only {component}, without one"
            told = f"{holder} led {span(ago)} ago; somebody {how}"
            yield Finding(Check.LEASES, Level.NOTE, about, told, away)
        else:
            told = f"{holder} led, and gave its last sign {span(ago)} ago; nobody took over"
            fix = f"kubectl -n {facts.namespace} get pods -l app.kubernetes.io/name=plumbline"
            yield Finding(Check.LEASES, Level.SERIOUS, about, told, fix, is_absence=True)


def _works_alone(component: str, facts: Facts) -> bool:
    """Say whether the process runs without an election, as far as it is known."""
    found = ours(component, facts)
    return bool(found) and all(flag(one, "leader-elect") in ("", "false") for one in found)


def _renewed(item: Json) -> datetime | None:
    try:
        return time_at(object_at(item, "spec", ""), "renewTime", "spec")
    except BadObject:
        return None


def of_metrics(facts: Facts) -> Iterator[Finding]:
    """Judge where usage comes from."""
    found, about = facts.metrics, "apiservice/v1beta1.metrics.k8s.io"
    if isinstance(found, Unasked):
        yield _without_metrics(about, found, facts)
        return
    times = [moment for item in found if (moment := _timestamp(item)) is not None]
    if not times:
        told = "it answers, and knows of no pod"
        yield Finding(Check.METRICS, Level.WARNING, about, told, "kubectl top pods -A")
        return
    ago = facts.now - max(times)
    if ago > _NEWS:
        told = f"its newest word about any pod is {span(ago)} old"
        fix = "kubectl -n kube-system logs deployment/metrics-server --tail=50"
        yield Finding(Check.METRICS, Level.SERIOUS, about, told, fix)
        return
    yield Finding(Check.METRICS, Level.FINE, about, f"its newest word is {span(ago)} old")


def _without_metrics(about: str, found: Unasked, facts: Facts) -> Finding:
    """Judge that no metrics server answers by where our recommenders read usage."""
    recommenders = ours("recommender", facts)
    if recommenders:
        if all(flag(one, "use-external-metrics") not in ("", "false") for one in recommenders):
            told = "nobody answers, and nobody asks: usage comes from external metrics"
            return Finding(Check.METRICS, Level.NOTE, about, told)
        if all(flag(one, "storage") == "prometheus" for one in recommenders):
            told = f"only Prometheus tells how much pods use, at a start: {found.why}"
            return Finding(Check.METRICS, Level.WARNING, about, told, _METRICS_SERVER)
    if found.is_refused:
        return unknown(Check.METRICS, about, found)
    told = f"nobody tells how much pods use: {found.why}"
    return Finding(Check.METRICS, Level.SERIOUS, about, told, _METRICS_SERVER)


def _timestamp(item: Json) -> datetime | None:
    try:
        return time_at(item, "timestamp", "")
    except BadObject:
        return None
