"""What an API server fills into HorizontalPodAutoscalers, and what it refuses in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.model.quantity import ZERO, Quantity
from app.ports import Json
from app.sandbox.objects import copied, member
from app.sandbox.refusals import (
    FieldProblem,
    forbidden_field,
    required,
    unsupported,
    wrong,
)
from app.sandbox.resources import tidied

_PERCENT: Final = 80
_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_RESOURCES: Final = ("resource", "containerResource")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_AMOUNTS: Final = ("averageValue", "value")
_SELECTS: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_LONGEST_WINDOW_SECONDS: Final = 3600
_LONGEST_PERIOD_SECONDS: Final = 1800
_BY_PERCENT: Final[Json] = {"type": "Percent", "value": 100, "periodSeconds": 15}
_RULES: Final[Json] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _BY_PERCENT],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_BY_PERCENT]},
}
_NO_TARGET: Final = "must set either a target raw value or a target utilization"
_TWO_TARGETS: Final = "may not set both a target raw value and a target utilization"


def fill_hpa(item: Json) -> None:
    """Fill in what a HorizontalPodAutoscaler leaves out."""
    spec = item.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    for metric in spec["metrics"]:
        target = member(metric, f"{_SOURCES.get(metric.get('type'), '')}.target")
        for key in _AMOUNTS:
            if isinstance(target, dict) and target.get(key) is not None:
                target[key] = tidied(target[key], "HorizontalPodAutoscaler")
    if spec.get("behavior") is not None:
        for direction, usual in _RULES.items():
            told = spec["behavior"].get(direction) or {}
            known = {key: value for key, value in told.items() if value is not None}
            spec["behavior"][direction] = copied({**usual, **known})


def hpa_problems(item: Json, _old: Json | None) -> Iterator[FieldProblem]:
    """Yield what is wrong with a HorizontalPodAutoscaler."""
    spec = item["spec"]
    least, most = spec["minReplicas"], spec.get("maxReplicas") or 0
    if least < 1:
        yield wrong("spec.minReplicas", least, "must be greater than or equal to 1")
    if not most:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield wrong("spec.maxReplicas", most, "must be greater than or equal to 1")
    if most < least:
        detail = "must be greater than or equal to `minReplicas`"
        yield wrong("spec.maxReplicas", most, detail)
    for key in ("kind", "name"):
        if not member(spec, f"scaleTargetRef.{key}"):
            yield required(f"spec.scaleTargetRef.{key}")
    for place, metric in enumerate(spec["metrics"]):
        yield from _metric_problems(metric, f"spec.metrics[{place}]")
    for direction, rules in (spec.get("behavior") or {}).items():
        yield from _rule_problems(rules, f"spec.behavior.{direction}")


def _metric_problems(metric: Json, path: str) -> Iterator[FieldProblem]:
    kind = metric.get("type") or ""
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield unsupported(f"{path}.type", kind, _SOURCES)
        return
    key = _SOURCES[kind]
    if not metric.get(key):
        yield required(f"{path}.{key}", "must populate information for the given metric source")
    for other in _SOURCES.values():
        if other != key and metric.get(other):
            detail = "must populate the given metric source only"
            yield forbidden_field(f"{path}.{other}", detail)
    if key in _RESOURCES and metric.get(key):
        yield from _source_problems(metric[key], key, f"{path}.{key}")


def _source_problems(source: Json, key: str, path: str) -> Iterator[FieldProblem]:
    if not source.get("name"):
        yield required(f"{path}.name", "must specify a resource name")
    if key == "containerResource" and not source.get("container"):
        yield required(f"{path}.container", "must specify a container")
    target, at = source.get("target") or {}, f"{path}.target"
    kind, percent = target.get("type") or "", target.get("averageUtilization")
    if not kind:
        yield required(f"{at}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield wrong(f"{at}.type", kind, "must be either Utilization, Value, or AverageValue")
    for name in _AMOUNTS:
        if target.get(name) is not None and Quantity.read(target[name]) <= ZERO:
            yield wrong(f"{at}.{name}", target[name], "must be positive")
    if percent is not None and percent < 1:
        yield wrong(f"{at}.averageUtilization", percent, "must be greater than 0")
    if percent is None and target.get("averageValue") is None:
        yield required(f"{at}.averageUtilization", _NO_TARGET)
    if percent is not None and target.get("averageValue") is not None:
        yield forbidden_field(f"{at}.averageValue", _TWO_TARGETS)


def _rule_problems(rules: Json, path: str) -> Iterator[FieldProblem]:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None:
        at = f"{path}.stabilizationWindowSeconds"
        yield from _range(at, window, 0, "or equal to zero", _LONGEST_WINDOW_SECONDS)
    if rules["selectPolicy"] not in _SELECTS:
        yield unsupported(f"{path}.selectPolicy", rules["selectPolicy"], _SELECTS)
    if not rules["policies"]:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for place, policy in enumerate(rules["policies"]):
        at = f"{path}.policies[{place}]"
        if policy.get("type") not in _POLICIES:
            yield unsupported(f"{at}.type", policy.get("type") or "", _POLICIES)
        if (policy.get("value") or 0) <= 0:
            yield wrong(f"{at}.value", policy.get("value") or 0, "must be greater than zero")
        period = policy.get("periodSeconds") or 0
        yield from _range(f"{at}.periodSeconds", period, 1, "zero", _LONGEST_PERIOD_SECONDS)


def _range(path: str, value: int, least: int, words: str, most: int) -> Iterator[FieldProblem]:
    if value < least:
        yield wrong(path, value, f"must be greater than {words}")
    if value > most:
        yield wrong(path, value, f"must be less than or equal to {most}")
