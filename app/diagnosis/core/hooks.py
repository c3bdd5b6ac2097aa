"""Webhooks as the API server knows them: where it calls them, about what, in which namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from app.diagnosis.core.facts import Facts, Objects, Unasked
from app.model.fields import Json

_NAME: Final = "kubernetes.io/metadata.name"  # the label that the API server gives by itself
_Demand = tuple[str, str, frozenset[str]]  # key, operator, values
_HOOK: Final = "vpa.k8s.io"  # by this name any webhook for VPAs is known
_VALIDATING_HOOK: Final = f"validate.{_HOOK}"  # ours alone


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook as it is registered."""

    configuration: str  # its name
    kind: str  # of the configuration, as kubectl calls it
    item: Json

    @property
    def about(self) -> str:
        """What kubectl calls its configuration."""
        return f"{self.kind}/{self.configuration}"

    @property
    def client(self) -> Json:
        """How it is called."""
        found: Json = self.item.get("clientConfig") or {}
        return found

    @property
    def service(self) -> tuple[str, str] | None:
        """Namespace and name of the Service that it is called by; None if it has a URL."""
        found = self.client.get("service")
        return None if found is None else (str(found.get("namespace")), str(found.get("name")))

    @property
    def is_ours(self) -> bool:
        """Whether our webhook is called."""
        path = (self.client.get("service") or {}).get("path")
        return path == "/mutate" or str(self.client.get("url")).endswith("/mutate")

    @property
    def is_kept(self) -> bool:
        """Whether a process of ours keeps it as it should be."""
        return self.is_ours or self.item.get("name") == _VALIDATING_HOOK

    def leads_to(self, namespace: str) -> bool:
        """Say whether it is led to a namespace, or out of the cluster."""
        return self.service is None or self.service[0] == namespace

    def covers(self, group: str, resource: str, verb: str) -> bool:
        """Say whether it is asked about a verb of a resource."""
        return any(
            {group, "*"} & set(rule.get("apiGroups") or ())
            and {resource, "*", "*/*"} & set(rule.get("resources") or ())
            and {verb, "*"} & set(rule.get("operations") or ())
            for rule in self.item.get("rules") or ()
        )

    @property
    def demands(self) -> Iterator[_Demand]:
        """What it demands of the labels of a namespace."""
        selector = self.item.get("namespaceSelector") or {}
        for key, value in (selector.get("matchLabels") or {}).items():
            yield str(key), "In", frozenset([str(value)])
        for each in selector.get("matchExpressions") or ():
            values = frozenset(map(str, each.get("values") or ()))
            yield str(each.get("key")), str(each.get("operator")), values

    @property
    def named_namespaces(self) -> list[str]:
        """The namespaces that it names."""
        return sorted(
            name
            for key, operator, values in self.demands
            if key == _NAME and operator == "In"
            for name in values
        )

    def is_asked(self, namespace: str) -> bool | None:
        """Say whether it is asked about a namespace; None where other labels decide."""
        answers = [_fits(demand, namespace) for demand in self.demands]
        if False in answers:
            return False
        return None if None in answers else True

    def is_apart(self, other: Hook) -> bool:
        """Say whether this and another one are never asked about the same namespace."""
        return any(_contradict(*pair) for pair in product(self.demands, other.demands))

    def leaves_out(self, key: str) -> bool:
        """Whether a selector of it leaves something out; upstream's, nothing with a name."""
        nothing = {"operator": "NotIn", "values": [""]}
        selector = self.item.get(key) or {}
        return bool(selector.get("matchLabels")) or any(
            not nothing.items() <= expression.items()
            for expression in selector.get("matchExpressions") or ()
        )


def hooks(facts: Facts) -> list[Hook]:
    """Return the mutating webhooks for VPAs."""
    return list(all_hooks(facts.mutating, "mutatingwebhookconfiguration", _HOOK))


def validating_hooks(facts: Facts) -> list[Hook]:
    """Return the webhooks that validate VPAs as they will be stored."""
    return list(all_hooks(facts.validating, "validatingwebhookconfiguration", _VALIDATING_HOOK))


def all_hooks(items: Objects, kind: str, name: str = "") -> Iterator[Hook]:
    """Yield webhooks of some configurations, all of them without a name."""
    for item in () if isinstance(items, Unasked) else items:
        configuration = str(item.get("metadata", {}).get("name"))
        for hook in item.get("webhooks") or ():
            if name in ("", hook.get("name")):
                yield Hook(configuration, kind, hook)


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


def trial_namespace(facts: Facts) -> str | None:
    """Return where a VPA with a mistake should be refused, None if no such place is known."""
    found = hooks(facts)
    if not found:
        return "default"
    found = [hook for hook in found if hook.leads_to(facts.namespace)] or found
    places = ["default", facts.namespace, *(name for one in found for name in one.named_namespaces)]
    return next(
        (place for place in places if any(hook.is_asked(place) is not False for hook in found)),
        None,
    )
