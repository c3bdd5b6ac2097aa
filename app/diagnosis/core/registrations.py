"""How the API server asks the webhook: for what, of which namespaces, where, in which order."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from app.admission.core.rotation import Generation, fingerprints
from app.diagnosis.core.components import (
    ADMISSION,
    logs_of,
    only_recommends,
    ours,
    place_of,
    with_flag,
)
from app.diagnosis.core.facts import (
    Check,
    Facts,
    Finding,
    Level,
    TrialOutcome,
    TrialResult,
    Unasked,
    unknown,
)
from app.model.fields import Json

_NAME: Final = "kubernetes.io/metadata.name"  # the label that the API server gives by itself
_Demand = tuple[str, str, frozenset[str]]  # key, operator, values

HOOK: Final = "vpa.k8s.io"  # by this name any webhook for VPAs is known
_JUDGE: Final = f"validate.{HOOK}"  # ours alone
CONFIGURATION: Final = "vpa-webhook-config"
_ABOUT: Final = f"mutatingwebhookconfiguration/{CONFIGURATION}"
_VPAS: Final = ("autoscaling.k8s.io", "verticalpodautoscalers")
_POD: Final = ("", "pods")
_LONG_SECONDS: Final = 10
_USUAL_SECONDS: Final = 10  # where nothing is said
_MOST_NAMED: Final = 3


def is_asked(hook: Json, namespace: str) -> bool | None:
    """Say whether a webhook is asked about a namespace; None where other labels decide."""
    answers = [_fits(demand, namespace) for demand in _demands(hook)]
    if False in answers:
        return False
    return None if None in answers else True


def named(hook: Json) -> list[str]:
    """Return the namespaces that a selector names."""
    return sorted(
        name
        for key, operator, values in _demands(hook)
        if key == _NAME and operator == "In"
        for name in values
    )


def are_apart(one: Json, other: Json) -> bool:
    """Say whether two webhooks are never asked about the same namespace."""
    return any(_contradict(*pair) for pair in product(_demands(one), _demands(other)))


def _demands(hook: Json) -> Iterator[_Demand]:
    selector = hook.get("namespaceSelector") or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        yield str(key), "In", frozenset([str(value)])
    for each in selector.get("matchExpressions") or ():
        values = frozenset(map(str, each.get("values") or ()))
        yield str(each.get("key")), str(each.get("operator")), values


def _fits(demand: _Demand, namespace: str) -> bool | None:
    key, operator, values = demand
    if operator == "NotIn" and values == {""}:
        return True  # upstream leaves out the namespace without a name
    if key != _NAME or operator not in ("In", "NotIn"):
        return None
    return (namespace in values) is (operator == "In")


def _contradict(one: _Demand, other: _Demand) -> bool:
    (key, operator, values), (other_key, other_operator, other_values) = one, other
    if key != other_key:
        return False
    match operator, other_operator:
        case "In", "In":
            return not values & other_values
        case "In", "NotIn":
            return values <= other_values
        case "NotIn", "In":
            return other_values <= values
    return False


def hooks(facts: Facts) -> Iterator[tuple[str, Json]]:
    """Yield the mutating webhooks for VPAs, each with the name of its configuration."""
    for item in () if isinstance(facts.mutating, Unasked) else facts.mutating:
        for hook in item.get("webhooks") or ():
            if hook.get("name") == HOOK:
                yield _name(item), hook


def is_looked_at(hook: Json, facts: Facts) -> bool:
    """Say whether a webhook is led to the namespace that is looked at, or out of the cluster."""
    service = (hook.get("clientConfig") or {}).get("service")
    return service is None or service.get("namespace") == facts.namespace


def trial_namespace(facts: Facts) -> str | None:
    """Return where a VPA with a mistake should be refused, None if no such place is known."""
    found = [hook for _, hook in hooks(facts)]
    found = [hook for hook in found if is_looked_at(hook, facts)] or found
    places = ["default", facts.namespace, *(name for hook in found for name in named(hook))]
    if not found:
        return places[0]
    return next(
        (place for place in places if any(is_asked(hook, place) is not False for hook in found)),
        None,
    )


def of_webhook(facts: Facts) -> Iterator[Finding]:
    """Judge how the webhook is registered, and whether it is asked."""
    if isinstance(facts.mutating, Unasked):
        yield unknown(Check.WEBHOOK, _ABOUT, facts.mutating)
        return
    found = list(hooks(facts))
    if not found and only_recommends(facts):
        told = "no webhook is registered, and only a recommender is installed: no pod is changed"
        yield Finding(Check.WEBHOOK, Level.NOTE, _ABOUT, told)
        return
    if not found:
        told = "no webhook is registered, so no pod is sized when it is created"
        fix = logs_of(ADMISSION, facts)
        yield Finding(Check.WEBHOOK, Level.SERIOUS, _ABOUT, told, fix, is_absence=True)
        return
    yield from _several(found, facts)
    for name, hook in found:
        about = f"mutatingwebhookconfiguration/{name}"
        flaws = [
            *_rules(about, hook, facts),
            *_manners(about, hook, facts),
            *_trust(about, hook, facts),
            *_behind(hook, facts),
        ]
        yield from flaws
        if not any(flaw.level is not Level.NOTE for flaw in flaws):
            yield Finding(Check.WEBHOOK, Level.FINE, about, "asked for new pods and for VPAs")
    yield from _order(found[0][0], facts)
    if any(_is_ours(hook) for _, hook in found):
        yield from _judge(facts)
    else:
        yield from _left_behind(facts)
    yield from _trial(facts)


def _is_ours(hook: Json) -> bool:
    client = hook.get("clientConfig") or {}
    return (client.get("service") or {}).get("path") == "/mutate" or str(
        client.get("url")
    ).endswith("/mutate")


def _is_kept(hook: Json) -> bool:
    """Say whether a process of ours keeps a webhook as it should be."""
    return _is_ours(hook) or hook.get("name") == _JUDGE


def _judge(facts: Facts) -> Iterator[Finding]:
    """Judge the webhook that sees VPAs as they will be stored."""
    about = f"validatingwebhookconfiguration/{CONFIGURATION}"
    if isinstance(facts.validating, Unasked):
        yield unknown(Check.WEBHOOK, about, facts.validating)
        return
    found = [hook for _, hook in _judges(facts)]
    if not found:
        told = "it is missing, so mistakes that other webhooks make in VPAs pass"
        yield Finding(Check.WEBHOOK, Level.WARNING, about, told, _restart(facts))
    for hook in found:
        yield from (*_manners(about, hook, facts), *_trust(about, hook, facts))


def _judges(facts: Facts) -> Iterator[tuple[str, Json]]:
    """Yield the webhooks that ours alone answer, each with the name of its configuration."""
    for item in () if isinstance(facts.validating, Unasked) else facts.validating:
        for hook in item.get("webhooks") or ():
            if hook.get("name") == _JUDGE:
                yield _name(item), hook


def _left_behind(facts: Facts) -> Iterator[Finding]:
    """Report registrations that nothing answers any more."""
    for name, _ in _judges(facts):
        about = f"validatingwebhookconfiguration/{name}"
        told = "our webhook is gone and this was left behind, so each change of a VPA waits for it"
        yield Finding(Check.WEBHOOK, Level.WARNING, about, told, f"kubectl delete {about}")


def _restart(facts: Facts) -> str:
    namespace, process = place_of(ADMISSION, facts)
    return f"kubectl -n {namespace} rollout restart {process}"


def _mend(about: str, hook: Json, facts: Facts) -> str:
    """Return what to look at: ours is put in order by its process, if that can; others are not."""
    if _is_kept(hook):
        return logs_of(ADMISSION, facts)
    return f"kubectl get {about} -o yaml"


def _name(item: Json) -> str:
    return str(item.get("metadata", {}).get("name"))


def _several(found: Sequence[tuple[str, Json]], facts: Facts) -> Iterator[Finding]:
    """Tell of webhooks that are asked about the same pods."""
    names = [
        name
        for index, (name, hook) in enumerate(found)
        if any(not are_apart(hook, other) for at, (_, other) in enumerate(found) if at != index)
    ]
    if not names:
        return
    stays = CONFIGURATION if CONFIGURATION in names else names[0]
    others = {name: hook for name, hook in found if name in names and name != stays}
    told = f"pods are sized more than once: {', '.join(names)} do the same"
    gone = [stop for hook in others.values() if (stop := _stopped(hook, facts))]
    gone.append(f"kubectl delete mutatingwebhookconfiguration {' '.join(others)}")
    fix = " && ".join(gone)
    yield Finding(Check.WEBHOOK, Level.SERIOUS, _ABOUT, told, fix)


def _stopped(hook: Json, facts: Facts) -> str:
    """Return what stops the process that would put a configuration of ours back."""
    service = (hook.get("clientConfig") or {}).get("service") or {}
    for item in ours(ADMISSION, facts) if _is_ours(hook) else ():
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        if namespace == service.get("namespace") != facts.namespace:
            return f"kubectl -n {namespace} scale deployment/{name} --replicas=0"
    return ""


def _rules(about: str, hook: Json, facts: Facts) -> Iterator[Finding]:
    fix = _mend(about, hook, facts)
    if not _covers(hook, *_POD, "CREATE"):
        told = "it is not asked about new pods, so none is sized"
        yield Finding(Check.WEBHOOK, Level.SERIOUS, about, told, fix)
    if not all(_covers(hook, *_VPAS, verb) for verb in ("CREATE", "UPDATE")):
        told = "it is not asked about VPAs, so their mistakes are found later, or never"
        yield Finding(Check.WEBHOOK, Level.WARNING, about, told, fix)


def _covers(hook: Json, group: str, resource: str, verb: str) -> bool:
    return any(
        {group, "*"} & set(rule.get("apiGroups") or ())
        and {resource, "*", "*/*"} & set(rule.get("resources") or ())
        and {verb, "*"} & set(rule.get("operations") or ())
        for rule in hook.get("rules") or ()
    )


def _manners(about: str, hook: Json, facts: Facts) -> Iterator[Finding]:
    seconds = hook.get("timeoutSeconds", _USUAL_SECONDS)
    if seconds > _LONG_SECONDS:
        told = f"every new pod may wait {seconds} s for a webhook that is down"
        fix = _changed(about, hook, "timeoutSeconds", facts)
        yield Finding(Check.WEBHOOK, Level.WARNING, about, told, fix)
    if hook.get("failurePolicy", "Fail") == "Fail":
        told = "its failure policy is Fail: while it is down no pod is created"
        fix = _changed(about, hook, "failurePolicy", facts)
        yield Finding(Check.WEBHOOK, Level.WARNING, about, told, fix)
    if hook.get("reinvocationPolicy") == "IfNeeded":
        told = "it may be asked twice, and then takes its own sizes for the pod's"
        yield Finding(Check.WEBHOOK, Level.WARNING, about, told, f"kubectl edit {about}")
    for key in ("namespaceSelector", "objectSelector"):
        if _leaves_out(hook.get(key) or {}):
            told = f"its {key} leaves some pods out; they are not sized"
            yield Finding(Check.WEBHOOK, Level.NOTE, about, told, f"kubectl get {about} -o yaml")


_USUAL: Final = {
    "timeoutSeconds": (5, "--webhook-timeout-seconds=5"),
    "failurePolicy": ("Ignore", "--webhook-failure-policy-fail=false"),
}


def _changed(about: str, hook: Json, field: str, facts: Facts) -> str:
    """Return what gives a field its usual value: a flag of ours, or else a patch."""
    value, flag = _USUAL[field]
    if _is_kept(hook):
        return with_flag(flag, f"mutatingWebhookConfiguration.{field}={value}", facts)
    operation = {"op": "replace", "path": f"/webhooks/0/{field}", "value": value}
    return f"kubectl patch {about} --type=json -p '{json.dumps([operation])}'"


def _leaves_out(selector: Json) -> bool:
    """Whether a selector leaves something out; upstream leaves out the namespace without a name."""
    nothing = {"operator": "NotIn", "values": [""]}
    expressions = selector.get("matchExpressions") or ()
    return bool(selector.get("matchLabels")) or any(
        not nothing.items() <= expression.items() for expression in expressions
    )


def _trust(about: str, hook: Json, facts: Facts) -> Iterator[Finding]:
    client = hook.get("clientConfig") or {}
    trusted = fingerprints(_decoded(client.get("caBundle")))
    served = facts.certificate if is_looked_at(hook, facts) else None
    if not trusted:
        if client.get("service") is not None:
            told = "it carries no CA, so the API server trusts nobody who answers"
            yield Finding(Check.WEBHOOK, Level.SERIOUS, about, told, _mend(about, hook, facts))
    elif isinstance(served, Generation) and not trusted & served.authorities:
        told = "its CA is not the one that signed the certificate in use"
        yield Finding(Check.WEBHOOK, Level.SERIOUS, about, told, _restart(facts))


def _behind(hook: Json, facts: Facts) -> Iterator[Finding]:
    service = (hook.get("clientConfig") or {}).get("service")
    if service is not None:
        place = str(service.get("namespace")), str(service.get("name"))
        yield from _service(place, facts.endpoints.get(place, Unasked("it was not asked for")))


def _service(place: tuple[str, str], ready: int | Unasked) -> Iterator[Finding]:
    namespace, name = place
    about = f"service/{name}"
    if isinstance(ready, Unasked):
        yield unknown(Check.WEBHOOK, about, ready)
    elif not ready:
        told = f"no pod in namespace {namespace} is ready to answer for the webhook"
        fix = f"kubectl -n {namespace} describe service {name}"
        yield Finding(Check.WEBHOOK, Level.SERIOUS, about, told, fix)


def _decoded(text: object) -> str:
    try:
        return b64decode(str(text or ""), validate=True).decode("ascii", "replace")
    except binascii.Error:
        return ""


def _order(ours: str, facts: Facts) -> Iterator[Finding]:
    """Tell who changes pods after us; API servers ask in the order of names."""
    later = [
        _name(item)
        for item in (() if isinstance(facts.mutating, Unasked) else facts.mutating)
        if _name(item) > ours
        and any(_covers(hook, *_POD, "CREATE") for hook in item.get("webhooks") or ())
        and not any(hook.get("name") == HOOK for hook in item.get("webhooks") or ())
    ]
    if later:
        told = f"asked after ours: {', '.join(later[:_MOST_NAMED])}; what they add is not sized"
        yield Finding(Check.WEBHOOK, Level.NOTE, f"mutatingwebhookconfiguration/{ours}", told)


def _trial(facts: Facts) -> Iterator[Finding]:
    """Tell what became of a VPA that the webhook must refuse."""
    tried, about = facts.tried, "webhook"
    fix = logs_of(ADMISSION, facts)
    if isinstance(tried, Unasked):
        yield unknown(Check.WEBHOOK, about, tried)
    elif tried.trial is TrialOutcome.REFUSED:
        yield Finding(Check.WEBHOOK, Level.FINE, about, "it answers the API server")
    elif tried.trial is TrialOutcome.PASSED:
        yield _passed(about, tried, fix, facts)
    else:
        told = f"the API server cannot ask the webhook: {tried.said}"
        yield Finding(Check.WEBHOOK, Level.SERIOUS, about, told, fix)


def _passed(about: str, tried: TrialResult, fix: str, facts: Facts) -> Finding:
    """Judge that a VPA with a mistake was taken; what other selectors leave out is not known."""
    asked = (hook for _, hook in hooks(facts) if not _leaves_out(hook.get("objectSelector") or {}))
    if not any(is_asked(hook, tried.namespace) for hook in asked):
        told = f"a VPA with a mistake passes in namespace {tried.namespace}, which may be left out"
        return Finding(Check.WEBHOOK, Level.UNKNOWN, about, told, fix)
    told = "a VPA with a mistake passes: the API server cannot reach the webhook"
    return Finding(Check.WEBHOOK, Level.SERIOUS, about, told, fix)
