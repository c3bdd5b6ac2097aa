"""How the API server asks the webhook: for what, of which namespaces, where, in which order."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Final

from app.admission.core.rotation import Generation, fingerprints
from app.diagnosis.core.facts import (
    Facts,
    Finding,
    Level,
    TrialOutcome,
    TrialResult,
    Unasked,
    known,
    unknown,
)
from app.diagnosis.core.hooks import Hook, all_hooks, hooks, validating_hooks
from app.diagnosis.core.processes import (
    ADMISSION,
    logs_of,
    only_recommends,
    ours,
    place_of,
    with_flag,
)

_CONFIGURATION: Final = "vpa-webhook-config"
_ABOUT: Final = f"mutatingwebhookconfiguration/{_CONFIGURATION}"
_VPAS: Final = ("autoscaling.k8s.io", "verticalpodautoscalers")
_POD: Final = ("", "pods")
_LONG_SECONDS: Final = 10
_USUAL_SECONDS: Final = 10  # where nothing is said
_MOST_NAMED: Final = 3
_USUAL: Final = {
    "timeoutSeconds": (5, "--webhook-timeout-seconds=5"),
    "failurePolicy": ("Ignore", "--webhook-failure-policy-fail=false"),
}


def of_webhook(facts: Facts) -> Iterator[Finding]:
    """Judge how the webhook is registered, and whether it is asked."""
    known(facts.mutating, _ABOUT)
    found = hooks(facts)
    if not found:
        yield _absence(facts)
        return
    yield from _several(found, facts)
    for hook in found:
        flaws = [
            *_rules(hook, facts),
            *_manners(hook, facts),
            *_trust(hook, facts),
            *_endpoints(hook, facts),
        ]
        yield from flaws
        if all(flaw.level is Level.NOTE for flaw in flaws):
            yield Finding(Level.FINE, hook.about, "asked for new pods and for VPAs")
    yield from _order(found[0], facts)
    if any(hook.is_ours for hook in found):
        yield from _validation(facts)
    else:
        yield from map(_left_behind, validating_hooks(facts))
    yield _trial(facts)


def _absence(facts: Facts) -> Finding:
    if only_recommends(facts):
        told = "no webhook is registered, and only a recommender is installed: no pod is changed"
        return Finding(Level.NOTE, _ABOUT, told)
    told = "no webhook is registered, so no pod is sized when it is created"
    return Finding(Level.SERIOUS, _ABOUT, told, logs_of(ADMISSION, facts), is_absence=True)


def _validation(facts: Facts) -> Iterator[Finding]:
    """Judge the webhook that sees VPAs as they will be stored."""
    about = f"validatingwebhookconfiguration/{_CONFIGURATION}"
    if isinstance(facts.validating, Unasked):
        yield unknown(about, facts.validating)
        return
    found = validating_hooks(facts)
    if not found:
        told = "it is missing, so mistakes that other webhooks make in VPAs pass"
        yield Finding(Level.WARNING, about, told, _restart(facts))
    for hook in found:
        yield from (*_manners(hook, facts), *_trust(hook, facts))


def _left_behind(hook: Hook) -> Finding:
    """Report a registration that nothing answers any more."""
    told = "our webhook is gone and this was left behind, so each change of a VPA waits for it"
    return Finding(Level.WARNING, hook.about, told, f"kubectl delete {hook.about}")


def _restart(facts: Facts) -> str:
    namespace, process = place_of(ADMISSION, facts)
    return f"kubectl -n {namespace} rollout restart {process}"


def _mend(hook: Hook, facts: Facts) -> str:
    """Return what to look at: ours is put in order by its process, if that can; others are not."""
    return logs_of(ADMISSION, facts) if hook.is_kept else f"kubectl get {hook.about} -o yaml"


def _several(found: Sequence[Hook], facts: Facts) -> Iterator[Finding]:
    """Report webhooks that are asked about the same pods."""
    meeting = [
        hook
        for hook in found
        if any(not hook.is_apart(other) for other in found if other is not hook)
    ]
    if not meeting:
        return
    names = [hook.configuration for hook in meeting]
    stays = _CONFIGURATION if _CONFIGURATION in names else names[0]
    others = {hook.configuration: hook for hook in meeting if hook.configuration != stays}
    told = f"pods are sized more than once: {', '.join(names)} do the same"
    gone = [stop for hook in others.values() if (stop := _stopped(hook, facts))]
    gone.append(f"kubectl delete mutatingwebhookconfiguration {' '.join(others)}")
    yield Finding(Level.SERIOUS, _ABOUT, told, " && ".join(gone))


def _stopped(hook: Hook, facts: Facts) -> str:
    """Return what stops the process that would put a configuration of ours back."""
    for one in ours(ADMISSION, facts) if hook.is_ours and hook.service else ():
        if one.namespace != facts.namespace and hook.leads_to(one.namespace):
            return f"kubectl -n {one.namespace} scale {one.about} --replicas=0"
    return ""


def _rules(hook: Hook, facts: Facts) -> Iterator[Finding]:
    fix = _mend(hook, facts)
    if not hook.covers(*_POD, "CREATE"):
        told = "it is not asked about new pods, so none is sized"
        yield Finding(Level.SERIOUS, hook.about, told, fix)
    if not all(hook.covers(*_VPAS, verb) for verb in ("CREATE", "UPDATE")):
        told = "it is not asked about VPAs, so their mistakes are found later, or never"
        yield Finding(Level.WARNING, hook.about, told, fix)


def _manners(hook: Hook, facts: Facts) -> Iterator[Finding]:
    about, item = hook.about, hook.item
    seconds = item.get("timeoutSeconds", _USUAL_SECONDS)
    if seconds > _LONG_SECONDS:
        told = f"every new pod may wait {seconds} s for a webhook that is down"
        yield Finding(Level.WARNING, about, told, _changed(hook, "timeoutSeconds", facts))
    if item.get("failurePolicy", "Fail") == "Fail":
        told = "its failure policy is Fail: while it is down no pod is created"
        yield Finding(Level.WARNING, about, told, _changed(hook, "failurePolicy", facts))
    if item.get("reinvocationPolicy") == "IfNeeded":
        told = "it may be asked twice, and then takes its own sizes for the pod's"
        yield Finding(Level.WARNING, about, told, f"kubectl edit {about}")
    for key in ("namespaceSelector", "objectSelector"):
        if hook.leaves_out(key):
            told = f"its {key} leaves some pods out; they are not sized"
            yield Finding(Level.NOTE, about, told, f"kubectl get {about} -o yaml")


def _changed(hook: Hook, field: str, facts: Facts) -> str:
    """Return what gives a field its usual value: a flag of ours, or else a patch."""
    value, flag = _USUAL[field]
    if hook.is_kept:
        return with_flag(flag, f"mutatingWebhookConfiguration.{field}={value}", facts)
    operation = {"op": "replace", "path": f"/webhooks/0/{field}", "value": value}
    return f"kubectl patch {hook.about} --type=json -p '{json.dumps([operation])}'"


def _trust(hook: Hook, facts: Facts) -> Iterator[Finding]:
    trusted = fingerprints(_decoded(hook.client.get("caBundle")))
    served = facts.certificate if hook.leads_to(facts.namespace) else None
    if not trusted:
        if hook.service is not None:
            told = "it carries no CA, so the API server trusts no answer"
            yield Finding(Level.SERIOUS, hook.about, told, _mend(hook, facts))
    elif isinstance(served, Generation) and not trusted & served.authorities:
        told = "its CA is not the one that signed the certificate in use"
        yield Finding(Level.SERIOUS, hook.about, told, _restart(facts))


def _endpoints(hook: Hook, facts: Facts) -> Iterator[Finding]:
    """Judge whether a pod stands behind the Service."""
    if hook.service is None:
        return
    namespace, name = hook.service
    about = f"service/{name}"
    ready = facts.endpoints.get(hook.service, Unasked("it was not asked for"))
    if isinstance(ready, Unasked):
        yield unknown(about, ready)
    elif not ready:
        told = f"no pod in namespace {namespace} is ready to answer for the webhook"
        yield Finding(Level.SERIOUS, about, told, f"kubectl -n {namespace} describe service {name}")


def _decoded(text: object) -> str:
    try:
        return b64decode(str(text or ""), validate=True).decode("ascii", "replace")
    except binascii.Error:
        return ""


def _order(ours: Hook, facts: Facts) -> Iterator[Finding]:
    """Report webhooks that change pods after ours; API servers ask in the order of names."""
    ours_by_name = {hook.configuration for hook in hooks(facts)}
    later = dict.fromkeys(
        hook.configuration
        for hook in all_hooks(facts.mutating, ours.kind)
        if hook.configuration > ours.configuration
        and hook.configuration not in ours_by_name
        and hook.covers(*_POD, "CREATE")
    )
    if later:
        named = ", ".join(list(later)[:_MOST_NAMED])
        told = f"asked after ours: {named}; what they add is not sized"
        yield Finding(Level.NOTE, ours.about, told)


def _trial(facts: Facts) -> Finding:
    """Judge what became of a VPA that the webhook must refuse."""
    tried, about = facts.tried, "webhook"
    if isinstance(tried, Unasked):
        return unknown(about, tried)
    if tried.trial is TrialOutcome.REFUSED:
        return Finding(Level.FINE, about, "it answers the API server")
    level, told = _missed(tried, facts)
    return Finding(level, about, told, logs_of(ADMISSION, facts))


def _missed(tried: TrialResult, facts: Facts) -> tuple[Level, str]:
    """Judge that the webhook did not refuse; what other selectors leave out is not known."""
    if tried.trial is TrialOutcome.NOT_CALLED:
        return Level.SERIOUS, f"the API server cannot ask the webhook: {tried.said}"
    asked = (hook for hook in hooks(facts) if not hook.leaves_out("objectSelector"))
    if any(hook.is_asked(tried.namespace) for hook in asked):
        return Level.SERIOUS, "a VPA with a mistake passes: the API server cannot reach the webhook"
    told = f"a VPA with a mistake passes in namespace {tried.namespace}, which may be left out"
    return Level.UNKNOWN, told
