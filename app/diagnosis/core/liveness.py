"""Whether the processes do their work, by what they leave behind.

That is certificates, Leases, and the source of metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from app.admission.core.rotation import EXPIRY_ANNOTATION, Generation, defect
from app.diagnosis.core.facts import CouldNotLook, Facts, Finding, Level, Unasked, known
from app.diagnosis.core.processes import ADMISSION, logs_of, only_recommends, ours, place_of
from app.model.errors import BadObject
from app.model.fields import Json, object_at, time_at
from app.model.text import span

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
_METRICS: Final = "apiservice/v1beta1.metrics.k8s.io"
_METRICS_SERVER: Final = (
    "kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/"
    "components.yaml"
)


def of_certificate(facts: Facts) -> Iterator[Finding]:
    """Judge the certificate that the webhook serves."""
    about = f"secret/{facts.secret}"
    if isinstance(facts.certificate, Unasked) and (expiry := _told_expiry(facts)) is not None:
        level, message = _judged_expiry(expiry, facts.now)
        yield Finding(level, f"lease/{HEARTBEAT}", f"the webhook's certificate: {message}")
        return
    found = known(facts.certificate, about)
    if found is None:
        told = "there is none; it may be given by other means"
        yield Finding(Level.NOTE, about, told, is_absence=True)
    else:
        level, told = _judged(found, facts.now)
        fix = _certificate_fix(about, facts) if level is not Level.FINE else ""
        yield Finding(level, about, told, fix)


def _judged(found: Generation, now: datetime) -> tuple[Level, str]:
    if trouble := defect(found, now):
        return Level.SERIOUS, trouble
    if found.missing_names:
        return Level.SERIOUS, f"it is not made out to {', '.join(found.missing_names)}"
    return _judged_expiry(found.not_after, now)


def _told_expiry(facts: Facts) -> datetime | None:
    """Return until when the certificate is valid, as the webhook tells those who may not see it."""
    for item in () if isinstance(facts.leases, Unasked) else facts.leases:
        metadata = item.get("metadata") or {}
        annotations = metadata.get("annotations")
        if metadata.get("name") == HEARTBEAT and isinstance(annotations, dict):
            with suppress(BadObject):
                return time_at(annotations, EXPIRY_ANNOTATION, "metadata.annotations")
    return None


def _judged_expiry(not_after: datetime, now: datetime) -> tuple[Level, str]:
    left = not_after - now
    if left < timedelta():
        return Level.SERIOUS, f"it expired {span(-left)} ago"
    if left < _SOON:
        return Level.WARNING, f"it expires in {span(left)}, and was not renewed"
    return Level.FINE, f"good for another {span(left)}"


def _certificate_fix(about: str, facts: Facts) -> str:
    """Return what makes another certificate; of one that is given, what tells whose it is."""
    if facts.is_given:
        return f"kubectl -n {facts.namespace} describe {about}"
    namespace, process = place_of(ADMISSION, facts)
    return (
        f"kubectl -n {facts.namespace} patch {about} --type=merge -p '{{\"data\":null}}' && "
        f"kubectl -n {namespace} rollout restart {process}"
    )


def of_leases(facts: Facts) -> Iterator[Finding]:
    """Judge which processes renew their Leases."""
    leases = known(facts.leases, "lease")
    by_name = {str(item.get("metadata", {}).get("name")): item for item in leases}
    yield _heartbeat(by_name.get(HEARTBEAT), facts)
    for component, names in LEADERS.items():
        found = {name: by_name[name] for name in names if name in by_name}
        yield from _leaders(component, found, facts)


def _heartbeat(item: Json | None, facts: Facts) -> Finding:
    about, fix = f"lease/{HEARTBEAT}", logs_of(ADMISSION, facts)
    if item is None and only_recommends(facts):
        told = "there is no webhook to give a sign, and no updater that waits for it"
        return Finding(Level.NOTE, about, told)
    if item is None:
        told = "the webhook never gave a sign, so the updater evicts no pod"
        return Finding(Level.SERIOUS, about, told, fix, is_absence=True)
    renewed = _renewed(item)
    if renewed is None or facts.now - renewed > _FRESH:
        ago = "an unknown time" if renewed is None else span(facts.now - renewed)
        told = f"the webhook gave its last sign {ago} ago, so the updater evicts no pod"
        return Finding(Level.SERIOUS, about, told, fix)
    if renewed - facts.now > _AHEAD:
        told = f"it was renewed {span(renewed - facts.now)} from now: a node's clock is ahead"
        return Finding(Level.WARNING, about, told, "chronyc tracking  # on its node")
    ago = span(max(facts.now - renewed, timedelta()))
    return Finding(Level.FINE, about, f"renewed {ago} ago")


def _leaders(component: str, leases: Mapping[str, Json], facts: Facts) -> Iterator[Finding]:
    """Judge the leader; one that led before another took over is only noted."""
    held = {
        name: (item["spec"]["holderIdentity"], facts.now - renewed)
        for name, item in leases.items()
        if item.get("spec", {}).get("holderIdentity") and (renewed := _renewed(item)) is not None
    }
    is_led = any(ago <= _DEAD for _, ago in held.values())
    for name, (holder, ago) in held.items():
        about, home = f"lease/{name}", f"kubectl -n {facts.namespace}"
        if ago <= _DEAD:
            yield Finding(Level.FINE, about, f"{holder} leads")
        elif is_led or _works_alone(component, facts):
            how = "leads by another Lease" if is_led else f"is the only {component}, without one"
            told = f"{holder} led {span(ago)} ago; another process {how}"
            yield Finding(Level.NOTE, about, told, f"{home} delete {about}")
        else:
            told = f"{holder} led, and gave its last sign {span(ago)} ago; no replica took over"
            fix = f"{home} get pods -l app.kubernetes.io/name=plumbline"
            yield Finding(Level.SERIOUS, about, told, fix, is_absence=True)


def _works_alone(component: str, facts: Facts) -> bool:
    """Say whether the process runs without an election, as far as it is known."""
    found = ours(component, facts)
    return bool(found) and all(one.flag("leader-elect") in ("", "false") for one in found)


def _renewed(item: Json) -> datetime | None:
    with suppress(BadObject):
        return time_at(object_at(item, "spec", ""), "renewTime", "spec")
    return None


def _usage(level: Level, told: str, fix: str = "") -> Finding:
    return Finding(level, _METRICS, told, fix)


def of_metrics(facts: Facts) -> Iterator[Finding]:
    """Judge where usage comes from."""
    found = facts.metrics
    if isinstance(found, Unasked):
        yield _without_metrics(found, facts)
        return
    times = [moment for item in found if (moment := _timestamp(item)) is not None]
    if not times:
        told = "it answers, and knows of no pod"
        yield _usage(Level.WARNING, told, "kubectl top pods -A")
        return
    ago = facts.now - max(times)
    if ago > _NEWS:
        told = f"its newest sample of any pod is {span(ago)} old"
        fix = "kubectl -n kube-system logs deployment/metrics-server --tail=50"
        yield _usage(Level.SERIOUS, told, fix)
        return
    yield _usage(Level.FINE, f"its newest sample is {span(ago)} old")


def _without_metrics(found: Unasked, facts: Facts) -> Finding:
    """Judge that no metrics server answers by where our recommenders read usage."""
    recommenders = ours("recommender", facts)
    if recommenders:
        if all(one.flag("use-external-metrics") not in ("", "false") for one in recommenders):
            told = "it does not answer, and is not asked: usage comes from external metrics"
            return _usage(Level.NOTE, told)
        if all(one.flag("storage") == "prometheus" for one in recommenders):
            told = f"only Prometheus tells how much pods use, at a start: {found.why}"
            return _usage(Level.WARNING, told, _METRICS_SERVER)
    if found.is_refused:
        raise CouldNotLook(_METRICS, found)
    told = f"it does not tell how much pods use: {found.why}"
    return _usage(Level.SERIOUS, told, _METRICS_SERVER)


def _timestamp(item: Json) -> datetime | None:
    with suppress(BadObject):
        return time_at(item, "timestamp", "")
    return None
