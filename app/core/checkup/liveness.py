"""Whether everything lives: certificates, Leases, the source of metrics, and the processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from app.core.checkup.facts import Facts, Json
from app.core.checkup.findings import Check, Finding, Level, Unasked, unknown
from app.core.rotation import defect
from app.model.amounts import span
from app.model.errors import BadObject
from app.model.fields import object_at, time_at

HEARTBEAT: Final = "vpa-admission-controller"
LEADERS: Final = ("vpa-recommender-lease", "vpa-recommender", "vpa-updater", "vpa-updater-lease")
COMPONENTS: Final = ("admission-controller", "recommender", "updater")
_FRESH: Final = timedelta(minutes=1)
_DEAD: Final = timedelta(minutes=2)
_SOON: Final = timedelta(days=7)
_NEWS: Final = timedelta(minutes=5)
_UPSTREAM: Final = re.compile(rf"(?:^|/)vpa-({'|'.join(COMPONENTS)})(?:[:@-]|$)")
_OURS: Final = "plumbline"
_METRICS_SERVER: Final = (
    "kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/"
    "components.yaml"
)


def of_certificate(facts: Facts) -> Iterator[Finding]:
    """Judge the certificate that the webhook serves."""
    found, about = facts.certificate, "secret/vpa-tls-certs"
    if isinstance(found, Unasked):
        yield unknown(Check.CERTIFICATE, about, found)
        return
    if found is None:
        told = "there is none; it may be given by other means"
        yield Finding(Check.CERTIFICATE, Level.NOTE, about, told, is_absence=True)
        return
    fix = (
        f"kubectl -n {facts.namespace} delete {about} && "
        f"kubectl -n {facts.namespace} rollout restart deployment/vpa-admission-controller"
    )
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


def of_leases(facts: Facts) -> Iterator[Finding]:
    """Judge who gives a sign of life."""
    if isinstance(facts.leases, Unasked):
        yield unknown(Check.LEASES, "lease", facts.leases)
        return
    known = {item.get("metadata", {}).get("name"): item for item in facts.leases}
    yield _heartbeat(known.get(HEARTBEAT), facts)
    for name in LEADERS:
        if name in known and (found := _leader(name, known[name], facts)):
            yield found


def _heartbeat(item: Json | None, facts: Facts) -> Finding:
    about = f"lease/{HEARTBEAT}"
    fix = f"kubectl -n {facts.namespace} logs deployment/vpa-admission-controller --tail=50"
    if item is None:
        told = "the webhook never gave a sign, so the updater evicts nobody"
        fix = "plumbline manifests admission | kubectl apply -f -"
        return Finding(Check.LEASES, Level.SERIOUS, about, told, fix, is_absence=True)
    renewed = _renewed(item)
    if renewed is None or facts.now - renewed > _FRESH:
        ago = "an unknown time" if renewed is None else span(facts.now - renewed)
        told = f"the webhook gave its last sign {ago} ago, so the updater evicts nobody"
        return Finding(Check.LEASES, Level.SERIOUS, about, told, fix)
    return Finding(Check.LEASES, Level.FINE, about, f"renewed {span(facts.now - renewed)} ago")


def _leader(name: str, item: Json, facts: Facts) -> Finding | None:
    holder, renewed = item.get("spec", {}).get("holderIdentity"), _renewed(item)
    if not holder or renewed is None:
        return None
    about, ago = f"lease/{name}", facts.now - renewed
    if ago <= _DEAD:
        return Finding(Check.LEASES, Level.FINE, about, f"{holder} leads")
    told = f"{holder} led, and gave its last sign {span(ago)} ago; nobody took over"
    fix = f"kubectl -n {facts.namespace} get pods -l app.kubernetes.io/name=plumbline"
    return Finding(Check.LEASES, Level.SERIOUS, about, told, fix)


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
    """Judge that nobody answers by where our recommenders read usage."""
    items = () if isinstance(facts.deployments, Unasked) else facts.deployments
    recommenders = _by_component(items)[0].get("recommender", [])
    if recommenders:
        if all(_flag(one, "use-external-metrics") not in ("", "false") for one in recommenders):
            told = "nobody answers, and nobody asks: usage comes from external metrics"
            return Finding(Check.METRICS, Level.NOTE, about, told)
        if all(_flag(one, "storage") == "prometheus" for one in recommenders):
            told = f"only Prometheus tells how much pods use, at a start: {found.why}"
            return Finding(Check.METRICS, Level.WARNING, about, told, _METRICS_SERVER)
    told = f"nobody tells how much pods use: {found.why}"
    return Finding(Check.METRICS, Level.SERIOUS, about, told, _METRICS_SERVER)


def _timestamp(item: Json) -> datetime | None:
    try:
        return time_at(item, "timestamp", "")
    except BadObject:
        return None


def of_components(facts: Facts) -> Iterator[Finding]:
    """Judge which processes run, ours and upstream's."""
    if isinstance(facts.deployments, Unasked):
        yield unknown(Check.COMPONENTS, "deployment", facts.deployments)
        return
    ours, theirs = _by_component(facts.deployments)
    for component in COMPONENTS:
        mine, upstream = ours.get(component, []), theirs.get(component, [])
        yield from (_ready(component, item) for item in mine)
        yield from (_upstream(component, item, mine) for item in upstream)
        if not mine and not upstream:
            about = f"deployment/vpa-{component}"
            told = "it was not found; it may run by other means"
            yield Finding(Check.COMPONENTS, Level.NOTE, about, told, is_absence=True)


_Found = Mapping[str, list[Json]]


def _by_component(deployments: Sequence[Json]) -> tuple[_Found, _Found]:
    ours: dict[str, list[Json]] = {}
    theirs: dict[str, list[Json]] = {}
    for item in deployments:
        labels = item.get("metadata", {}).get("labels") or {}
        component = labels.get("app.kubernetes.io/component")
        if labels.get("app.kubernetes.io/name") == _OURS and component in COMPONENTS:
            ours.setdefault(component, []).append(item)
            continue
        for container in _containers(item):
            if found := _UPSTREAM.search(str(container.get("image"))):
                theirs.setdefault(found[1], []).append(item)
    return ours, theirs


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
        return Finding(Check.COMPONENTS, Level.NOTE, about, f"upstream's {component} runs", fix)
    if _is_aside(component, item, ours):
        told = f"upstream's {component} runs beside ours, and they do not meet"
        return Finding(Check.COMPONENTS, Level.FINE, about, told)
    told = f"upstream's {component} still runs, and does the same as ours"
    return Finding(Check.COMPONENTS, Level.SERIOUS, about, told, fix)


def _is_aside(component: str, upstream: Json, ours: Sequence[Json]) -> bool:
    """Whether two processes have agreed on who does what."""
    if component == "updater":
        return all(_flag(item, "dry-run") not in ("", "false") for item in ours)
    if component == "recommender":
        theirs = _flag(upstream, "recommender-name") or "default"
        return all((_flag(item, "recommender-name") or "default") != theirs for item in ours)
    return False


def _flag(item: Json, name: str) -> str:
    """Return the value of a flag on a Deployment's command line, empty if it is not there."""
    words = [
        word
        for one in _containers(item)
        for key in ("command", "args")
        for word in one.get(key) or ()
    ]
    for index, word in enumerate(words):
        flag, equals, value = str(word).lstrip("-").partition("=")
        if flag == name:
            following = words[index + 1 : index + 2]
            return value if equals else "".join(map(str, following)) or "true"
    return ""
